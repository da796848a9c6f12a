package planner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/api/bundle"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/revision"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/resolve"
)

// planning is a planner at work on real repositories.
type planning struct {
	*Planner
	t    *testing.T
	stop func()
}

// plans starts a planner for the installation repo o that keeps its files in dir.
func plans(t *testing.T, o *fleetrepo.Origin, dir string) *planning {
	t.Helper()
	return plansAs(t, o, dir, slog.New(slog.DiscardHandler), nil)
}

// plansAs is plans, of a hub that logs, and that opens what is sealed for it.
func plansAs(t *testing.T, o *fleetrepo.Origin, dir string, log *slog.Logger, identities func() ([]age.Identity, error)) *planning {
	t.Helper()
	const interval = 20 * time.Millisecond
	set, err := gitpoller.NewSet(gitpoller.SetOptions{Dir: filepath.Join(dir, "mirrors"), Interval: interval, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{
		Branch: "main", Notifications: filepath.Join(dir, "notifications"), Mirrors: set,
		Sources:   sources.New(sources.Options{Repo: o.URL(), Interval: interval, AllowFile: true, AllowLoopback: true, Identities: identities}),
		Revisions: revision.Open(revision.Options{File: filepath.Join(dir, "edition.json"), Log: log}),
		Publishes: func() bool { return true }, Changed: func(_, _ *Plan) {}, Log: log,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var group errgroup.Group
	group.Go(func() error { return set.Run(ctx) })
	group.Go(func() error { return p.Run(ctx) })
	stop := func() {
		cancel()
		if err := group.Wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return &planning{p, t, stop}
}

// serves waits until a commit is the one being served, and the newest.
func (p *planning) serves(commit string) {
	p.t.Helper()
	fleetrepo.Until(p.t, "the commit is served", func() bool {
		d := &p.Plan().Desired
		return d.Served.ID == commit && d.Head.ID == commit && len(d.Refused) == 0
	})
}

// refuses waits until a commit is refused, and returns why.
func (p *planning) refuses(commit string) []v1.Problem {
	p.t.Helper()
	fleetrepo.Until(p.t, "the commit is refused", func() bool {
		d := &p.Plan().Desired
		return d.Head.ID == commit && len(d.Refused) > 0
	})
	return p.Plan().Desired.Refused
}

// on is what cluster a should run of a service.
func (p *planning) on(service string) resolve.Deployment {
	p.t.Helper()
	for _, d := range p.Plan().Desired.Deployments["a"] {
		if d.Service == service {
			return *d
		}
	}
	p.t.Fatalf("no service %s on a", service)
	return resolve.Deployment{}
}

// packs checks that every bundle the plan names can be packed, and holds what its key says.
func (p *planning) packs() {
	p.t.Helper()
	for _, d := range p.Plan().Desired.Deployments["a"] {
		if d.Hold != nil {
			continue
		}
		var archive bytes.Buffer
		if err := p.Pack(p.t.Context(), d.Bundle, &archive); err != nil {
			p.t.Errorf("%s: %v", d.Service, err)
			continue
		}
		files, err := bundle.Unpack(&archive, bundle.DefaultLimits())
		if err != nil {
			p.t.Errorf("%s: %v", d.Service, err)
			continue
		}
		if key, err := files.Key(d.Inputs); err != nil || key != d.Bundle {
			p.t.Errorf("%s: packed %s for %s, %v", d.Service, key, d.Bundle, err)
		}
	}
}

func TestFirstGoodCommitIsServed(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	if p.Root("a") != nil || p.Plan().Desired.Served.ID != "" {
		t.Error("there is a plan before there is a commit")
	}
	id := o.Push(fleetrepo.TwoServices(nil))
	p.serves(id)
	p.packs()
	if p.Root("a") == nil || p.Root("b") != nil || p.AgentURL() != "https://hub.example.com" {
		t.Errorf("root a is %v, root b is %v, URL %s", p.Root("a"), p.Root("b"), p.AgentURL())
	}
	served := p.Plan().Desired.Served
	if served.Author != "ann" || !strings.HasPrefix(served.Subject, "change ") || time.Since(*served.Time) > time.Hour || served.Time.Location() != time.UTC {
		t.Errorf("served = %+v", served)
	}
	if err := p.Pack(t.Context(), "b1-unknown", new(bytes.Buffer)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pack of an unknown bundle: %v", err)
	}
}

func TestFirstCommitThatIsBadServesNothing(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.refuses(o.Push(map[string]string{"plural.yaml": "x"}))
	if p.Root("a") != nil || p.Plan().Desired.Served.ID != "" {
		t.Error("a bad commit is served")
	}
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
}

func TestBadCommitKeepsTheLastGoodOneAndNamesFileAndLine(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	before := p.Root("a").ETag()
	problems := p.refuses(o.Push(map[string]string{
		"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/nowhere")), "services/api.yaml": fleetrepo.Service("api", fleetrepo.Path("apps/api")+"  nmespace: x\n"),
		"apps/web": "", "apps/api/cm.yaml": fleetrepo.ConfigMap("api", "2"),
	}))
	if problems[0].File != "services/api.yaml" || problems[0].Line != 6 || !strings.Contains(problems[0].Message, "nmespace") {
		t.Errorf("problems = %+v", problems)
	}
	if d := &p.Plan().Desired; d.Served.ID != good || p.Root("a").ETag() != before {
		t.Errorf("served is %s", d.Served.ID)
	}
	p.packs()
	problems = p.refuses(o.Push(map[string]string{"services/api.yaml": fleetrepo.Service("api", fleetrepo.Path("apps/api"))}))
	if len(problems) != 1 || problems[0].File != "services/web.yaml" || problems[0].Line != 5 {
		t.Errorf("problems = %+v", problems)
	}
	p.serves(o.Push(map[string]string{"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/web")), "apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")}))
	if p.Root("a").ETag() == before {
		t.Error("the change did not arrive")
	}
}

