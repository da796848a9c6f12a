package hubsvc

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// upgradable is a fleet with packages, a catalog that others publish to, and one cluster.
type upgradable struct {
	*testing.T
	fleet, catalog *fleetrepo.Origin
	hub            *running
	bearer         func() string
	sequence       uint64
}

// packageFile is one version of a package whose one step is a ConfigMap.
func packageFile(name, version, spec string) map[string]string {
	dir := name + "/" + version + "/"
	return map[string]string{
		dir + "package.yaml": fleetrepo.Header + "kind: Package\nmetadata: {name: " + name + "}\nspec:\n  version: " + version + "\n" + spec +
			"  steps:\n  - name: app\n    manifests: {path: app, namespace: default}\n",
		dir + "app/cm.yaml": "# what " + name + " shows\n\n\n" + fleetrepo.ConfigMap(name, version),
	}
}

func newUpgradable(t *testing.T, policy string, change func(*Options), packages ...map[string]string) *upgradable {
	t.Helper()
	u := &upgradable{T: t, fleet: fleetrepo.New(t), catalog: fleetrepo.New(t)}
	all := map[string]string{}
	for _, p := range packages {
		maps.Copy(all, p)
	}
	u.catalog.Push(all)
	key, bearer := agent(t, "a")
	u.bearer = bearer
	files := map[string]string{
		"plural.yaml":           fleetrepo.Workspace("  management: a\n  catalogs: [{name: main, source: packages}]\n"),
		"clusters/a.yaml":       fleetrepo.Cluster("a", key),
		"sources/packages.yaml": fleetrepo.Header + "kind: Source\nmetadata: {name: packages}\nspec: {git: {url: \"" + u.catalog.URL() + "\", ref: main}}\n",
	}
	var names []string
	for path := range all {
		name, _, _ := strings.Cut(path, "/")
		files["packages/"+name+"/package.yaml"] = fleetrepo.Header + "kind: Installation\nmetadata: {name: " + name + "}\nspec:\n  upgrade: {" + policy + "}\n"
		names = append(names, name)
	}
	slices.Sort(names)
	u.fleet.Write(files)
	u.install(slices.Compact(names))
	opts := options(t, u.fleet)
	opts.Edits = new(committer.Edits)
	if change != nil {
		change(&opts)
	}
	u.hub = start(t, opts)
	u.hub.ready()
	return u
}

// install takes the oldest version of each package into the repository.
func (u *upgradable) install(names []string) {
	u.Helper()
	repo := os.DirFS(u.fleet.Work)
	f, err := fleet.Load(repo)
	if err != nil {
		u.Fatal(err)
	}
	set := catalog.All(catalog.Folder("main", os.DirFS(u.catalog.Work)))
	var changes []pkgupgrade.Change
	for _, name := range names {
		entries, _, err := set.Versions(u.Context(), "main", name)
		if err != nil || len(entries) == 0 {
			u.Fatalf("%s: %v, %v", name, entries, err)
		}
		oldest := entries[len(entries)-1]
		c := pkgupgrade.Change{Installation: name, Package: name, Catalog: "main", Version: oldest.Version, Requires: map[string]string{}}
		for _, d := range oldest.Package.Spec.Dependencies {
			c.Requires[d.Key()] = d.Package
		}
		changes = append(changes, c)
	}
	result, err := pkgupgrade.Plan(u.Context(), &compose.World{Fleet: f, Repo: repo, Lock: new(lockfile.Lock)}, set, changes, nil)
	if err != nil {
		u.Fatal(err)
	}
	files := map[string]string{}
	for path, text := range result.Changes {
		files[path] = string(text)
	}
	u.fleet.Push(files)
}

