package tables_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/tables"
	"github.com/pluralsh/plural/internal/filter"
)

// names are what subjects are called.
func names(subjects []pane.Subject) string {
	var out []string
	for _, s := range subjects {
		if s.Kind == pane.KindDeployment {
			s.Name = s.Cluster + "/" + s.Service
		}
		out = append(out, s.Name)
	}
	return strings.Join(out, " ")
}

func TestKeysMoveTheCursor(t *testing.T) {
	// In order of their names; twelve rows, of which eleven are in sight.
	for keys, want := range map[string]string{
		"":                              "edge-ap-00",
		"j":                             "edge-ap-03",
		"down down up":                  "edge-ap-03",
		"k":                             "edge-ap-00",
		"G":                             "edge-us-11",
		"end k":                         "edge-us-08",
		"G g":                           "edge-ap-00",
		"end home j":                    "edge-ap-03",
		"ctrl+d":                        "edge-eu-04",
		"ctrl+d ctrl+d ctrl+u":          "edge-eu-04",
		"ctrl+f":                        "edge-us-11",
		"pgdown pgup":                   "edge-ap-00",
		"G ctrl+b":                      "edge-ap-00",
		"wheel\u00a0down":               "edge-ap-09",
		"G wheel\u00a0up wheel\u00a0up": "edge-eu-04",
		"x left right":                  "edge-ap-00",
	} {
		p := open(t, world(paint.Options{}, live()...), "clusters", pane.Subject{}, "")
		press(p, "o", "c")
		for _, key := range strings.Fields(strings.ReplaceAll(keys, "\u00a0", "_")) {
			press(p, strings.ReplaceAll(key, "_", " "))
		}
		if got := names(p.Subjects()); got != want {
			t.Errorf("%s: the cursor is on %q, want %q", keys, got, want)
		}
	}
}

func TestKeysPickAndOrderRows(t *testing.T) {
	for _, c := range []struct{ pane, keys, first, note string }{
		{"fleet", "", "edge-ap-06/payments", "72 · by phase"},
		{"fleet", "f", "edge-ap-06/payments", "16 of 72 · faults · by phase"},
		{"fleet", "f f", "edge-ap-06/payments", "72 · by phase"},
		{"fleet", "O", "edge-ap-00/cert-manager", "72 · by phase"},
		{"fleet", "o c", "edge-ap-00/cert-manager", "72 · by cluster"},
		{"fleet", "o 1", "edge-ap-00/cert-manager", "72 · by cluster"},
		{"fleet", "o c O", "edge-us-11/cert-manager", "72 · by cluster"},
		{"fleet", "o c o c", "edge-us-11/cert-manager", "72 · by cluster"},
		{"fleet", "o s", "edge-ap-00/cert-manager", "72 · by service"},
		{"fleet", "o v O", "edge-eu-07/search", "72 · by version"},
		{"fleet", "o a", "edge-ap-03/cert-manager", "72 · by age"},
		{"fleet", "o x", "edge-ap-06/payments", "72 · by phase"},
		{"fleet", "o esc", "edge-ap-06/payments", "72 · by phase"},
		{"clusters", "f", "edge-us-05", "4 of 12 · faults · by phase"},
		{"clusters", "o a", "edge-ap-03", "12 · by age"},
		{"services", "o n", "cert-manager", "6 · by namespace"},
		{"sources", "f", "jetstack", "1 of 4 · faults"},
		{"sources", "o f", "jetstack", "4 · by failures"},
		{"packages", "f", "monitoring", "1 of 4 · faults"},
		{"packages", "o s", "cert-manager", "4 · by state"},
		{"events", "f", "edge-us-05/payments", "3 of 5 · faults"},
		{"events", "o t O", "Commit", "5 · by time"},
	} {
		p := open(t, world(paint.Options{}, live()...), c.pane, pane.Subject{}, "")
		press(p, strings.Fields(c.keys)...)
		press(p, "g")
		if got := names(p.Subjects()); got != c.first || p.Note() != c.note {
			t.Errorf("%s, %s: %q with %q, want %q with %q", c.pane, c.keys, got, p.Note(), c.first, c.note)
		}
		if p.Typing() {
			t.Errorf("%s, %s: it waits for a column", c.pane, c.keys)
		}
	}
}

