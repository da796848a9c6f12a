package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// home is a machine with a clone of an installation repo.
type home struct {
	*testing.T
	dir, origin string
	env         Env
}

func newHome(t *testing.T) *home {
	t.Helper()
	needs.Program(t, "git", "git")
	base := t.TempDir()
	config := filepath.Join(base, "gitconfig")
	must(t, os.WriteFile(config, []byte("[user]\n\tname = Ada\n\temail = ada@example.com\n[init]\n\tdefaultBranch = main\n"), 0o600))
	t.Setenv("GIT_CONFIG_GLOBAL", config)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	h := &home{T: t, dir: filepath.Join(base, "fleet"), origin: filepath.Join(base, "origin.git")}
	must(t, os.Mkdir(h.dir, 0o700))
	h.in(base, "init", "-q", "--bare", h.origin)
	h.git("init", "-q")
	h.git("remote", "add", "origin", "file://"+h.origin)
	h.write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	h.commit()
	h.git("push", "-q", "-u", "origin", "main")
	repo, err := workspace.Find(h.dir)
	must(t, err)
	h.env = Env{
		Version: "1.2.3", Program: "/usr/bin/plural", Repo: repo,
		Identities: func() ([]age.Identity, error) { return nil, nil },
	}
	return h
}

func (h *home) in(dir string, args ...string) string {
	h.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (h *home) git(args ...string) string { h.Helper(); return h.in(h.dir, args...) }

func (h *home) write(name, text string) {
	h.Helper()
	path := filepath.Join(h.dir, name)
	must(h.T, os.MkdirAll(filepath.Dir(path), 0o700))
	must(h.T, os.WriteFile(path, []byte(text), 0o600))
}

func (h *home) commit() {
	h.Helper()
	h.git("add", "-A")
	h.git("commit", "-q", "--allow-empty", "-m", "change")
}

// found is what the checks say, by "GROUP/NAME".
func (h *home) found() map[string]Result { h.Helper(); return found(h.T, h.env, false) }

func found(t *testing.T, env Env, before bool) map[string]Result {
	t.Helper()
	results := map[string]Result{}
	for _, f := range Examine(t.Context(), Checks(env, before), Options{}) {
		if _, twice := results[f.Group+"/"+f.Name]; twice {
			t.Errorf("%s/%s is checked twice", f.Group, f.Name)
		}
		if (f.State == Fail || f.State == Warn) && (f.Text == "" || f.Fix == "") {
			t.Errorf("%s/%s is %s without text or fix: %+v", f.Group, f.Name, f.State, f.Result)
		}
		results[f.Group+"/"+f.Name] = f.Result
	}
	return results
}

// is compares a result by its state and words of its text, cause and fix.
func is(t *testing.T, results map[string]Result, check string, state State, words ...string) {
	t.Helper()
	r, ok := results[check]
	if !ok {
		t.Fatalf("there is no check %s among %v", check, slices.Sorted(maps.Keys(results)))
	}
	all := r.Text + "\n" + r.Cause + "\n" + r.Fix
	if r.State != state {
		t.Errorf("%s is %s: %s", check, r.State, all)
	}
	for _, word := range words {
		if !strings.Contains(all, word) {
			t.Errorf("%s does not say %q: %s", check, word, all)
		}
	}
}

func TestASoundRepoHasNothingToComplainOf(t *testing.T) {
	h := newHome(t)
	h.env.Folders = []string{filepath.Join(t.TempDir(), "not", "there", "yet")}
	results := h.found()
	for check, r := range results {
		if r.State == Fail || r.State == Warn && check != "machine/disk space" {
			t.Errorf("%s: %+v", check, r)
		}
	}
	is(t, results, "git/identity", OK, "Ada <ada@example.com>")
	is(t, results, "git/remote", OK, "1 branch")
	is(t, results, "git/pushed", OK)
	is(t, results, "git/deployments", OK, "0 packages")
	is(t, results, "repo/files", OK, "0 clusters")
	is(t, results, "keys/identity", Skipped)
	is(t, results, "hub/name", Skipped, "plural.yaml")
}

func TestWithoutARepoWhatNeedsNoneIsChecked(t *testing.T) {
	env := Env{
		NoRepo:     errors.New("this is not an installation repo"),
		Identities: func() ([]age.Identity, error) { return nil, nil },
	}
	results := found(t, env, true)
	is(t, results, "git/version", OK, "git 2.")
	is(t, results, "git/remote", Skipped, "not an installation repo")
	is(t, results, "keys/identity", Warn, "plural crypto init")
	for _, later := range []string{"hub/health", "hub/agents", "repo/packages", "git/pushed"} {
		if _, ok := results[later]; ok {
			t.Errorf("%s is checked before an install", later)
		}
	}
}

func TestWhatIsWrongWithGitIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		make  func(h *home)
		check string
		state State
		words []string
	}{
		"no name": {func(h *home) {
			must(h.T, os.WriteFile(os.Getenv("GIT_CONFIG_GLOBAL"), []byte("[user]\n\temail = ada@example.com\n"), 0o600))
		}, "git/identity", Warn, []string{"user.name", "git config --global"}},
		"detached": {
			func(h *home) { h.git("checkout", "-q", "--detach") }, "git/work tree", Fail,
			[]string{"detached", "git switch"},
		},
		"a new file": {func(h *home) { h.write("new", "x") }, "git/work tree", Warn, []string{"1 change", "git status"}},
		"no remote":  {func(h *home) { h.git("remote", "remove", "origin") }, "git/remote", Warn, []string{"git remote add"}},
		"remote away": {
			func(h *home) { must(h.T, os.Rename(h.origin, h.origin+"-away")) }, "git/remote", Fail,
			[]string{"does not appear to be a git repository", "git ls-remote origin"},
		},
		"away, so nothing follows": {
			func(h *home) { must(h.T, os.Rename(h.origin, h.origin+"-away")) }, "git/pushed", Skipped, []string{"cannot be asked"},
		},
		"ahead": {func(h *home) { h.commit(); h.commit() }, "git/pushed", Warn, []string{"2 commits", "git push"}},
		"behind": {func(h *home) {
			h.commit()
			h.git("push", "-q")
			h.git("reset", "-q", "--hard", "HEAD~1")
		}, "git/pushed", Warn, []string{"git pull --rebase"}},
		"others were there": {func(h *home) {
			other := filepath.Join(h.TempDir(), "other")
			h.in(h.dir, "clone", "-q", h.origin, other)
			h.in(other, "commit", "-q", "--allow-empty", "-m", "theirs")
			h.in(other, "push", "-q")
		}, "git/pushed", Warn, []string{"git pull --rebase"}},
		"a branch of its own": {
			func(h *home) { h.git("switch", "-q", "-c", "topic") }, "git/pushed", Warn,
			[]string{"git push --set-upstream origin topic"},
		},
		"somebody deploys": {func(h *home) {
			l, err := ledger.Open(h.env.Repo)
			must(h.T, err)
			_, err = l.Acquire(h.Context(), ledger.Lock{Purpose: "plural deploy"})
			must(h.T, err)
		}, "git/deployments", Warn, []string{"Ada <ada@example.com>", "plural deploy --unlock"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			tc.make(h)
			is(t, h.found(), tc.check, tc.state, tc.words...)
		})
	}
}

