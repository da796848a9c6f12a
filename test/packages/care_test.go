package packages

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/workspace"
)

// network installs a package whose module makes something, and writes down what it destroys.
func (w *world) network(step string) (trace string) {
	w.Helper()
	trace = filepath.Join(w.home, "trace")
	w.install("net", "  version: 1.0.0\n  steps: [{name: "+step+", terraform: {path: module}}]\n", map[string]string{
		"module/main.tf": `resource "terraform_data" "network" {
  input = "` + trace + `"
  provisioner "local-exec" {
    when    = destroy
    command = "echo destroyed >> '${self.input}'"
  }
}
`,
	}, nil)
	w.commit("Install a network whose step is called " + step)
	return trace
}

func TestWhatAStepMadeIsNotDestroyedForBeingGoneUnlessThatIsMeant(t *testing.T) {
	w := newWorld(t)
	w.network("network")
	w.deploy()
	trace := w.network("renamed")
	refs := w.run("git", "ls-remote", w.origin)
	w.fails(1, append([]string{"deploy", "--yes"}, w.reach()...)...).says(t, []string{"net/network", "destroy"},
		[]string{"--allow-destroy"})
	if w.exists(trace) {
		t.Fatalf("it was refused, and terraform did this: %v", w.traced(trace))
	}
	if now := w.run("git", "ls-remote", w.origin); now != refs {
		t.Errorf("a deploy that was refused wrote:\n%s%s", refs, now)
	}
	if got := done(w.deploy("--allow-destroy")); !slices.Equal(got, []string{"remove net/network", "run net/renamed"}) {
		t.Error(got)
	}
	if got := w.traced(trace); !slices.Equal(got, []string{"destroyed"}) {
		t.Error(got)
	}
}

func TestWhatThePackageSaysMayBeDestroyedGoesWithItsStep(t *testing.T) {
	w := newWorld(t)
	trace := w.network("network")
	w.edit("packages/net/payload/package.yaml", func(s string) string {
		return strings.Replace(s, "path: module", "path: module, allowDestroy: true", 1)
	})
	w.commit("Let it be destroyed")
	w.deploy()
	w.run("git", "rm", "-rq", "packages/net")
	w.commit("Remove the network")
	if got := done(w.deploy()); !slices.Equal(got, []string{"remove net/network"}) {
		t.Error(got)
	}
	if got := w.traced(trace); !slices.Equal(got, []string{"destroyed"}) {
		t.Error(got)
	}
}

// app installs a package with one object.
func (w *world) app(name string, requires map[string]string) {
	w.Helper()
	spec := "  version: 1.0.0\n"
	for _, other := range requires {
		spec += "  dependencies: [{package: " + other + "}]\n"
	}
	w.install(name, spec+"  steps: [{name: app, manifests: {path: app, namespace: "+w.cluster.Namespace+"}}]\n",
		map[string]string{"app/object.yaml": configMap(name, "is", "there")}, requires)
}

func (w *world) stands(name string) bool {
	w.Helper()
	_, err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Get(w.Context(), name, metav1.GetOptions{})
	return err == nil
}

func TestWhatIsProtectedSinceTheLastDeployIsKeptByDown(t *testing.T) {
	w := newWorld(t)
	w.app("db", nil)
	w.app("web", map[string]string{"db": "db"})
	w.commit("Install two packages")
	w.deploy()
	w.edit("packages/db/package.yaml", func(s string) string { return s + "spec: {protected: true}\n" })
	w.commit("Protect the database")
	w.plural(append([]string{"down", "--confirm=fleet"}, w.reach()...)...)
	if !w.stands("db") || w.stands("web") {
		t.Errorf("the protected one is there: %v, the other one: %v", w.stands("db"), w.stands("web"))
	}
}

func TestADeployRecordsThatAPackageIsProtectedFromNowOn(t *testing.T) {
	w := newWorld(t)
	w.app("db", nil)
	w.commit("Install a database")
	w.deploy()
	w.edit("packages/db/package.yaml", func(s string) string { return s + "spec: {protected: true}\n" })
	w.commit("Protect the database")
	if got := done(w.deploy()); len(got) != 0 {
		t.Errorf("no step has to be taken for that: %v", got)
	}
	w.run("git", "rm", "-rq", "packages/db")
	w.commit("Remove the database")
	if got := done(w.deploy()); len(got) != 0 || !w.stands("db") {
		t.Errorf("it was protected, and yet: %v", got)
	}
}