func TestTheKeyAfterSortByIsTheTables(t *testing.T) {
	p := open(t, world(paint.Options{}, live()...), "fleet", pane.Subject{}, "")
	press(p, "o")
	if !p.Typing() {
		t.Error("the console would take the next key for its own")
	}
}

func TestKeysMarkRows(t *testing.T) {
	for keys, want := range map[string]string{
		"space":                      "cert-manager",
		"space space":                "cert-manager",
		"space j space":              "cert-manager ingress",
		"G space g space":            "cert-manager zz-日本語",
		"space j j ctrl+space":       "cert-manager ingress payments",
		"G space k k ctrl+space":     "podinfo search zz-日本語",
		"j ctrl+@":                   "ingress",
		"*":                          "cert-manager ingress payments podinfo search zz-日本語",
		"* *":                        "cert-manager",
		"space *":                    "cert-manager ingress payments podinfo search zz-日本語",
		"j space f":                  "ingress",
		"j space f *":                "cert-manager payments search ingress",
		"space j space ctrl+space j": "cert-manager ingress",
	} {
		p := open(t, world(paint.Options{}, live()...), "services", pane.Subject{}, "")
		press(p, "o", "s", "g")
		press(p, strings.Fields(keys)...)
		if strings.Contains(keys, "f *") {
			// What the filter hides comes last.
			if press(p, "g"); names(p.Subjects()) != want {
				t.Errorf("%s: marked are %q, want %q", keys, names(p.Subjects()), want)
			}
			continue
		}
		if got := names(p.Subjects()); got != want {
			t.Errorf("%s: marked are %q, want %q", keys, got, want)
		}
		p.Unmark()
		if p.Marked() != 0 || len(p.Subjects()) != 1 {
			t.Errorf("%s: marks stay", keys)
		}
	}
}

func TestEnterLeadsBelow(t *testing.T) {
	for _, c := range []struct {
		pane, keys string
		want       pane.Open
	}{
		{"fleet", "", pane.Open{Pane: "tree", About: pane.Subject{
			Kind: pane.KindDeployment, Cluster: "edge-ap-06",
			Service: "payments", Phase: v1.Failed,
		}}},
		{"clusters", "", pane.Open{Pane: "fleet", About: pane.Subject{
			Kind: pane.KindCluster, Name: "edge-us-05",
			Cluster: "edge-us-05", Phase: v1.Degraded,
		}}},
		{"services", "", pane.Open{Pane: "fleet", About: pane.Subject{
			Kind: pane.KindService, Name: "payments",
			Service: "payments", Phase: v1.Failed,
		}}},
		{"sources", "", pane.Open{Pane: "services", About: pane.Subject{Kind: pane.KindSource, Name: "."}}},
		{"packages", "", pane.Open{Pane: "describe", About: pane.Subject{Kind: pane.KindPackage, Name: "cert-manager"}}},
		{"events", "", pane.Open{Pane: "tree", About: pane.Subject{
			Kind: pane.KindDeployment, Cluster: "edge-us-05",
			Service: "payments", Phase: v1.Degraded,
		}}},
		{"events", "j j", pane.Open{Pane: "fleet", About: pane.Subject{
			Kind: pane.KindCluster, Name: "edge-ap-03",
			Cluster: "edge-ap-03", Phase: v1.Stale,
		}}},
		{"events", "j j j", pane.Open{Pane: "fleet", About: pane.Subject{
			Kind: pane.KindService, Name: "search",
			Service: "search", Phase: v1.Progressing,
		}}},
	} {
		p := open(t, world(paint.Options{}, live()...), c.pane, pane.Subject{}, "")
		press(p, strings.Fields(c.keys)...)
		if diff := cmp.Diff(c.want, press(p, "enter")); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.pane, c.keys, diff)
		}
	}
	p := open(t, world(paint.Options{}, live()...), "events", pane.Subject{}, "")
	press(p, "G")
	if _, told := press(p, "enter").(pane.Told); !told {
		t.Error("nobody says that an event without a subject leads nowhere")
	}
	p = open(t, world(paint.Options{}), "fleet", pane.Subject{}, "")
	if asked := press(p, "enter", "space", "ctrl+space", "*", "G", "enter"); asked != nil || p.Subjects() != nil {
		t.Error("there are no rows, and something is asked for")
	}
}