func TestAPasswordInTheRemotesAddressIsNotTold(t *testing.T) {
	h := newHome(t)
	h.git("remote", "set-url", "origin", "http://ada:hunter2-hunter2@127.0.0.1:1/fleet.git")
	for check, r := range h.found() {
		if strings.Contains(fmt.Sprint(r), "hunter2") {
			t.Errorf("%s tells it: %+v", check, r)
		}
	}
}

func TestMistakesInTheFilesAreTold(t *testing.T) {
	h := newHome(t)
	h.write("clusters/a.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {tagz: {}}\n")
	is(t, h.found(), "repo/files", Fail, "1 error", "clusters/a.yaml:4", "plural validate")
}

func TestAnIdentityThatCannotBeUsedIsTold(t *testing.T) {
	h := newHome(t)
	h.env.Identities = func() ([]age.Identity, error) { return nil, errors.New("identity is open to others") }
	is(t, h.found(), "keys/identity", Fail, "open to others")
}

// install writes a package into the repo, as it would be installed.
func (h *home) install(name, body string) {
	h.Helper()
	payload := "packages/" + name + "/payload/"
	h.write(payload+"package.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: "+name+"}\nspec:\n  version: 1.0.0\n"+body)
	h.write(payload+"terraform/main.tf", "")
	h.write("packages/"+name+"/package.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: "+name+"}\n")
	digest, err := packages.Digest(os.DirFS(filepath.Join(h.dir, payload)))
	must(h.T, err)
	lock, err := lockfile.Load(os.DirFS(h.dir))
	must(h.T, err)
	lock.Set(lockfile.Entry{Name: name, Package: name, Catalog: "builtin", Version: "1.0.0", Digest: digest})
	text, err := lock.Encode()
	must(h.T, err)
	h.write(lockfile.File, string(text))
}