func TestBranchThatGoesBackToTheCommitBeingServedIsRefusedNoMore(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	p.refuses(o.Push(map[string]string{"plural.yaml": "x"}))
	o.Git(o.Work, "push", "-q", "-f", "origin", good+":main")
	p.serves(good)
}

// Whoever pushes on while a commit is refused has to learn which one is to be mended or taken back.
func TestAProblemNamesTheCommitThatCameWithIt(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	web := o.Push(map[string]string{"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/nope"))})
	p.refuses(web)
	api := o.Push(map[string]string{"services/api.yaml": fleetrepo.Service("api", fleetrepo.Path("apps/none"))})
	p.refuses(api)
	newest := o.Push(map[string]string{"README.md": "more"})
	since := map[string]string{}
	for _, problem := range p.refuses(newest) {
		if problem.Since == nil {
			t.Fatalf("%+v names no commit", problem)
		}
		since[problem.File] = problem.Since.ID
	}
	if since["services/web.yaml"] != web || since["services/api.yaml"] != api {
		t.Errorf("the problems came with %v; web broke with %s, api with %s", since, web, api)
	}
}

// Who may make tags need not be who may push to the branch.
func TestATagOfTheBranchesNameIsNotServed(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	tagged := o.Git(o.Work, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "what nobody merged")
	o.Git(o.Work, "push", "-q", "origin", tagged+":refs/tags/main")
	merged := o.Git(o.Work, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "what was merged")
	o.Git(o.Work, "push", "-q", "origin", merged+":refs/heads/main")
	fleetrepo.Until(t, "the branch is served", func() bool {
		now := p.Plan().Desired.Head.ID
		if now == tagged {
			t.Fatal("a tag is served in the branch's place")
		}
		return now == merged
	})
}

func TestCommitElsewhereChangesNoRoot(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	before, web := p.Root("a").ETag(), p.on("web")
	p.serves(o.Push(map[string]string{"README.md": "hello"}))
	if p.Root("a").ETag() != before {
		t.Error("a commit to another folder changed the root")
	}
	p.serves(o.Push(map[string]string{"apps/api/cm.yaml": fleetrepo.ConfigMap("api", "2")}))
	if p.Root("a").ETag() == before || p.on("web").Key != web.Key {
		t.Error("a commit to one service changed another, or nothing")
	}
	before = p.Root("a").ETag()
	p.serves(o.Push(map[string]string{"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/web")+"  sync: {prune: false}\n")}))
	if p.Root("a").ETag() == before || p.on("web").Bundle != web.Bundle {
		t.Error("a changed sync policy is not in the root, or made a new bundle")
	}
}

