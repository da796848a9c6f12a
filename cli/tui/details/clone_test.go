package details

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// clone is an installation repo with a history, made by git itself.
type clone struct {
	t    *testing.T
	dir  string
	repo *workspace.Repo
}

func newClone(t *testing.T) *clone {
	t.Helper()
	needs.Program(t, "git", "git")
	c := &clone{t: t, dir: t.TempDir()}
	t.Setenv("HOME", t.TempDir())
	c.git("init", "-q", "-b", "main")
	c.commit("Begin", "plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	c.commit("Add edge-1", "clusters/edge-1.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\nspec: {}\n")
	c.commit("Add web", "services/web.yaml", web)
	var err error
	if c.repo, err = workspace.Find(c.dir); err != nil {
		t.Fatal(err)
	}
	return c
}

const web = `apiVersion: plural.sh/v1alpha1
kind: Service
metadata: {name: web}
spec:
  source: {path: apps/web}
  namespace: shop
  clusters: {names: [edge-1]}
`

func (c *clone) git(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com"}, args...)...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c *clone) commit(subject, name, text string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", ".")
	c.git("commit", "-qm", subject)
	return c.git("rev-parse", "HEAD")
}

func TestWithoutAHubTheCloneTellsItsHistory(t *testing.T) {
	c := newClone(t)
	c.commit("Serve more", "apps/web/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: one}\n")
	w, _ := world(t, nil)
	w.Hub, w.Repo = nil, c.repo
	for about, want := range map[pane.Subject][]string{
		theWeb:                 {"Serve more", "Add web"},
		theEdge:                {"Add edge-1"},
		{Kind: pane.KindFleet}: {"Serve more", "Add web", "Add edge-1", "Begin"},
	} {
		s := open(t, w, "history", about)
		s.play(nil)
		s.says(append(want, "from the clone")...)
		if got := strings.Count(s.screen(140, 60), "Ann"); got != len(want) {
			t.Errorf("%d commits of %v:\n%s", got, want, s.screen(140, 60))
		}
	}
}

func TestACommitIsShownAsWhatItChanged(t *testing.T) {
	c := newClone(t)
	first := c.git("rev-list", "--max-parents=0", "HEAD")
	id := c.commit("Move web", "services/web.yaml", strings.ReplaceAll(web, "shop", "store"))
	w, _ := world(t, map[string]any{})
	w.Repo = c.repo
	s := open(t, w, "diff", pane.Subject{Kind: pane.KindCommit, Name: id})
	s.play(nil)
	s.says("commit "+id, "Move web", "services/web.yaml changed", "-  namespace: shop", "+  namespace: store", "1 difference")
	s = open(t, w, "diff", pane.Subject{Kind: pane.KindCommit, Name: first})
	s.play(nil)
	s.says("Begin", "plural.yaml added", "+kind: Workspace")
	s = open(t, w, "diff", pane.Subject{Kind: pane.KindCommit, Name: strings.Repeat("0", 40)})
	s.play(nil)
	s.says("error: the clone does not have commit 000", "fix: git pull")
	s = open(t, w, "describe", pane.Subject{Kind: pane.KindCommit, Name: id})
	s.play(nil)
	s.says("Move web", "services/web.yaml")
}

func TestAnUpgradesBranchIsShown(t *testing.T) {
	c := newClone(t)
	c.git("checkout", "-qb", "up")
	c.commit("Upgrade", "services/web.yaml", strings.ReplaceAll(web, "shop", "store"))
	c.git("update-ref", "refs/remotes/origin/plural/cert-2.0", "HEAD")
	c.git("tag", "origin/plural/cert-2.0", "main") // which is not what is asked about
	c.git("checkout", "-q", "main")
	w, _ := world(t, map[string]any{"/v1/upgrades": v1.List[v1.Upgrade]{Items: []v1.Upgrade{
		{Installation: "cert", Version: "1.0", Newest: "2.0", Branch: "plural/cert-2.0", State: v1.UpgradeProposed},
		{Installation: "far", Version: "1.0", Newest: "2.0", Branch: "elsewhere"},
	}}})
	w.Repo = c.repo
	s := open(t, w, "diff", pane.Subject{Kind: pane.KindPackage, Name: "cert"})
	s.play(nil)
	s.says("cert  1.0 -> 2.0", "plural/cert-2.0", "+  namespace: store")
	s = open(t, w, "diff", pane.Subject{Kind: pane.KindPackage, Name: "far"})
	s.play(nil)
	s.says("git fetch")
	if err := os.MkdirAll(filepath.Join(c.repo.Root(), ".plural/seal.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	s = open(t, w, "diff", pane.Subject{Kind: pane.KindPackage, Name: "cert"})
	s.play(nil)
	s.says("cert  1.0 -> 2.0", "error: .plural/seal.yaml: not a regular file")
}

func TestYAMLIsThatOfTheClone(t *testing.T) {
	c := newClone(t)
	w, _ := world(t, map[string]any{"/v1/upgrades": v1.List[v1.Upgrade]{Items: []v1.Upgrade{{Installation: "cert", Version: "1.0"}}}})
	w.Repo = c.repo
	for about, want := range map[pane.Subject]string{
		theWeb: "# services/web.yaml:1", theEdge: "# clusters/edge-1.yaml:1", onEdge: "# services/web.yaml:1",
		{Kind: pane.KindPackage, Name: "cert"}: "# as the hub http://127.0.0.1",
	} {
		s := open(t, w, "yaml", about)
		s.play(nil)
		s.says(want)
	}
	s := open(t, w, "yaml", theWeb)
	s.play(nil)
	s.says("kind: Service", "path: apps/web")
}

func TestWhereAServiceIsWrittenAndWhatItWaitsForIsDescribed(t *testing.T) {
	c := newClone(t)
	c.commit("Add db", "services/db.yaml", strings.ReplaceAll(web, "web", "db"))
	c.commit("Wait for db", "services/web.yaml", web+"  dependsOn: [{service: db}]\n")
	w, _ := world(t, map[string]any{
		"/v1/deployments/edge-1/web": v1.Deployment{Cluster: "edge-1", Service: "web", Phase: v1.Pending},
		"/v1/deployments/edge-1/db":  v1.Deployment{Cluster: "edge-1", Service: "db", Phase: v1.Failed, Message: "no disk"},
	})
	w.Repo = c.repo
	s := open(t, w, "describe", onEdge)
	s.play(nil)
	s.says("written in    services/web.yaml:1", `"Wait for db" by Ann`, "waits for", "db  ✗ failed  no disk")
}

func TestACommitThatWasNotAllComparedSaysSo(t *testing.T) {
	large := v1.Revision{Commit: v1.Commit{ID: "aaaaaaaaaa", Subject: "Vendor", Author: "Ann", Time: ago(time.Minute)}, Incomplete: true}
	w, _ := world(t, map[string]any{
		"/v1/services/web/history": v1.List[v1.Revision]{Items: []v1.Revision{large}}, "/v1/history/aaaaaaaaaa": large,
	})
	s := open(t, w, "history", theWeb)
	s.play(nil)
	s.says("Vendor", "not all was compared")
	s = open(t, w, "describe", pane.Subject{Kind: pane.KindCommit, Name: large.ID})
	s.play(nil)
	s.says("Vendor", "not all was compared")
}