func TestPackagesAreComparedWithTheLock(t *testing.T) {
	h := newHome(t)
	h.install("db", "  description: a database\n")
	is(t, h.found(), "repo/packages", OK, "as plural.lock pins them")
	h.write("packages/db/payload/notes.txt", "ours")
	is(t, h.found(), "repo/packages", OK, "changes made here to db")
	h.write("packages/db/payload/package.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: db}\nspec: {version: 1.1.0}\n")
	is(t, h.found(), "repo/packages", Fail, "the payload is version 1.1.0, and 1.0.0 is pinned")
	must(t, os.RemoveAll(filepath.Join(h.dir, "packages/db")))
	is(t, h.found(), "repo/packages", Warn, "plural package remove db")
	h.install("db", "")
	h.write(lockfile.File, "nonsense")
	is(t, h.found(), "repo/packages", Fail, "plural.lock")
}

func TestTheToolsOfInstalledPackagesAreLookedFor(t *testing.T) {
	h := newHome(t)
	step := "  steps:\n    - name: net\n      terraform: {path: terraform, product: any, version: %q}\n"
	h.install("net", fmt.Sprintf(step, ">=99"))
	t.Setenv("PLURAL_TERRAFORM", needs.Terraform(t))
	is(t, h.found(), "repo/terraform", Fail, ">=99", "net", "PLURAL_TERRAFORM")
	h.install("net", fmt.Sprintf(step, ">=1"))
	is(t, h.found(), "repo/terraform", OK, " 1.")
	t.Setenv("PLURAL_TERRAFORM", filepath.Join(t.TempDir(), "none"))
	is(t, h.found(), "repo/terraform", Fail, "PLURAL_TERRAFORM")
}

func TestCatalogsAreReached(t *testing.T) {
	h := newHome(t)
	h.write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec:\n  catalogs: [{name: team, source: team}]\n")
	h.write("sources/team.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: team}\nspec: {oci: {url: \"oci://127.0.0.1:1/packages\"}}\n")
	is(t, h.found(), "repo/catalogs", Fail, "team", "connection refused")
}

func TestAClusterIsExaminedForWhatAnInstallNeeds(t *testing.T) {
	cluster := kubetest.Start(t)
	nobody := rest.CopyConfig(cluster.RESTConfig)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	away := &rest.Config{Host: "https://127.0.0.1:1"}
	env := Env{
		Identities: func() ([]age.Identity, error) { return nil, nil },
		Clusters:   map[string]*rest.Config{"admin": cluster.RESTConfig, "nobody": nobody, "away": away},
	}
	results := found(t, env, false)
	is(t, results, "cluster admin/reachable", OK)
	is(t, results, "cluster admin/version", OK, "Kubernetes v1.")
	is(t, results, "cluster admin/clock", OK)
	is(t, results, "cluster admin/permissions", OK, "everything")
	is(t, results, "cluster admin/agent's keys", Skipped)
	is(t, results, "cluster nobody/permissions", Fail, "create clusterroles.rbac.authorization.k8s.io",
		"create secrets in plural-system", "cluster-admin")
	is(t, results, "cluster nobody/storage", Skipped)
	is(t, results, "cluster away/reachable", Fail, "connection refused", "kubectl cluster-info")
	is(t, results, "cluster away/permissions", Skipped, "cannot be reached")
	if r := results["cluster admin/pod security"]; r.State != Skipped && r.State != OK {
		t.Errorf("pod security: %+v", r)
	}
}

func TestACheckThatTakesTooLongIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := Check{Group: "g", Name: "slow", Run: func(ctx context.Context) Result {
			<-ctx.Done()
			return because(ctx.Err(), "it cannot be asked", "wait")
		}}
		quick := Check{Group: "g", Name: "quick", Run: func(context.Context) Result { return ok("here") }}
		findings := Examine(t.Context(), []Check{slow, quick}, Options{Parallel: 1, Deadline: 3 * time.Second})
		if f := findings[0]; f.State != Fail || f.Cause != "no answer within 3s" || f.Seconds != 3 {
			t.Errorf("%+v", f)
		}
		if findings[1].State != OK {
			t.Errorf("%+v", findings[1])
		}
	})
}

func TestWhatChecksShareIsAskedOnce(t *testing.T) {
	asked := 0
	get := once(func(context.Context) (int, error) { asked++; return asked, nil })
	checks := make([]Check, 10)
	for i := range checks {
		checks[i] = Check{Name: fmt.Sprint(i), Run: func(ctx context.Context) Result { n, _ := get(ctx); return ok("%d", n) }}
	}
	for _, f := range Examine(t.Context(), checks, Options{}) {
		if f.Text != "1" {
			t.Errorf("it was asked %s times", f.Text)
		}
	}
}

func TestAFewOfManyAreNamed(t *testing.T) {
	if got := some([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}
