package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/installer/plan"
	"github.com/pluralsh/plural/workspace/compose"
)

// pack is an installation whose steps are "name", "name<need,need" or "name!installation/step" (waiting for its outputs).
func pack(name string, dependsOn []string, steps ...string) *compose.Composed {
	c := &compose.Composed{Name: name, Version: "1.0.0", DependsOn: dependsOn}
	for _, text := range steps {
		text, waiting, _ := strings.Cut(text, "!")
		text, needs, _ := strings.Cut(text, "<")
		s := compose.Step{Name: text, Kind: compose.Service, Digest: "digest of " + name + "/" + text}
		if needs != "" {
			s.Needs = strings.Split(needs, ",")
		}
		if waiting != "" {
			s.Waiting, s.Digest = []string{waiting}, ""
		}
		c.Steps = append(c.Steps, s)
	}
	return c
}

// diamond is base, with left and right upon it, under top.
func diamond() []*compose.Composed {
	return []*compose.Composed{
		pack("top", []string{"left", "right"}, "app"),
		pack("right", []string{"base"}, "chart"),
		pack("left", []string{"base"}, "chart"),
		pack("base", nil, "network", "cluster<network"),
	}
}

func of(t *testing.T, wanted []*compose.Composed, done *ledger.Record) *plan.Plan {
	t.Helper()
	p, err := plan.Of(wanted, done, plan.Facts{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// carriedOut is the record after a plan was carried out.
func carriedOut(p *plan.Plan, wanted []*compose.Composed, before *ledger.Record) *ledger.Record {
	out := &ledger.Record{Installations: map[string]*ledger.Installation{}}
	for name, i := range before.Installations {
		out.Installations[name] = i
	}
	for _, s := range p.Steps {
		name := s.ID.Installation()
		switch s.Action {
		case plan.Run:
			i := out.Installations[name]
			if i == nil {
				i = &ledger.Installation{Steps: map[string]*ledger.Step{}}
				out.Installations[name] = i
			}
			at := slices.IndexFunc(wanted, func(c *compose.Composed) bool { return c.Name == name })
			i.Version, i.DependsOn = wanted[at].Version, wanted[at].DependsOn
			var needs []string
			for _, need := range s.Needs {
				if need.Installation() == name {
					needs = append(needs, need.Step())
				}
			}
			i.Steps[s.ID.Step()] = &ledger.Step{Kind: s.Kind, Digest: s.Digest, Parts: s.Parts, Needs: needs, Finished: time.Unix(1, 0)}
		case plan.Remove:
			delete(out.Installations[name].Steps, s.ID.Step())
			if len(out.Installations[name].Steps) == 0 {
				delete(out.Installations, name)
			}
		}
	}
	return out
}

func empty() *ledger.Record {
	return &ledger.Record{Installations: map[string]*ledger.Installation{}}
}

func lines(p *plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		line := fmt.Sprintf("%s %s", s.Action, s.ID)
		if s.Reason != "" {
			line += ": " + s.Reason
		}
		out = append(out, line)
	}
	return out
}

func TestWhatItsClusterLostIsPutThereAgainWithWhatComesAfterIt(t *testing.T) {
	all := diamond()
	done := carriedOut(of(t, all, empty()), all, empty())
	p, err := plan.Of(all, done, plan.Facts{Gone: []string{"left"}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[plan.ID]string{}
	for _, s := range p.Steps {
		if s.Action == plan.Run {
			got[s.ID] = s.Reason
		}
	}
	want := map[plan.ID]string{"left/chart": "it is gone from its cluster", "top/app": "after left/chart"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps to run (-want +got):\n%s", diff)
	}
}

func TestAFirstDeployRunsEverythingInTheOrderOfDependencies(t *testing.T) {
	p := of(t, diamond(), empty())
	want := []string{
		"run base/network: new", "run base/cluster: new", "run left/chart: new", "run right/chart: new",
		"run top/app: new",
	}
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Error(diff)
	}
	if got := p.Steps[4].Needs; !slices.Equal(got, []plan.ID{"left/chart", "right/chart"}) {
		t.Errorf("top needs %v", got)
	}
	if got := p.Steps[2].Needs; !slices.Contains(got, "base/cluster") || slices.Contains(got, "right/chart") {
		t.Errorf("left needs %v", got)
	}
}

func TestWhatIsUnchangedIsNotDoneAgain(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	if p := of(t, diamond(), record); p.Changes() || p.Count(plan.Unchanged) != 5 {
		t.Error(lines(p))
	}
}

func TestAChangeReachesWhatComesAfterAndNothingElse(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	cases := []struct {
		name   string
		change func([]*compose.Composed)
		want   []string
	}{
		{
			"a leaf", func(all []*compose.Composed) { all[0].Steps[0].Digest = "other" },
			[]string{
				"unchanged base/network", "unchanged base/cluster", "unchanged left/chart", "unchanged right/chart",
				"run top/app: what it reads changed",
			},
		},
		{
			"one side", func(all []*compose.Composed) { all[2].Steps[0].Digest = "other"; all[2].Version = "1.1.0" },
			[]string{
				"unchanged base/network", "unchanged base/cluster", "run left/chart: version 1.0.0 -> 1.1.0",
				"unchanged right/chart", "run top/app: after left/chart",
			},
		},
		{
			"the root", func(all []*compose.Composed) { all[3].Steps[1].Digest = "other" },
			[]string{
				"unchanged base/network", "run base/cluster: what it reads changed", "run left/chart: after base/cluster",
				"run right/chart: after base/cluster", "run top/app: after left/chart",
			},
		},
		{"outputs that went missing", func(all []*compose.Composed) {
			all[2].Steps[0].Digest, all[2].Steps[0].Waiting = "", []string{"base/cluster"}
		}, []string{"unchanged base/network", "unchanged base/cluster", "run left/chart: the outputs of base/cluster are not there", "unchanged right/chart", "run top/app: after left/chart"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			all := diamond()
			c.change(all)
			if diff := cmp.Diff(c.want, lines(of(t, all, record))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnotherVersionOfTheToolRunsTheStepAgain(t *testing.T) {
	all := []*compose.Composed{pack("base", nil, "network")}
	first, err := plan.Of(all, empty(), plan.Facts{Tools: map[plan.ID]string{"base/network": "terraform 1.11.4"}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan.Of(all, carriedOut(first, all, empty()),
		plan.Facts{Tools: map[plan.ID]string{"base/network": "terraform 1.12.0"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(second); got[0] != "run base/network: terraform 1.11.4 -> terraform 1.12.0" {
		t.Error(got)
	}
}

func TestAClusterThatIsNewRunsTheStepsThatAreForIt(t *testing.T) {
	all := []*compose.Composed{pack("base", nil, "chart", "other")}
	on := func(clusters ...string) plan.Facts {
		return plan.Facts{Clusters: map[plan.ID][]string{"base/chart": clusters}}
	}
	first, err := plan.Of(all, empty(), on("a"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := plan.Of(all, carriedOut(first, all, empty()), on("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run base/chart: it is for other clusters", "unchanged base/other"}, lines(second)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWantedNoLongerGoesInTheOppositeOrder(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	p := of(t, diamond()[3:], record)
	want := []string{
		"unchanged base/network", "unchanged base/cluster", "remove top/app: no longer wanted",
		"remove left/chart: no longer wanted", "remove right/chart: no longer wanted",
	}
	if diff := cmp.Diff(want, lines(p)); diff != "" {
		t.Error(diff)
	}
	record.Installations["left"].Protected = true
	if got := lines(of(t, diamond()[3:], record)); !slices.Contains(got, "keep left/chart: protected") {
		t.Error(got)
	}
}

func TestWhatAProtectedPackageNeedsStaysWithItWhenBothAreWantedNoLonger(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	record.Installations["left"].Protected = true
	want := []string{
		"remove top/app: no longer wanted", "keep left/chart: protected", "remove right/chart: no longer wanted",
		"keep base/cluster: needed by left, which is protected", "keep base/network: needed by left, which is protected",
	}
	got := lines(of(t, nil, record))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAProtectedPackageThatStaysNeedsNoLongerGoes(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	record.Installations["left"].Protected = true
	alone := pack("left", nil, "chart")
	alone.Protected = true
	if got := lines(of(t, []*compose.Composed{alone}, record)); !slices.Contains(got, "remove base/network: no longer wanted") {
		t.Error(got)
	}
}

func TestThatAPackageIsProtectedFromNowOnIsAChange(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	all := diamond()
	all[0].Protected = true
	p := of(t, all, record)
	if p.Count(plan.Run) != 0 || !p.Changes() || !p.Only([]string{"top"}).Changes() || p.Only([]string{"left"}).Changes() {
		t.Errorf("%v, %v", lines(p), p.Protect)
	}
	record.Installations["top"].Protected = true
	if p := of(t, all, record); p.Changes() {
		t.Errorf("it is recorded, and yet: %v", p.Protect)
	}
	if p := of(t, diamond(), record); p.Protect["top"] || !p.Changes() {
		t.Errorf("it is protected no longer, and yet: %v", p.Protect)
	}
}

func TestAStepWhoseConditionEndsIsTakenDown(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	all := diamond()
	all[2].Steps[0].Skipped = true
	p := of(t, all, record)
	got := lines(p)
	if !slices.Contains(got, "skipped left/chart: its condition does not hold") || !slices.Contains(got, "remove left/chart: no longer wanted") {
		t.Error(got)
	}
}

func TestDownKeepsWhatIsProtectedAndWhatThatNeeds(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	record.Installations["left"].Protected = true
	p := plan.Down(record, "top")
	want := []string{
		"remove top/app: down", "keep left/chart: protected", "remove right/chart: down",
		"keep base/cluster: needed by left, which is protected", "keep base/network: needed by left, which is protected",
	}
	got := lines(p)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestACycleIsNamed(t *testing.T) {
	_, err := plan.Of([]*compose.Composed{
		pack("a", []string{"b"}, "x"), pack("b", []string{"c"}, "x"),
		pack("c", []string{"a"}, "x"),
	}, empty(), plan.Facts{})
	var cycle *plan.CycleError
	if !errors.As(err, &cycle) || err.Error() != "these wait for each other: a -> b -> c -> a" {
		t.Error(err)
	}
	_, err = plan.Of([]*compose.Composed{pack("a", nil, "x<y", "y<x")}, empty(), plan.Facts{})
	if !errors.As(err, &cycle) || err.Error() != "these wait for each other: a/x -> a/y -> a/x" {
		t.Error(err)
	}
}

func TestOnlyBringsAlongWhatIsNeeded(t *testing.T) {
	p := of(t, diamond(), empty()).Only([]string{"left"})
	if got := lines(p); !slices.Equal(got, []string{"run base/network: new", "run base/cluster: new", "run left/chart: new"}) {
		t.Error(got)
	}
}

func TestOnlyTakesDownWhatNeedsTheNamedToo(t *testing.T) {
	record := carriedOut(of(t, diamond(), empty()), diamond(), empty())
	if got := lines(plan.Down(record).Only([]string{"left"})); !slices.Equal(got, []string{"remove top/app: down", "remove left/chart: down"}) {
		t.Error(got)
	}
}

// Whatever the packages are: each step comes after all that it needs, and once carried out, nothing is left to do.
func TestEveryPlanIsInOrderAndIsDoneOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "packages")
		var all []*compose.Composed
		for i := range n {
			c := &compose.Composed{Name: fmt.Sprintf("p%d", i), Version: "1.0.0"}
			for j := range i {
				if rapid.Bool().Draw(t, "depends") {
					c.DependsOn = append(c.DependsOn, fmt.Sprintf("p%d", j))
				}
			}
			for k := range rapid.IntRange(0, 4).Draw(t, "steps") {
				s := compose.Step{
					Name: fmt.Sprintf("s%d", k), Kind: compose.Service, Digest: rapid.String().Draw(t, "digest"),
					Skipped: rapid.Bool().Draw(t, "skipped"),
				}
				if k > 0 && rapid.Bool().Draw(t, "needs") {
					s.Needs = []string{fmt.Sprintf("s%d", rapid.IntRange(0, k-1).Draw(t, "need"))}
				}
				c.Steps = append(c.Steps, s)
			}
			all = append(all, c)
		}
		slices.Reverse(all)
		p, err := plan.Of(all, empty(), plan.Facts{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[plan.ID]bool{}
		for _, s := range p.Steps {
			for _, need := range s.Needs {
				if !seen[need] {
					t.Fatalf("%s comes before %s", s.ID, need)
				}
			}
			seen[s.ID] = true
		}
		record := carriedOut(p, all, empty())
		again, err := plan.Of(all, record, plan.Facts{})
		if err != nil || again.Changes() {
			t.Fatal(lines(again), err)
		}
		down := plan.Down(record)
		if record = carriedOut(down, all, record); len(record.Installations) != 0 {
			t.Fatalf("left: %v", record.Installations)
		}
	})
}

func BenchmarkPlan500Packages(b *testing.B) {
	var all []*compose.Composed
	for i := range 500 {
		var depends []string
		for _, step := range []int{1, 7, 50} {
			if i >= step {
				depends = append(depends, fmt.Sprintf("p%03d", i-step))
			}
		}
		all = append(all, pack(fmt.Sprintf("p%03d", i), depends, "network", "chart<network", "ready<chart"))
	}
	first, err := plan.Of(all, empty(), plan.Facts{})
	if err != nil {
		b.Fatal(err)
	}
	record := carriedOut(first, all, empty())
	for b.Loop() {
		if p, err := plan.Of(all, record, plan.Facts{}); err != nil || p.Changes() {
			b.Fatal(err)
		}
	}
	fmt.Printf("bench plan_500_packages_ms %.2f ms\n", float64(b.Elapsed().Microseconds())/float64(b.N)/1000) //nolint:forbidigo // what make bench reads
}

func TestDigestChangesWithEachThingThatItIsMadeOf(t *testing.T) {
	settled := func(inputs, cluster, need, of string) string {
		s := plan.Step{Needs: []plan.ID{plan.ID(need)}}
		s.Settle(inputs, []string{cluster}, func(plan.ID) string { return of })
		return s.Digest
	}
	base := settled("i", "c", "a/x", "1")
	if again := settled("i", "c", "a/x", "1"); again != base {
		t.Error("the same has another digest")
	}
	for name, other := range map[string]string{
		"inputs": settled("j", "c", "a/x", "1"), "clusters": settled("i", "d", "a/x", "1"),
		"another need": settled("i", "c", "a/y", "1"), "what the need is": settled("i", "c", "a/x", "2"),
	} {
		if other == base {
			t.Errorf("the digest says nothing of %s", name)
		}
	}
}
