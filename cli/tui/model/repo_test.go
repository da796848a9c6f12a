package model

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// registered is what a cluster's file says; key is the first letter of its agent's.
func registered(key string) string {
	return `{tags: {env: prod}, agent: {auth: "ed25519:` + key + `AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`
}

// clone is an installation repo with two clusters and a service on both.
func clone(t *testing.T) string {
	t.Helper()
	git, dir := needs.Program(t, "git", "your system's packages"), t.TempDir()
	document(t, dir, "plural.yaml", "Workspace", "demo", "{repo: {url: https://git.example.com/fleet}}")
	document(t, dir, "clusters/a.yaml", "Cluster", "a", registered("A"))
	document(t, dir, "clusters/b.yaml", "Cluster", "b", registered("B"))
	document(t, dir, "sources/up.yaml", "Source", "up", "{git: {url: https://git.example.com/up}}")
	document(t, dir, "services/web.yaml", "Service", "web", "{namespace: front, source: {path: apps/web}, clusters: {matchLabels: {env: prod}}}")
	document(t, dir, "services/far.yaml", "Service", "far", "{source: {name: up, path: far}, clusters: {names: [b]}}")
	write(t, dir, "apps/web/web.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "Begin"},
	} {
		cmd := exec.Command(git, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	return dir
}

func document(t *testing.T, dir, file, kind, name, spec string) {
	t.Helper()
	write(t, dir, file, "apiVersion: plural.sh/v1alpha1\nkind: "+kind+"\nmetadata: {name: "+name+"}\nspec: "+spec+"\n")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, dir string) *workspace.Repo {
	t.Helper()
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// told is each row with its phase and message.
func (c *console) told() map[string]string {
	rows := map[string]string{}
	v := c.Deployments.View()
	defer v.Close()
	for i := range v.Len() {
		rows[v.ID(i)] = strings.TrimSpace(string(v.At(i).Phase) + " " + v.At(i).Message)
	}
	return rows
}

func TestWithoutAHubTheRepoIsShownWithWhatWasSeenLast(t *testing.T) {
	dir, store := clone(t), fleetcache.New(t.TempDir(), "hub", "demo", "")
	offline := Options{Now: time.Now}
	c := watch(t, FromRepo(find(t, dir), store, offline))
	c.until("all is read", func() bool { return c.Upgrades.Whole() })
	if diff := gocmp.Diff(map[string]string{"a/web": "pending not seen yet", "b/web": "pending not seen yet", "b/far": "pending not seen yet"}, c.told()); diff != "" {
		t.Fatalf("never seen (-want +got):\n%s", diff)
	}
	if c.State.Link != Offline || !c.AsOf().IsZero() || c.Summary.Commit.Subject != "Begin" || c.Summary.Deployments[v1.Pending] != 3 || len(c.Problems) != 0 {
		t.Errorf("%+v, %+v, %v", c.State, c.Summary, c.Problems)
	}
	if d := c.Deployments.Get("a/web"); d.Namespace != "front" || d.Source != "." || d.Tags["env"] != "prod" {
		t.Errorf("%+v", d)
	}
	if s := c.Services.Get("web"); s.Clusters != 2 || s.Ready != 0 || s.Phase != v1.Pending || c.Sources.Len() != 2 {
		t.Errorf("%+v, %d sources", s, c.Sources.Len())
	}

	key := keyOf(t, dir)
	seen := []fleetcache.Cluster{
		{Cluster: v1.Cluster{Name: "a", Phase: v1.Healthy}, Rows: []fleetcache.Row{
			{Service: "gone", Phase: v1.Healthy}, {Service: "web", Phase: v1.Healthy, Applied: fleetcache.FingerprintOf(key)},
		}},
		{Cluster: v1.Cluster{Name: "b", Phase: v1.Healthy}, Rows: []fleetcache.Row{
			{Service: "far", Phase: v1.Healthy, Applied: 7}, {Service: "web", Phase: v1.Healthy, Applied: 7},
		}},
		{Cluster: v1.Cluster{Name: "left", Phase: v1.Healthy}, Rows: []fleetcache.Row{{Service: "web", Phase: v1.Healthy}}},
	}
	at := time.Now().Add(-time.Hour).UTC()
	if err := store.Save(fleetcache.Head{At: at}, func(yield func(fleetcache.Cluster) bool) {
		for _, each := range seen {
			if !yield(each) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	c = watch(t, FromRepo(find(t, dir), store, offline))
	c.until("what was seen", func() bool { return c.Deployments.Len() == 5 })
	c.until("all is read", func() bool { return c.Upgrades.Whole() })
	want := map[string]string{
		"a/web": "healthy", "a/gone": "removing " + notAsked,
		"b/web": "progressing " + otherKey, "b/far": "healthy", // what the hub alone can tell the key of is as it was
	}
	if diff := gocmp.Diff(want, c.told()); diff != "" {
		t.Errorf("seen before (-want +got):\n%s", diff)
	}
	if !c.AsOf().Equal(at) || c.Clusters.Get("a").Phase != v1.Removing || c.Clusters.Get("b").Ready != 1 {
		t.Errorf("as of %s, %+v, %+v", c.AsOf(), c.Clusters.Get("a"), c.Clusters.Get("b"))
	}
}

// keyOf is what web's key is on cluster a.
func keyOf(t *testing.T, dir string) string {
	t.Helper()
	var key string
	source := FromRepo(find(t, dir), nil, Options{Now: time.Now})
	ctx, cancel := context.WithCancel(t.Context())
	_ = source.Run(ctx, func(b Batch) {
		for _, d := range b.Deployments.Items {
			if d.Cluster == "a" && d.Service == "web" {
				key = d.Key
			}
		}
		if key != "" {
			cancel()
		}
	})
	cancel()
	if key == "" {
		t.Fatal("web has no key")
	}
	return key
}

func TestRepoWithMistakesTellsThemAndShowsWhatWasSeen(t *testing.T) {
	dir, store := clone(t), fleetcache.New(t.TempDir(), "hub", "demo", "")
	write(t, dir, "services/web.yaml", "kind: [")
	seen := fleetcache.Cluster{Cluster: v1.Cluster{Name: "a"}, Rows: []fleetcache.Row{{Service: "web", Phase: v1.Degraded}}}
	if err := store.Save(fleetcache.Head{At: start}, func(yield func(fleetcache.Cluster) bool) { yield(seen) }); err != nil {
		t.Fatal(err)
	}
	c := watch(t, FromRepo(find(t, dir), store, Options{Now: time.Now}))
	c.until("the mistake", func() bool { return len(c.Problems) > 0 })
	if c.Problems[0].File != "services/web.yaml" || c.Problems[0].Line == 0 || !c.shows("a/web degraded") {
		t.Errorf("%+v, %v", c.Problems, c.rows())
	}
}

func TestDamagedMemoryIsToldAndTheRepoShown(t *testing.T) {
	dir, store := clone(t), fleetcache.New(t.TempDir(), "hub", "demo", "")
	if err := store.Save(fleetcache.Head{At: start}, func(func(fleetcache.Cluster) bool) {}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.Path(), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := watch(t, FromRepo(find(t, dir), store, Options{Now: time.Now}))
	c.until("the rows", func() bool { return c.Deployments.Len() == 3 && len(c.Problems) == 1 })
	if !strings.Contains(c.Problems[0].Message, store.Path()) {
		t.Errorf("%+v", c.Problems)
	}
}

func TestHubThatComesBackIsShownInThePlaceOfTheRepo(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", pages([]v1.Deployment{row("hub", v1.Healthy)}))
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	hub, err := client.New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	var there atomic.Bool
	hub.Dial(func(ctx context.Context, network, address string) (net.Conn, error) {
		if !there.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	})
	down := func(error) string { return "this fleet is down" }
	c := watch(t, FromBoth(hub, find(t, clone(t)), nil, Options{Now: time.Now, Patience: time.Millisecond, Why: down}))
	c.until("the repo, with why", func() bool {
		return c.State.Link == Offline && c.State.Why == "this fleet is down" && c.Deployments.Len() == 3
	})
	there.Store(true)
	fewest := 9
	c.until("the hub", func() bool {
		fewest = min(fewest, c.Deployments.Len())
		return c.State.Link == Live && c.shows("hub/web healthy")
	})
	if fewest == 0 {
		t.Error("the screen was empty in between")
	}
}

func TestHubThatRefusesLeavesTheRepoOnTheScreen(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", func(string) any { return http.StatusForbidden })
	c := watch(t, FromBoth(f.client(t), find(t, clone(t)), nil, Options{Now: time.Now}))
	c.until("the repo", func() bool { return c.State.Link == Offline && c.Deployments.Len() == 3 })
	if !strings.Contains(c.State.Why, "403") {
		t.Errorf("%+v", c.State)
	}
}

func TestWhatIsLiveIsRememberedForWhenItIsNot(t *testing.T) {
	now := start
	f, store := New(func() time.Time { return now }), fleetcache.New(t.TempDir(), "hub", "demo", "")
	if f.Remember(store) != nil {
		t.Error("nothing is known, and would be written")
	}
	f.Apply(Batch{
		State: &State{Link: Live}, Summary: &v1.Summary{Commit: v1.Commit{ID: "c1"}}, Marks: marks(Mark{Begin: true}),
		Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "b", Phase: v1.Healthy, Tags: map[string]string{"env": "prod"}}, {Name: "a"}, {Name: "c"}}},
		Services: v1.Changes[v1.Service]{Items: []v1.Service{{Name: "web", Namespace: "front"}}},
		Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{
			{Cluster: "b", Service: "web", Phase: v1.Healthy, AppliedKey: "k1", Ready: 1, Objects: 2},
			{Cluster: "a", Service: "web", Phase: v1.Held, Held: &v1.Waiting{Count: 2}},
			{Cluster: "b", Service: "db", Phase: v1.Failed, Message: "no image"},
			{Cluster: "aa", Service: "lone"},
		}},
	})
	if f.Remember(store) != nil {
		t.Error("a part of the fleet would be written in the place of the whole")
	}
	f.Apply(Batch{Marks: marks(Mark{End: true})})
	keep := f.Remember(store)
	f.Apply(Batch{Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{{Cluster: "b", Service: "web", Phase: v1.Degraded}}, Gone: []string{"a/web"}}})
	if err := keep(); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load()
	want := &fleetcache.Seen{
		Head: fleetcache.Head{At: start, Summary: &v1.Summary{Commit: v1.Commit{ID: "c1"}}, Services: []v1.Service{{Name: "web", Namespace: "front"}}},
		Clusters: []fleetcache.Cluster{
			{Cluster: v1.Cluster{Name: "a"}, Rows: []fleetcache.Row{{Service: "web", Phase: v1.Held, Held: 2}}},
			{Cluster: v1.Cluster{Name: "b", Phase: v1.Healthy, Tags: map[string]string{"env": "prod"}}, Rows: []fleetcache.Row{
				{Service: "db", Phase: v1.Failed, Message: "no image"},
				{Service: "web", Phase: v1.Healthy, Ready: 1, Objects: 2, Applied: fleetcache.FingerprintOf("k1")},
			}},
			{Cluster: v1.Cluster{Name: "c"}},
		},
	}
	if diff := gocmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if f.Remember(store) == nil {
		t.Error("a row changed, and nothing would be written")
	}
	if f.Remember(store) != nil {
		t.Error("nothing changed, and it would be written again")
	}
}

func TestAHubThatWentAwayIsRememberedAsOfThen(t *testing.T) {
	now := start
	f, store := New(func() time.Time { return now }), fleetcache.New(t.TempDir(), "hub", "demo", "")
	f.Apply(Batch{
		State: &State{Link: Live}, Marks: marks(Mark{Begin: true}),
		Clusters: v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "a", Phase: v1.Healthy}}},
	})
	f.Apply(Batch{Marks: marks(Mark{End: true})})
	f.Apply(Batch{State: &State{Link: Broken, Since: start.Add(time.Minute)}})
	now = start.Add(time.Hour)
	keep := f.Remember(store)
	if keep == nil {
		t.Fatal("what was seen would not be written")
	}
	if err := keep(); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Load(); err != nil || !got.At.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v, %v", got, err)
	}
}