// record is the record of deployments as the origin has it.
func (o *operator) record() string {
	o.Helper()
	return o.run("git", "--git-dir", o.origin, "show", ledger.Ref+":record.json")
}

func TestADeployWithNothingToDoGivesBackTheLockOfARunThatDied(t *testing.T) {
	w := newWorld(t)
	w.app("db", nil)
	w.commit("Install a database")
	w.deploy()
	repo, err := workspace.Find(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(repo)
	if err != nil {
		t.Fatal(err)
	}
	held, err := l.Acquire(t.Context(), ledger.Lock{Purpose: "die"})
	if err != nil {
		t.Fatal(err)
	}
	dead, die := context.WithCancel(t.Context())
	die()
	if err := held.Release(dead); err == nil || !strings.Contains(w.record(), held.Lock.ID) {
		t.Fatalf("the lock is not left: %v", err)
	}
	w.deploy()
	if strings.Contains(w.record(), held.Lock.ID) {
		t.Error("the lock stays")
	}
}

func TestWhatIsDeployedIsPushedFirstSoThatItsCommitIsNeverMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.app("db", nil)
	w.commit("Install a database")
	w.deploy()
	other := w.second()
	other.write("README.md", "changed by somebody else\n")
	other.commit("Change what nobody deploys")
	w.app("web", map[string]string{"db": "db"}) // its services.yaml is to be generated: a second commit here
	w.run("git", "add", "-A")
	w.run("git", "commit", "--quiet", "-m", "Install what is not pushed")
	w.deploy()
	other.run("git", "pull", "--quiet", "--rebase")
	if got := done(other.deploy()); len(got) != 0 {
		t.Errorf("the other one has to do %v", got)
	}
}

func TestStateIsNotLeftInClearWhenTerraformFails(t *testing.T) {
	w := newWorld(t)
	w.install("net", "  version: 1.0.0\n  steps: [{name: tf, terraform: {path: module}}]\n", map[string]string{"module/main.tf": `resource "terraform_data" "made" {
  input = "in-the-state"
}
resource "terraform_data" "fails" {
  input = terraform_data.made.output
  provisioner "local-exec" { command = "exit 1" }
}
`}, nil)
	w.commit("Install what fails")
	w.fails(1, append([]string{"deploy", "--yes"}, w.reach()...)...).says(t, []string{"net/tf"}, nil)
	if !strings.Contains(w.record(), "tfstate") {
		t.Fatal("the record has no state")
	}
	err := filepath.WalkDir(filepath.Join(w.home, ".state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), `"lineage"`) {
			t.Errorf("%s is a state in clear", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAServiceThatIsCalledOtherwiseLeavesNothingUnderItsFormerName(t *testing.T) {
	w := newWorld(t)
	w.app("db", nil)
	w.commit("Install a database")
	w.deploy()
	w.edit("packages/db/payload/package.yaml", func(s string) string {
		return strings.Replace(s, "name: app, manifests: {", "name: app, manifests: {name: renamed, ", 1)
	})
	w.edit("packages/db/payload/app/object.yaml", func(s string) string { return strings.Replace(s, "name: db", "name: db2", 1) })
	w.commit("Call its service otherwise")
	w.deploy()
	if w.stands("db") || !w.stands("db2") {
		t.Errorf("what the service of the former name had is there: %v, that of the new one: %v", w.stands("db"), w.stands("db2"))
	}
	if strings.Contains(w.record(), `"db": [`) {
		t.Errorf("the record still has it:\n%s", w.record())
	}
}

func TestWhatIsLeftOnAClusterThatLeftTheFleetStopsNobody(t *testing.T) {
	w := newWorld(t)
	w.write("clusters/edge.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge}\n")
	w.app("db", nil)
	w.edit("packages/db/package.yaml", func(s string) string { return s + "spec: {clusters: {names: [edge]}}\n" })
	w.commit("Install a database elsewhere")
	w.plural("deploy", "--yes", "--kubeconfig", w.kubeconfig, "--context", "edge=kubetest")
	w.run("git", "rm", "-rq", "packages/db", "clusters/edge.yaml")
	w.commit("Give the cluster away")
	if got := done(w.deploy()); !slices.Equal(got, []string{"remove db/app"}) || !w.stands("db") {
		t.Error(got)
	}
}