func TestSubjectsSayWhatActionsDependOn(t *testing.T) {
	w := world(paint.Options{}, live()...)
	p := open(t, w, "fleet", pane.Subject{}, "cluster:edge-ap-09 health:held")
	if s := p.Subjects()[0]; s.Token != "t0k3n" || s.Phase != v1.Held {
		t.Errorf("what waits for an agreement: %+v", s)
	}
	p = open(t, w, "fleet", pane.Subject{}, "suspended:true")
	if s := p.Subjects()[0]; !s.Suspended || s.Cluster != "edge-eu-10" {
		t.Errorf("what is suspended: %+v", s)
	}
	p = open(t, w, "clusters", pane.Subject{}, "health:held")
	if s := p.Subjects()[0]; s.Token != "t0k3n" {
		t.Errorf("a cluster that waits for an agreement: %+v", s)
	}
	p = open(t, w, "events", pane.Subject{}, "")
	press(p, "*")
	if got := names(p.Subjects()); p.Marked() != 5 || got != "edge-us-05/payments edge-ap-03 search Commit" {
		t.Errorf("things that several events are about are named once: %q of %d", got, p.Marked())
	}
}

func TestTheCursorStaysOnItsRowWhileRowsMove(t *testing.T) {
	w := world(paint.Options{}, live()...)
	p := open(t, w, "clusters", pane.Subject{}, "")
	change := func(cluster v1.Cluster) {
		w.Fleet.Apply(model.Batch{Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{cluster}}})
	}
	line := func() int {
		for i, text := range p.Draw(80, 8) {
			if strings.HasPrefix(text, "▸") {
				return i
			}
		}
		return -1
	}
	change(v1.Cluster{Name: "edge-us-02", Phase: v1.Failed})
	if got := names(p.Subjects()); got != "edge-us-02" {
		t.Errorf("before it is moved, the cursor is on %s", got)
	}
	press(p, "j", "space", "j", "j", "j", "j", "j")
	before := line()
	p.Unmark()
	on := names(p.Subjects())
	for i, name := range []string{"edge-us-11", "edge-eu-10", "edge-eu-07"} {
		change(v1.Cluster{Name: name, Phase: v1.Failed})
		if got := names(p.Subjects()); got != on {
			t.Fatalf("after %d changes the cursor went from %s to %s", i+1, on, got)
		}
		if got := line(); got != before {
			t.Errorf("after %d changes the row went from line %d to %d", i+1, before, got)
		}
	}
	w.Fleet.Apply(model.Batch{Clusters: v1.Changes[v1.Cluster]{Gone: []string{on}}})
	if got := names(p.Subjects()); got == on || got == "" {
		t.Errorf("the row is gone, and the cursor is on %q", got)
	}
}

func TestMarksOfRowsThatAreGoneGo(t *testing.T) {
	w := world(paint.Options{}, live()...)
	p := open(t, w, "services", pane.Subject{}, "")
	press(p, "*")
	w.Fleet.Apply(model.Batch{Services: v1.Changes[v1.Service]{Gone: []string{"search"}}})
	if got := names(p.Subjects()); p.Marked() != 5 || strings.Contains(got, "search") {
		t.Errorf("%d are marked: %s", p.Marked(), got)
	}
}