func TestCommitThatTakesAwayMoreThanTheBudgetIsRefused(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	fleet := fleetrepo.TwoServices(nil)
	for _, name := range []string{"c", "d"} {
		fleet["services/"+name+".yaml"] = fleetrepo.Service(name, fleetrepo.Path("apps/web"))
	}
	good := o.Push(fleet)
	p.serves(good)
	problems := p.refuses(o.Push(map[string]string{"services/api.yaml": "", "services/c.yaml": "", "services/d.yaml": ""}))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "3 of 4") || !strings.Contains(problems[0].Fix, "deletionBudget") {
		t.Errorf("problems = %+v", problems)
	}
	if p.Plan().Desired.Served.ID != good {
		t.Error("the last good commit is gone")
	}
	p.serves(o.Push(map[string]string{"plural.yaml": fleetrepo.Workspace("  deletionBudget: 75%\n")}))
}

// agree is the workspace with tokens that a person has agreed to.
func agree(tokens ...string) map[string]string {
	return map[string]string{"plural.yaml": fleetrepo.Workspace(`  acknowledged: ["` + strings.Join(tokens, `", "`) + "\"]\n")}
}

func TestAgreementLiftsExactlyWhatItNames(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	fleet := fleetrepo.TwoServices(nil)
	for _, name := range []string{"c", "d"} {
		fleet["services/"+name+".yaml"] = fleetrepo.Service(name, fleetrepo.Path("apps/web"))
	}
	p.serves(o.Push(fleet))
	problems := p.refuses(o.Push(map[string]string{"services/api.yaml": "", "services/c.yaml": "", "services/d.yaml": ""}))
	token := budget.Token([]string{"d", "api", "c"})
	if len(problems) != 1 || problems[0].Token != token || !strings.Contains(problems[0].Fix, token) {
		t.Fatalf("problems = %+v, want the token %s", problems, token)
	}
	if want := []string{"api", "c", "d"}; !slices.Equal(problems[0].Services, want) {
		t.Errorf("services = %q, want %q", problems[0].Services, want)
	}
	for _, other := range [][]string{{budget.Token([]string{"api", "c"})}, {budget.Token([]string{"api"}), budget.Token([]string{"c"})}} {
		if problems := p.refuses(o.Push(agree(other...))); problems[0].Token != token {
			t.Errorf("problems = %+v", problems)
		}
	}
	p.serves(o.Push(agree(token)))
	if n := len(p.Plan().Desired.Deployments["a"]); n != 1 {
		t.Errorf("%d services are left", n)
	}
}

func TestAgreementToEachServiceLiftsWhatTheirSetDoes(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	fleet := fleetrepo.TwoServices(nil)
	for _, name := range []string{"c", "d"} {
		fleet["services/"+name+".yaml"] = fleetrepo.Service(name, fleetrepo.Path("apps/web"))
	}
	p.serves(o.Push(fleet))
	gone := map[string]string{"services/api.yaml": "", "services/c.yaml": "", "services/d.yaml": ""}
	maps.Copy(gone, agree(budget.Token([]string{"d"}), budget.Token([]string{"api"}), budget.Token([]string{"c"})))
	p.serves(o.Push(gone))
}

func TestCommitThatStopsServicesOnMoreClustersThanTheBudgetIsRefused(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	fleet := map[string]string{}
	maps.Copy(fleet, fleetrepo.TwoServices(nil))
	for _, name := range []string{"b", "c"} {
		fleet["clusters/"+name+".yaml"] = fleetrepo.Cluster(name, nil)
	}
	good := o.Push(fleet)
	p.serves(good)
	only := func(service string) string {
		return strings.Replace(fleet["services/"+service+".yaml"], "matchLabels: {env: test}", "names: [a]", 1)
	}
	problems := p.refuses(o.Push(map[string]string{"services/web.yaml": only("web"), "services/api.yaml": only("api")}))
	token := budget.Token([]string{"web/b", "web/c", "api/b", "api/c"})
	if len(problems) != 1 || problems[0].Token != token || !strings.Contains(problems[0].Message, "4 of 6") {
		t.Fatalf("problems = %+v, want 4 of 6 with the token %s", problems, token)
	}
	if want := []string{"api", "web"}; !slices.Equal(problems[0].Services, want) {
		t.Errorf("services = %q, want %q", problems[0].Services, want)
	}
	p.refuses(o.Push(agree(budget.Token([]string{"api"}), budget.Token([]string{"web"})))) // of places they say nothing
	if p.Plan().Desired.Served.ID != good {
		t.Error("the last good commit is gone")
	}
	p.serves(o.Push(map[string]string{"services/api.yaml": fleet["services/api.yaml"]})) // 2 of 6 are within the budget
	p.serves(o.Push(map[string]string{"clusters/b.yaml": "", "clusters/c.yaml": ""}))    // and clusters that leave stop nothing
}