// reports says of all that the cluster should run how it is; what bad names failed its tests.
func (u *upgradable) reports(bad ...string) {
	u.Helper()
	_, body := u.hub.do(http.MethodGet, api.PollPath, u.bearer(), nil)
	poll := new(api.Poll)
	if err := proto.Unmarshal(body, poll); err != nil {
		u.Fatal(err)
	}
	u.sequence++
	report := &api.Report{AgentVersion: "v1", Boot: "x", Sequence: u.sequence}
	for _, d := range poll.GetDeployments() {
		s := &api.ServiceReport{Service: d.GetService(), Key: d.GetKey(), AppliedKey: d.GetKey(), Phase: api.Phase_HEALTHY}
		if slices.Contains(bad, d.GetService()) {
			s.AppliedKey, s.QuarantinedKey, s.Phase, s.Message = "", d.GetKey(), api.Phase_FAILED, "test smoke failed"
		}
		report.Services = append(report.Services, s)
	}
	encoded, err := proto.Marshal(report)
	if err != nil {
		u.Fatal(err)
	}
	if code, said := u.hub.do(http.MethodPost, api.ReportPath, u.bearer(), encoded); code != http.StatusNoContent {
		u.Fatalf("report: %d %s", code, said)
	}
}

// stands is an installation's state with its reasons, as /v1/upgrades tells.
func (u *upgradable) stands(name string) string {
	u.Helper()
	code, body := u.hub.do(http.MethodGet, "/v1/upgrades", u.hub.token, nil)
	var list v1.List[v1.Upgrade]
	if err := json.Unmarshal(body, &list); err != nil || code != http.StatusOK {
		u.Fatalf("upgrades: %d, %v", code, err)
	}
	for _, each := range list.Items {
		if each.Installation != name {
			continue
		}
		text := fmt.Sprintf("%s %s", each.Version, each.State)
		for _, r := range each.Reasons {
			text += fmt.Sprintf(" [%s: %s]", r.Code, r.Message)
		}
		return text
	}
	return ""
}

func (u *upgradable) until(what, installation, want string) {
	u.Helper()
	got := ""
	defer func() {
		if u.Failed() {
			u.Logf("%s: %s", installation, got)
		}
	}()
	fleetrepo.Until(u.T, what, func() bool { got = u.stands(installation); return strings.HasPrefix(got, want) })
}

func (u *upgradable) log() string {
	u.Helper()
	return u.fleet.Git(u.fleet.Bare, "log", "--format=%an: %s", "main")
}

const minorPolicy = "policy: minor"

func TestTheHubMovesPackagesInTheOrderOfTheirDependencies(t *testing.T) {
	const needs = "  dependencies: [{package: cache, version: \"%s\"}]\n"
	u := newUpgradable(t, minorPolicy, nil, packageFile("cache", "1.0.0", ""), packageFile("web", "1.0.0", fmt.Sprintf(needs, ">=1")))
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	// Somebody changes a package's file here, and its author changes another line of it.
	mine := u.fleet.Git(u.fleet.Bare, "show", "main:packages/web/payload/app/cm.yaml")
	u.fleet.Push(map[string]string{"packages/web/payload/app/cm.yaml": strings.Replace(mine+"\n", "# what web shows", "# what web shows, to us", 1)})
	u.hub.served(u.fleet)
	u.reports()
	next := packageFile("cache", "1.1.0", "")
	maps.Copy(next, packageFile("web", "1.1.0", fmt.Sprintf(needs, ">=1.1")))
	u.catalog.Push(next)
	u.until("the dependency goes first", "cache", "1.1.0 rolling [rolling: cache 1.1.0 is not healthy on a yet")
	u.until("what needs it waits for it", "web", "1.0.0 waiting [unhealthy: waits for cache 1.1.0 to be healthy on a: ")
	if got := u.log(); strings.Contains(got, "web to") || !strings.HasPrefix(got, "plural hub: Upgrade package cache to 1.1.0\n") {
		t.Errorf("log:\n%s", got)
	}
	u.reports()
	u.until("then it goes, too", "web", "1.1.0 rolling")
	u.reports()
	u.until("all are where they should be", "web", "1.1.0 current")
	if got := u.log(); !strings.HasPrefix(got, "plural hub: Upgrade package web to 1.1.0\nplural hub: Upgrade package cache to 1.1.0\n") {
		t.Errorf("log:\n%s", got)
	}
	text := u.fleet.Git(u.fleet.Bare, "show", "main:packages/web/payload/app/cm.yaml")
	if !strings.Contains(text, "# what web shows, to us") || !strings.Contains(text, `value: "1.1.0"`) {
		t.Errorf("the change here, or theirs, is lost:\n%s", text)
	}
	_, events := u.hub.do(http.MethodGet, "/v1/events?filter=reason:UpgradeDone", u.hub.token, nil)
	if strings.Count(string(events), `"UpgradeDone"`) != 2 {
		t.Errorf("events: %s", events)
	}
}