func TestTablesAreNarrowedToTheirSubject(t *testing.T) {
	w := world(paint.Options{}, live()...)
	for _, c := range []struct {
		pane  string
		about pane.Subject
		title string
		rows  string
		lacks string
	}{
		{"fleet", pane.Subject{Kind: pane.KindCluster, Name: "edge-us-05"}, "edge-us-05", "6 · by phase", "CLUSTER"},
		{"fleet", pane.Subject{Kind: pane.KindService, Name: "payments"}, "payments", "12 · by phase", "SERVICE"},
		{"services", pane.Subject{Kind: pane.KindSource, Name: "."}, ".", "4 · by phase", "SOURCE"},
		{"events", pane.Subject{Kind: pane.KindCluster, Name: "edge-us-05"}, "edge-us-05", "2", "CLUSTER"},
		{"events", pane.Subject{Kind: pane.KindService, Service: "search"}, "search", "1", "SERVICE"},
		{"clusters", pane.Subject{}, "clusters", "12 · by phase", "SOURCE"},
	} {
		p := open(t, w, c.pane, c.about, "")
		header := p.Draw(250, 5)[0]
		if p.Title() != c.title || p.Note() != c.rows || strings.Contains(header, c.lacks) {
			t.Errorf("%s about %s: title %q, %q, under %q", c.pane, c.about.Name, p.Title(), p.Note(), header)
		}
		p.Close()
	}
}

func TestWhatIsNotKnownYetIsLookedForFirst(t *testing.T) {
	w := world(paint.Options{}, model.Batch{
		State: &model.State{Link: model.Live},
		Marks: []model.Mark{{Kind: v1.ChangedDeployments, Begin: true, Total: 5_000}},
	})
	some := canned()
	w.Fleet.Apply(model.Batch{Deployments: some.Deployments})
	w.Fleet.Apply(model.Batch{Marks: []model.Mark{{Kind: v1.ChangedDeployments, Total: 5_000}}})
	p := open(t, w, "fleet", pane.Subject{Kind: pane.KindCluster, Name: "edge-us-05"}, "")
	press(p, "f")
	if err := p.SetFilter("pay"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`deployments cluster:"edge-us-05"`, `deployments cluster:"edge-us-05" -health:healthy`,
		`deployments cluster:"edge-us-05" -health:healthy pay`,
	}
	if diff := cmp.Diff(want, w.Source.(*source).sought); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := open(t, w, "fleet", pane.Subject{}, "").Note(); got != "72 of 5,000 · 72 loaded · by phase" {
		t.Errorf("the note: %q", got)
	}
}

func TestAWrongFilterLeavesWhatIsShown(t *testing.T) {
	w := world(paint.Options{}, live()...)
	p := open(t, w, "clusters", pane.Subject{}, "env:prod")
	var wrong *filter.Error
	if err := p.SetFilter("health:broken"); !errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
	if p.Filter() != "env:prod" || p.Note() != "6 of 12 · by phase" {
		t.Errorf("%q, %q", p.Filter(), p.Note())
	}
	if _, err := tables.Panes()["clusters"](w, pane.Subject{}, "health:broken"); !errors.As(err, &wrong) {
		t.Errorf("a pane is opened with it: %v", err)
	}
}

