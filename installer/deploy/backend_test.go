package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

const header = "apiVersion: plural.sh/v1alpha1\n"

// moduleRepo is an installation repo with one package, which is a module of terraform.
type moduleRepo struct {
	*testing.T
	dir, work string
}

func newModuleRepo(t *testing.T) *moduleRepo {
	t.Helper()
	t.Setenv("PLURAL_TERRAFORM", needs.Terraform(t))
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("TF_CLI_CONFIG_FILE", filepath.Join(home, "none.tfrc")) // nothing of this machine's own
	r := &moduleRepo{t, filepath.Join(home, "fleet"), filepath.Join(home, "work")}
	for name, text := range map[string]string{
		".config/git/config":                      "[user]\nname = t\nemail = t@example.com\n",
		"none.tfrc":                               "",
		"fleet/plural.yaml":                       header + "kind: Workspace\nmetadata: {name: demo}\nspec: {management: home}\n",
		"fleet/clusters/home.yaml":                header + "kind: Cluster\nmetadata: {name: home}\n",
		"fleet/packages/infra/package.yaml":       header + "kind: Installation\nmetadata: {name: infra}\n",
		"fleet/packages/infra/payload/tf/main.tf": "# nothing yet\n",
		"fleet/packages/infra/payload/README.md":  "A module.\n",
		"fleet/packages/infra/values.yaml":        "{}\n",
		"fleet/plural.lock": header + "kind: Lock\npackages:\n" +
			"- {name: infra, package: infra, catalog: own, version: 1.0.0, digest: \"sha256:" + strings.Repeat("0", 64) + "\"}\n",
		"fleet/packages/infra/payload/package.yaml": header + "kind: Package\nmetadata: {name: infra}\nspec:\n  version: 1.0.0\n" +
			"  steps:\n  - {name: tf, terraform: {path: tf}}\n",
	} {
		r.write(filepath.Join(home, name), text)
	}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *moduleRepo) write(name, text string) {
	r.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		r.Fatal(err)
	}
}

func (r *moduleRepo) git(args ...string) {
	r.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// commit commits another text of the module.
func (r *moduleRepo) commit(module string) {
	r.Helper()
	r.write(filepath.Join(r.dir, "packages/infra/payload/tf/main.tf"), module)
	r.git("add", ".")
	r.git("commit", "-qm", "change")
}

// open opens the repo for a deploy that has no way to any cluster.
func (r *moduleRepo) open() *deploy.Deploy {
	r.Helper()
	repo, err := workspace.Find(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	d, err := deploy.Open(r.Context(), deploy.Options{
		Repo: repo, Dir: r.work, NoInput: true,
		Identities: func() ([]age.Identity, error) { return nil, nil },
		Reach:      func([]string) (map[string]*rest.Config, error) { return nil, nil },
	})
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func (r *moduleRepo) deploy() error {
	r.Helper()
	_, err := r.open().Run(context.WithoutCancel(r.Context()), "test")
	return err
}

// A module whose state a backend has, and that has no backend any more, would find nothing of what it made, and make all of it
// once more.
func TestAModuleThatLosesItsBackendIsRefusedBeforeItMakesAllOnceMore(t *testing.T) {
	r := newModuleRepo(t)
	const resource = "resource \"terraform_data\" \"it\" { input = \"one\" }\n"
	kept := fmt.Sprintf("terraform {\n  backend \"local\" { path = %q }\n}\n", filepath.Join(r.work, "..", "shared.tfstate"))
	r.commit(kept + resource)
	if err := r.deploy(); err != nil {
		t.Fatal(err)
	}
	r.commit(resource)
	lost := new(deploy.BackendLostError)
	d := r.open()
	known, err := d.Foresee(t.Context())
	if err != nil || !errors.As(known["infra/tf"].Err, &lost) {
		t.Errorf("foreseen: %+v, %v", known, err)
	}
	err = r.deploy()
	if lost = new(deploy.BackendLostError); !errors.As(err, &lost) || lost.Step != "infra/tf" || lost.Backend != "local" {
		t.Fatalf("without its backend: %v", err)
	}
	if !strings.Contains(lost.Error(), "backend (local)") || !strings.Contains(lost.Fix(), "git log packages/infra") {
		t.Errorf("%s; %s", lost, lost.Fix())
	}
	r.commit(kept + resource + "# as before\n")
	if err := r.deploy(); err != nil {
		t.Errorf("with its backend again: %v", err)
	}
}

// What is pushed between the plan that a person agreed to and its beginning may change what the same steps read.
func TestAPlanIsNotCarriedOutWithWhatOthersPushedSinceItWasShown(t *testing.T) {
	r := newModuleRepo(t)
	const resource = "resource \"terraform_data\" \"it\" { input = %q }\n"
	r.commit("# nothing yet\n")
	origin := filepath.Join(filepath.Dir(r.dir), "origin.git")
	other := &moduleRepo{t, filepath.Join(filepath.Dir(r.dir), "other"), r.work + "-of-another"}
	r.git("clone", "-q", "--bare", ".", origin)
	r.git("remote", "add", "origin", origin)
	r.git("fetch", "-q", "origin")
	r.git("branch", "-q", "-u", "origin/main")
	r.git("clone", "-q", origin, other.dir)
	r.write(filepath.Join(r.dir, "packages/infra/payload/tf/more.tf"), fmt.Sprintf("locals { is = %q }\n", "mine"))
	r.git("add", ".")
	r.git("commit", "-qm", "mine, not pushed yet")
	shown := r.open()

	kept := fmt.Sprintf("terraform {\n  backend \"local\" { path = %q }\n}\n", filepath.Join(r.work, "..", "shared.tfstate"))
	other.commit(kept + fmt.Sprintf(resource, "theirs"))
	other.git("push", "-q", "origin", "HEAD:main")
	moved := new(deploy.MovedError)
	if _, err := shown.Run(t.Context(), "test"); !errors.As(err, &moved) {
		t.Fatalf("what nobody was shown was carried out: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.work, "..", "shared.tfstate")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("terraform ran: %v", err)
	}
	if err := r.deploy(); err != nil {
		t.Errorf("with the plan shown anew: %v", err)
	}
}