func TestCommitThatNoPollCanCarryIsRefused(t *testing.T) {
	o := fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	parameters := "  parameters:\n"
	for i := range 200 {
		parameters += fmt.Sprintf("    p%d: \"%s\"\n", i, strings.Repeat("x", 4000))
	}
	huge := map[string]string{}
	for i := range 24 {
		name := fmt.Sprint("huge-", i)
		huge["services/"+name+".yaml"] = fleetrepo.Service(name, fleetrepo.Path("apps/web")+parameters)
	}
	problems := p.refuses(o.Push(huge))
	if !strings.Contains(problems[0].Message, "cluster a") {
		t.Errorf("problems = %+v", problems)
	}
	if p.Plan().Desired.Served.ID != good || len(p.Plan().Desired.Deployments["a"]) != 2 {
		t.Error("the last good commit is gone")
	}
	undone := map[string]string{}
	for name := range huge {
		undone[name] = ""
	}
	p.serves(o.Push(undone))
}

func TestRestartServesTheLastGoodCommitWhileTheNewestIsBad(t *testing.T) {
	o, dir := fleetrepo.New(t), t.TempDir()
	p := plans(t, o, dir)
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	before := p.Root("a").ETag()
	bad := o.Push(map[string]string{"services/web.yaml": "nonsense"})
	p.refuses(bad)
	p.stop()
	back := o.Away()
	p = plans(t, o, dir)
	p.refuses(bad)
	if p.Plan().Desired.Served.ID != good || p.Root("a").ETag() != before {
		t.Error("the restart lost the last good commit")
	}
	p.packs()
	back()
	p.serves(o.Push(map[string]string{"services/web.yaml": fleetrepo.Service("web", fleetrepo.Path("apps/web"))}))
}

func TestForcePushBeyondTheLastGoodCommitDoesNotTakeItAway(t *testing.T) {
	o, dir := fleetrepo.New(t), t.TempDir()
	p := plans(t, o, dir)
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	for i := range 35 { // often enough for the mirror to drop what nobody follows
		p.refuses(o.Push(map[string]string{"services/web.yaml": fmt.Sprint("nonsense ", i)}))
	}
	p.refuses(o.Rewrite(map[string]string{"services/web.yaml": "nonsense"}))
	if p.Plan().Desired.Served.ID != good {
		t.Error("the last good commit is gone")
	}
	p.packs()
	p.stop()
	p = plans(t, o, dir)
	fleetrepo.Until(t, "the commit is served again", func() bool { return p.Plan().Desired.Served.ID == good })
	p.packs()
	p.serves(o.Rewrite(fleetrepo.TwoServices(nil)))
}

func TestLostMirrorBringsTheLastGoodCommitBackWhileTheNewestIsBad(t *testing.T) {
	o, dir := fleetrepo.New(t), t.TempDir()
	p := plans(t, o, dir)
	good := o.Push(fleetrepo.TwoServices(nil))
	p.serves(good)
	bad := o.Push(map[string]string{"services/web.yaml": "nonsense"})
	p.refuses(bad)
	p.stop()
	if err := os.RemoveAll(filepath.Join(dir, "mirrors")); err != nil {
		t.Fatal(err)
	}
	p = plans(t, o, dir)
	fleetrepo.Until(t, "the commit is served again", func() bool { return p.Plan().Desired.Served.ID == good })
	p.refuses(bad)
}

func TestDamagedMemoryOfTheLastGoodCommitDoesNoHarm(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no id": `{"edition": {"commit": "../../etc/passwd"}}`,
		"an unknown commit": `{"edition": {"commit": "` + strings.Repeat("1", 40) + `"}, "id": {"stream": "a", "n": 7}}`,
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := fleetrepo.New(t), t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "edition.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			id := o.Push(fleetrepo.TwoServices(nil))
			p := plans(t, o, dir)
			p.serves(id)
			p.stop()
			saved, kept := revision.Open(revision.Options{File: filepath.Join(dir, "edition.json"), Log: slog.New(slog.DiscardHandler)}).Newest()
			if !kept || saved.Edition.Commit != id {
				t.Errorf("remembered %+v, %v", saved, kept)
			}
		})
	}
}