func TestWordsOfFiltersAreCompleted(t *testing.T) {
	w := world(paint.Options{}, live()...)
	for _, c := range []struct {
		pane, text string
		want       []string
	}{
		{"fleet", "hea", []string{"health:"}},
		{"fleet", "env:prod !HEA", []string{"!health:"}},
		{"fleet", "health:de", []string{"health:degraded"}},
		{"fleet", "-health:failed,st", []string{"-health:failed,stale"}},
		{"fleet", "reg", []string{"region:"}},
		{"fleet", "region:", []string{"region:ap", "region:eu", "region:us"}},
		{"fleet", "tag.region:u", []string{"tag.region:us"}},
		{"fleet", "pod", []string{"podinfo"}},
		{"fleet", "edge-us-1", []string{"edge-us-11"}},
		{"fleet", "cluster:edge-us-1", []string{"cluster:edge-us-11"}},
		{"fleet", "service:se", []string{"service:search"}},
		{"fleet", "@edge-us-1", []string{"@edge-us-11"}},
		{"fleet", "!@edge-us-1", []string{"!@edge-us-11"}},
		{"fleet", "version:2", []string{"version:2.0.0-rc.14+build.20260314"}},
		{"fleet", "-l re", []string{"region="}},
		{"fleet", "web -l env=prod,region=e", []string{"env=prod,region=eu"}},
		{"fleet", "message:", nil},
		{"clusters", "kubernetes:", []string{"kubernetes:v1.34.2"}},
		{"services", "namespace:p", []string{"namespace:payments", "namespace:podinfo"}},
		{"services", "env:", nil},
		{"services", "zz", []string{"zz-日本語"}},
		{"sources", "ki", []string{"kind:"}},
		{"sources", "kind:h", []string{"kind:helm"}},
		{"sources", "kind:helm,o", []string{"kind:helm,oci"}},
		{"packages", "state:r", []string{"state:ready", "state:rolling", "state:reverted"}},
		{"packages", "mon", []string{"monitoring"}},
		{"events", "reason:D", []string{"reason:Degraded"}},
		{"events", "warning:t", []string{"warning:true"}},
		{"events", "no-such", nil},
	} {
		p := open(t, w, c.pane, pane.Subject{}, "")
		if diff := cmp.Diff(c.want, p.Words(c.text)); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.pane, c.text, diff)
		}
	}
	all := open(t, w, "clusters", pane.Subject{}, "").Words("")
	if !slices.Contains(all, "health:") || !slices.Contains(all, "env:") || !slices.Contains(all, "edge-eu-01") {
		t.Errorf("at the start there are %v", all)
	}
}

func TestCompletedWordsAreFilters(t *testing.T) {
	w := world(paint.Options{}, live()...)
	tag := map[string]string{"note": `a "quoted, word" \ *`, "health": "x"}
	w.Fleet.Apply(model.Batch{Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "odd", Phase: v1.Healthy, Tags: tag}}}})
	p := open(t, w, "clusters", pane.Subject{}, "")
	for _, text := range []string{"note:", "tag.health:", "health:"} {
		words := p.Words(text)
		if len(words) == 0 {
			t.Errorf("nothing completes %q", text)
		}
		for _, word := range words {
			if err := p.SetFilter(word); err != nil {
				t.Errorf("%q: %v", word, err)
			}
		}
	}
	if err := p.SetFilter(p.Words("note:")[0]); err != nil || names(p.Subjects()) != "odd" {
		t.Errorf("%v: %q fits %q", err, p.Filter(), names(p.Subjects()))
	}
}

func TestEmptyTablesSayWhatToDo(t *testing.T) {
	done := func(link model.Link, why string) model.Batch {
		b := model.Batch{State: &model.State{Link: link, Since: now, Why: why}}
		if link != model.Connecting {
			for _, kind := range all {
				b.Marks = append(b.Marks, model.Mark{Kind: kind, Begin: true}, model.Mark{Kind: kind, End: true})
			}
		}
		return b
	}
	broken := done(model.Offline, "no hub is set")
	broken.Problems = []v1.Problem{{Message: "x"}, {Message: "y"}}
	for _, c := range []struct {
		name, pane, filter, keys string
		batches                  []model.Batch
		want                     string
	}{
		{"at the start", "fleet", "", "", nil, "connecting to the hub"},
		{"with trouble", "fleet", "", "", []model.Batch{done(model.Connecting, "dial tcp: refused")}, "dial tcp: refused"},
		{
			"before the first page", "fleet", "", "",
			[]model.Batch{{State: &model.State{Link: model.Live}}},
			"the deployments are on their way",
		},
		{"in a new fleet", "clusters", "", "", []model.Batch{done(model.Live, "")}, "plural cluster register NAME"},
		{"in a new fleet", "fleet", "", "", []model.Batch{done(model.Live, "")}, "plural service create NAME"},
		{"in a new fleet", "sources", "", "", []model.Batch{done(model.Live, "")}, "plural source add NAME"},
		{"in a new fleet", "packages", "", "", []model.Batch{done(model.Live, "")}, "plural package add NAME"},
		{
			"offline, never seen", "sources", "", "",
			[]model.Batch{done(model.Offline, "no hub is set")},
			"no sources are known: no hub is set",
		},
		{"offline, with mistakes", "fleet", "", "", []model.Batch{broken}, "plural validate names them"},
		{"filtered away", "fleet", "nothing-fits", "", live(), "/ changes it, esc takes it away"},
		{"healthy", "services", "", "f", []model.Batch{
			done(model.Live, ""),
			{Services: v1.Changes[v1.Service]{Items: []v1.Service{{Name: "a", Phase: v1.Healthy}}}},
		}, "nothing is wrong"},
		{"healthy where it fits", "clusters", "edge-us-02", "f", live(), "nothing that fits is wrong"},
	} {
		t.Run(c.name+" "+c.pane, func(t *testing.T) {
			p := open(t, world(paint.Options{}, c.batches...), c.pane, pane.Subject{}, c.filter)
			press(p, strings.Fields(c.keys)...)
			for _, height := range []int{1, 2, 3, 20} {
				if n := len(p.Draw(80, height)); n > height {
					t.Errorf("%d lines in %d", n, height)
				}
			}
			if got := strings.Join(p.Draw(80, 20), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("no %q in\n%s", c.want, got)
			}
		})
	}
}