// soaksUntil is when an installation has waited for its canary for long enough, as soon as the hub says so.
func (u *upgradable) soaksUntil(what, name string) time.Time {
	u.Helper()
	var at time.Time
	fleetrepo.Until(u.T, what, func() bool {
		code, body := u.hub.do(http.MethodGet, "/v1/upgrades", u.hub.token, nil)
		var list v1.List[v1.Upgrade]
		if err := json.Unmarshal(body, &list); err != nil || code != http.StatusOK {
			u.Fatalf("upgrades: %d, %v", code, err)
		}
		for _, each := range list.Items {
			for _, r := range each.Reasons {
				if each.Installation == name && r.Code == v1.ReasonSoak && r.Until != nil {
					at = *r.Until
				}
			}
		}
		return !at.IsZero()
	})
	return at
}

func TestARestartOfTheHubMovesTheEndOfNoSoak(t *testing.T) {
	var opts Options
	u := newUpgradable(t, minorPolicy, func(o *Options) { opts = *o }, packageFile("cache", "1.0.0", ""), packageFile("web", "1.0.0", ""))
	u.fleet.Push(map[string]string{
		"packages/web/package.yaml": fleetrepo.Header + "kind: Installation\nmetadata: {name: web}\nspec:\n  upgrade: {" + minorPolicy +
			", after: [cache], soak: 100h}\n",
	})
	u.hub.served(u.fleet)
	u.reports()
	next := packageFile("cache", "1.1.0", "")
	maps.Copy(next, packageFile("web", "1.1.0", ""))
	u.catalog.Push(next)
	u.until("the canary goes first", "cache", "1.1.0 rolling")
	u.reports()
	want := u.soaksUntil("the canary soaks", "web")
	for range 2 {
		u.hub.stop()
		u.hub = start(t, opts)
		u.hub.ready()
		if got := u.soaksUntil("it soaks on", "web"); !got.Equal(want) {
			t.Errorf("after a restart it soaks until %s, before until %s", got, want)
		}
	}
}

func TestAVersionThatFailsItsTestsIsTakenBackAndSkipped(t *testing.T) {
	u := newUpgradable(t, minorPolicy, nil, packageFile("web", "1.0.0", ""))
	before := u.fleet.Git(u.fleet.Bare, "rev-parse", "main:packages/web/payload")
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	u.until("it moves", "web", "1.1.0 rolling")
	u.reports("web")
	u.until("it is taken back", "web", "1.0.0 reverted [reverted: 1.1.0 was taken back: web 1.1.0 failed a test on a: web is failed: test smoke failed]")
	if got := u.fleet.Git(u.fleet.Bare, "rev-parse", "main:packages/web/payload"); got != before {
		t.Error("the package's files are not as they were")
	}
	if got := u.fleet.Git(u.fleet.Bare, "show", "main:packages/web/package.yaml"); !strings.Contains(got, `skip: ["1.1.0"]`) {
		t.Errorf("the version is not skipped:\n%s", got)
	}
	u.reports()
	u.catalog.Push(packageFile("web", "1.1.1", ""))
	u.until("a mended version is taken", "web", "1.1.1 rolling")
	u.reports()
	u.until("and stays", "web", "1.1.1 current")
}

func TestAProposalIsABranchThatSomebodyMerges(t *testing.T) {
	u := newUpgradable(t, minorPolicy+", propose: pullRequest", nil, packageFile("web", "1.0.0", ""))
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	before := u.fleet.Git(u.fleet.Bare, "rev-parse", "main")
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	u.until("it is proposed", "web", "1.0.0 proposed [review: branch plural/upgrade/web-1.1.0 waits for somebody to merge it]")
	if got := u.fleet.Git(u.fleet.Bare, "rev-parse", "main"); got != before {
		t.Error("something was committed")
	}
	u.fleet.Git(u.fleet.Bare, "update-ref", "refs/heads/main", "refs/heads/plural/upgrade/web-1.1.0")
	u.hub.served(u.fleet)
	u.reports()
	u.until("it is merged", "web", "1.1.0 current")
}