// withSource is twoServices with a third whose files lie in another repository.
func withSource(upstream *fleetrepo.Origin) map[string]string {
	fleet := fleetrepo.TwoServices(nil)
	fleet["sources/charts.yaml"] = fleetrepo.Header + "kind: Source\nmetadata: {name: charts}\nspec:\n  git: {url: \"" + upstream.URL() + "\", ref: main}\n"
	fleet["services/db.yaml"] = fleetrepo.Service("db", "  source: {name: charts, path: db}\n")
	return fleet
}

func TestCommitThatBringsASourceConvergesWithoutAnother(t *testing.T) {
	o, upstream := fleetrepo.New(t), fleetrepo.New(t)
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(fleetrepo.TwoServices(nil)))
	source := upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1")})
	p.serves(o.Push(withSource(upstream)))
	fleetrepo.Until(t, "the source's service is resolved", func() bool { return p.on("db").Key != "" })
	if p.on("db").Commit != source {
		t.Errorf("commit = %s", p.on("db").Commit)
	}
	p.packs()
}

func TestServiceIsHeldUntilItsSourceIsThereForTheFirstTime(t *testing.T) {
	o, upstream := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1")})
	back := upstream.Away()
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(withSource(upstream)))
	hold := p.on("db").Hold
	if hold == nil || hold.Source != "charts" || hold.File != "services/db.yaml" || p.on("db").Key != "" {
		t.Fatalf("hold = %+v", hold)
	}
	if p.on("web").Hold != nil || p.on("web").Key == "" {
		t.Error("another service is held too")
	}
	back()
	fleetrepo.Until(t, "the service is resolved", func() bool { return p.on("db").Hold == nil })
	p.packs()
}

func TestServiceIsHeldWhenItsPathVanishesFromItsSource(t *testing.T) {
	o, upstream := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1"), "README.md": "hello"})
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(withSource(upstream)))
	fleetrepo.Until(t, "the service is resolved", func() bool { return p.on("db").Key != "" })
	before := p.on("db")
	upstream.Push(map[string]string{"db": ""})
	fleetrepo.Until(t, "the service is held", func() bool { return p.on("db").Hold != nil })
	if p.on("web").Hold != nil || len(p.Plan().Desired.Refused) > 0 {
		t.Errorf("more than the service is held: %+v", p.Plan().Desired.Refused)
	}
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1")})
	fleetrepo.Until(t, "the service is back", func() bool { return p.on("db").Hold == nil })
	if p.on("db").Key != before.Key {
		t.Error("the same files have another key")
	}
}

func TestCommitInASourceChangesTheKeyOfItsServiceOnly(t *testing.T) {
	o, upstream := fleetrepo.New(t), fleetrepo.New(t)
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1")})
	p := plans(t, o, t.TempDir())
	p.serves(o.Push(withSource(upstream)))
	fleetrepo.Until(t, "the service is resolved", func() bool { return p.on("db").Key != "" })
	keys := func() map[string]string {
		return map[string]string{"api": p.on("api").Key, "db": p.on("db").Key, "web": p.on("web").Key}
	}
	before := keys()
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "2")})
	fleetrepo.Until(t, "the key changes", func() bool { return p.on("db").Key != before["db"] })
	after := keys()
	before["db"], after["db"] = "", ""
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	p.packs()
}

func TestRestartWithAllOriginsAwayServesSourcesToo(t *testing.T) {
	o, upstream, dir := fleetrepo.New(t), fleetrepo.New(t), t.TempDir()
	upstream.Push(map[string]string{"db/cm.yaml": fleetrepo.ConfigMap("db", "1")})
	p := plans(t, o, dir)
	good := o.Push(withSource(upstream))
	p.serves(good)
	fleetrepo.Until(t, "the service is resolved", func() bool { return p.on("db").Key != "" })
	before := p.Root("a").ETag()
	p.stop()
	o.Away()
	upstream.Away()
	p = plans(t, o, dir)
	p.serves(good)
	if p.Root("a").ETag() != before {
		t.Error("the restart changed the root")
	}
	p.packs()
}