func TestFramesFitWhateverTheTerminalsSize(t *testing.T) {
	for name := range tables.Panes() {
		p := open(t, world(paint.Options{Color: true}, live()...), name, pane.Subject{}, "")
		for _, keys := range [][]string{nil, {"o"}, {"esc", "f", "G", "right", "right", "right"}} {
			press(p, keys...)
			for width := 0; width < 130; width += 7 {
				for height := range 12 {
					lines := p.Draw(width, height)
					if len(lines) > height {
						t.Fatalf("%s: %d lines in %d", name, len(lines), height)
					}
					for _, line := range lines {
						if paint.Width(line) > width {
							t.Fatalf("%s: %d cells in %d: %q", name, paint.Width(line), width, line)
						}
					}
				}
			}
		}
	}
}

// large is a fleet of 10,000 clusters with ten services each.
func large(tb testing.TB) *pane.World {
	tb.Helper()
	begin := model.Batch{State: &model.State{Link: model.Live, Since: now}}
	w := world(paint.Options{Color: true, Dark: true}, begin)
	for c := range 10_000 {
		var b model.Batch
		b.Clusters.Items = []v1.Cluster{{
			Name: fmt.Sprintf("edge-%05d", c), Phase: v1.Healthy,
			Tags: map[string]string{"env": "prod"}, LastReport: ago(time.Second),
		}}
		for s := range 10 {
			d := v1.Deployment{
				Cluster: b.Clusters.Items[0].Name, Service: fmt.Sprintf("service-%d", s), Phase: v1.Healthy,
				Objects: 9, Ready: 9, Version: "1.2.3",
			}
			if (c+s)%97 == 0 {
				d.Phase, d.Message = v1.Degraded, "Deployment web: 1 of 3 replicas are ready"
			}
			b.Deployments.Items = append(b.Deployments.Items, d)
		}
		w.Fleet.Apply(b)
	}
	return w
}

// BenchmarkKeys is from a key to the frame that shows what it did.
func BenchmarkKeys(b *testing.B) {
	p, err := tables.Panes()["fleet"](large(b), pane.Subject{}, "")
	if err != nil {
		b.Fatal(err)
	}
	for _, keys := range []string{"j", "ctrl+f", "G g", "f", "O"} {
		b.Run(keys, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, key := range strings.Fields(keys) {
					p.Update(pressed(key))
					p.Draw(200, 56)
				}
			}
		})
	}
}

// BenchmarkWords is what a key of a filter costs: its completions, the rows, the frame.
func BenchmarkWords(b *testing.B) {
	p, err := tables.Panes()["fleet"](large(b), pane.Subject{}, "")
	if err != nil {
		b.Fatal(err)
	}
	made := p.(table)
	texts := []string{
		"", "e", "ed", "edg", "edge", "edge-", "edge-0", "edge-00", "edge-00 h", "edge-00 health:",
		"edge-00 health:degraded",
	}
	for i := 0; b.Loop(); i++ {
		text := texts[i%len(texts)]
		made.Words(text)
		_ = made.SetFilter(text)
		made.Draw(200, 56)
	}
}