func TestABranchOfSomebodyElsePassesForNoProposalAndStays(t *testing.T) {
	u := newUpgradable(t, minorPolicy+", propose: pullRequest", nil, packageFile("web", "1.0.0", ""))
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	const branch = "plural/upgrade/web-1.1.0"
	u.fleet.Git(u.fleet.Bare, "branch", branch, "main")
	before := u.fleet.Git(u.fleet.Bare, "rev-parse", branch)
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	u.until("it says so", "web", "1.0.0 blocked [plan: branch "+branch+" is there, and its newest commit is not the hub's]")
	if got := u.fleet.Git(u.fleet.Bare, "rev-parse", branch); got != before {
		t.Errorf("the branch is at %s", got)
	}
	u.fleet.Git(u.fleet.Bare, "branch", "-D", branch)
	u.until("it is deleted", "web", "1.0.0 proposed [review: branch "+branch+" waits for somebody to merge it]")
}

func TestAHubThatOnlyReadsShowsWhatItWouldDo(t *testing.T) {
	u := newUpgradable(t, minorPolicy, func(o *Options) { o.Edits = nil }, packageFile("web", "1.0.0", ""))
	u.reports()
	before := u.fleet.Git(u.fleet.Bare, "rev-parse", "main")
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	u.until("it says so", "web", "1.0.0 blocked [readOnly: this hub only reads the installation repo]")
	if got := u.fleet.Git(u.fleet.Bare, "rev-parse", "main"); got != before {
		t.Error("something was committed")
	}
}

func TestAMergeThatConflictsIsLeftToPeople(t *testing.T) {
	u := newUpgradable(t, minorPolicy, nil, packageFile("web", "1.0.0", ""))
	u.fleet.Push(map[string]string{"packages/web/payload/app/cm.yaml": "# ours\n" + fleetrepo.ConfigMap("web", "ours")})
	u.hub.served(u.fleet)
	u.reports()
	before := u.fleet.Git(u.fleet.Bare, "rev-parse", "main")
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	u.until("it says where", "web", "1.0.0 blocked [conflict: what was changed here and what the new version changes conflict in packages/web/payload/app/cm.yaml]")
	if got := u.fleet.Git(u.fleet.Bare, "rev-parse", "main"); got != before {
		t.Error("something was committed")
	}
}

func TestUpgradesAreFollowedOnTheStream(t *testing.T) {
	u := newUpgradable(t, minorPolicy, func(o *Options) { o.Edits = nil }, packageFile("web", "1.0.0", ""))
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.hub.url+"/v1/stream?kind=upgrades", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+u.hub.token)
	response, err := u.hub.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	u.catalog.Push(packageFile("web", "1.1.0", ""))
	seen := make(chan string, 1)
	go func() {
		text := ""
		for buffer := make([]byte, 4096); ; {
			n, err := response.Body.Read(buffer)
			if text += string(buffer[:n]); err != nil || strings.Contains(text, `"target":"1.1.0"`) {
				seen <- text
				return
			}
		}
	}()
	select {
	case text := <-seen:
		if !strings.Contains(text, "event: upgrades") || !strings.Contains(text, `"code":"readOnly"`) {
			t.Errorf("%s", text)
		}
	case <-time.After(30 * time.Second):
		t.Error("nothing is seen")
	}
}

// A catalog that is away keeps its own packages where they are, and says why.
func TestACatalogThatIsAwayIsSaid(t *testing.T) {
	u := newUpgradable(t, minorPolicy, nil, packageFile("web", "1.0.0", ""))
	u.reports()
	u.until("nothing is newer", "web", "1.0.0 current")
	u.fleet.Push(map[string]string{
		"sources/packages.yaml": fleetrepo.Header + "kind: Source\nmetadata: {name: packages}\nspec: {git: {url: \"" + u.catalog.URL() + ".gone\", ref: main}}\n",
	})
	u.until("it says so", "web", "1.0.0 waiting [catalog: catalog main cannot be read: ")
}
