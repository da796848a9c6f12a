package workspace_test

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

// upstream is a bare repository with one commit, changed by the git program.
type upstream struct {
	*testing.T
	bare, work string
}

func newUpstream(t *testing.T, files map[string]string) *upstream {
	t.Helper()
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	u := &upstream{t, filepath.Join(dir, "origin.git"), filepath.Join(dir, "work")}
	u.git(dir, "init", "-q", "--bare", "-b", "main", u.bare)
	u.git(dir, "clone", "-q", u.bare, u.work)
	u.git(u.work, "checkout", "-q", "-b", "main")
	u.push("first", files)
	return u
}

func (u *upstream) git(dir string, args ...string) string {
	u.Helper()
	cmd := exec.CommandContext(u.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(u.work), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (u *upstream) push(message string, files map[string]string) {
	u.Helper()
	for name, text := range files {
		path := filepath.Join(u.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			u.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			u.Fatal(err)
		}
	}
	u.git(u.work, "add", "-A")
	u.git(u.work, "commit", "-q", "-m", message)
	u.git(u.work, "push", "-q", "origin", "HEAD:main")
}

func (u *upstream) remote() *workspace.Remote {
	return &workspace.Remote{URL: "file://" + u.bare, Branch: "main", Dir: u.TempDir()}
}

func TestCommitOnARemoteLeavesAllElseAsItIs(t *testing.T) {
	u := newUpstream(t, map[string]string{"services/web.yaml": "a: 1\n", "apps/web/deploy.yaml": "b\n", "run.sh": "#!/bin/sh\n"})
	u.git(u.work, "update-index", "--chmod=+x", "run.sh")
	u.git(u.work, "commit", "-q", "-m", "second")
	u.git(u.work, "push", "-q", "origin", "HEAD:main")
	r := u.remote()
	id, err := r.Commit(t.Context(), workspace.Author{Name: "alice", Email: "alice@example.com"}, "Suspend web", func(tip fs.FS) (map[string][]byte, error) {
		text, err := fs.ReadFile(tip, "services/web.yaml")
		return map[string][]byte{"services/web.yaml": append(text, "c: 2\n"...)}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.git(u.bare, "log", "--format=%H %an %cn %s", "main"); !strings.HasPrefix(got, id+" alice plural Suspend web\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("log:\n%s", got)
	}
	if got := u.git(u.bare, "diff", "--stat", "main~1", "main"); !strings.Contains(got, "services/web.yaml | 1 +") || !strings.Contains(got, "1 file changed") {
		t.Errorf("diff:\n%s", got)
	}
	if u.git(u.bare, "fsck", "--strict"); u.git(u.bare, "show", "main:services/web.yaml") != "a: 1\nc: 2" {
		t.Error("the file is not what was planned")
	}
	if left, err := os.ReadDir(r.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCommitOnARemoteIsPlannedAgainWhenOthersAreFaster(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "0"})
	tries := 0
	_, err := u.remote().Commit(t.Context(), workspace.Author{Name: "a", Email: "a@b"}, "mine", func(tip fs.FS) (map[string][]byte, error) {
		tries++
		text, err := fs.ReadFile(tip, "a.yaml")
		if tries == 1 {
			u.push("theirs", map[string]string{"a.yaml": "1", "b.yaml": "theirs"})
		}
		return map[string][]byte{"a.yaml": append(text, '!')}, err
	})
	if err != nil || tries != 2 {
		t.Fatalf("%v after %d tries", err, tries)
	}
	if got := u.git(u.bare, "show", "main:a.yaml") + u.git(u.bare, "show", "main:b.yaml"); got != "1!theirs" {
		t.Errorf("got %q", got)
	}
}

func TestCommitOnARemoteThatChangesNothingIsTheTip(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "0"})
	id, err := u.remote().Commit(t.Context(), workspace.Author{}, "none", func(fs.FS) (map[string][]byte, error) {
		return map[string][]byte{"a.yaml": []byte("0")}, nil
	})
	if err != nil || id != u.git(u.bare, "rev-parse", "main") {
		t.Errorf("%s, %v", id, err)
	}
}

func TestCommitOnARemoteRefusesWhatMustBeSealedAndPassesPlansErrorsOn(t *testing.T) {
	policy := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: 4b825dc642cb6eb9a060e54bf8d69288\n" +
		"  groups: [{name: ops}]\n  paths: [{pattern: \"secrets/**\", groups: [ops]}]\n"
	u := newUpstream(t, map[string]string{".plural/seal.yaml": policy})
	before := u.git(u.bare, "rev-parse", "main")
	_, err := u.remote().Commit(t.Context(), workspace.Author{}, "leak", func(fs.FS) (map[string][]byte, error) {
		return map[string][]byte{"secrets/db.yaml": []byte("password: s3cret\n")}, nil
	})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
	planned := errors.New("no service web")
	if _, err := u.remote().Commit(t.Context(), workspace.Author{}, "no", func(fs.FS) (map[string][]byte, error) { return nil, planned }); !errors.Is(err, planned) {
		t.Errorf("got %v", err)
	}
	if got := u.git(u.bare, "rev-parse", "main"); got != before {
		t.Errorf("the branch moved to %s", got)
	}
}

func TestCommitThatARemoteDoesNotTakeIsAnError(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "0"})
	if err := os.WriteFile(filepath.Join(u.bare, "hooks", "pre-receive"), []byte("#!/bin/sh\necho protected >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := u.git(u.bare, "rev-parse", "main")
	_, err := u.remote().Commit(t.Context(), workspace.Author{}, "no", func(fs.FS) (map[string][]byte, error) {
		return map[string][]byte{"a.yaml": []byte("1")}, nil
	})
	if err == nil || !strings.Contains(err.Error(), `push to branch "main"`) || u.git(u.bare, "rev-parse", "main") != before {
		t.Errorf("got %v", err)
	}
}

// TestATokenInTheAddressOfARemoteIsNotShown: that is where some keep it.
func TestATokenInTheAddressOfARemoteIsNotShown(t *testing.T) {
	for _, user := range []string{"hunter2", "reader:hunter2"} {
		r := &workspace.Remote{URL: "http://" + user + "@127.0.0.1:1/fleet.git", Branch: "main", Dir: t.TempDir()}
		_, err := r.Commit(t.Context(), workspace.Author{}, "none", func(fs.FS) (map[string][]byte, error) { return nil, nil })
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestAProposalSeesTheHistoryAndMayGoToABranchOfItsOwn(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "1", "b.yaml": "b"})
	u.push("second\n\nWhy: because", map[string]string{"a.yaml": "2"})
	u.push("third", map[string]string{"a.yaml": "3"})
	r, before := u.remote(), u.git(u.bare, "rev-parse", "main")
	proposal := workspace.Proposal{By: workspace.Author{Name: "hub", Email: "hub@plural"}, Depth: 2, To: "plural/upgrade/a"}
	plan := func(tip *workspace.Tip) (*workspace.Plan, error) {
		past, err := tip.Past()
		if err != nil || len(past) != 2 || past[0].ID != before || past[1].Message != "second\n\nWhy: because\n" || past[0].Parent != past[1].ID {
			t.Fatalf("%+v, %v", past, err)
		}
		old, err := tip.At(past[1].ID)
		if err != nil {
			return nil, err
		}
		text, err := fs.ReadFile(old, "a.yaml")
		return &workspace.Plan{Files: map[string][]byte{"a.yaml": text, "b.yaml": nil, "no/such.yaml": nil}, Message: "Back to " + string(text)}, err
	}
	id, err := r.Propose(t.Context(), proposal, plan)
	if err != nil {
		t.Fatal(err)
	}
	if got := u.git(u.bare, "log", "-1", "--format=%H %s", "plural/upgrade/a"); got != id+" Back to 2" || u.git(u.bare, "rev-parse", "main") != before {
		t.Errorf("log: %s", got)
	}
	if got := u.git(u.bare, "ls-tree", "-r", "--name-only", id); got != "a.yaml" || u.git(u.bare, "show", id+":a.yaml") != "2" {
		t.Errorf("it holds %s", got)
	}
	if names, err := r.Branches(t.Context(), "plural/"); err != nil || len(names) != 1 || names["plural/upgrade/a"] != id {
		t.Errorf("branches: %q, %v", names, err)
	}
	u.push("fourth", map[string]string{"a.yaml": "4"})
	before = u.git(u.bare, "rev-parse", "main")
	pushed := new(workspace.PushError)
	if _, err := r.Propose(t.Context(), proposal, func(*workspace.Tip) (*workspace.Plan, error) {
		return &workspace.Plan{Files: map[string][]byte{"a.yaml": []byte("5")}, Message: "again"}, nil
	}); !errors.As(err, &pushed) || pushed.Branch != "plural/upgrade/a" {
		t.Errorf("a branch that was there: %v", err)
	}
	if err := r.Look(t.Context(), 10, func(tip *workspace.Tip) error {
		past, err := tip.Past()
		if len(past) != 4 || past[3].Parent != "" {
			t.Errorf("%+v", past)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsSealedAlreadyIsCommittedAsItIs(t *testing.T) {
	policy := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: 4b825dc642cb6eb9a060e54bf8d69288\n" +
		"  groups: [{name: ops}]\n  paths: [{pattern: \"secrets/**\", groups: [ops]}]\n"
	u := newUpstream(t, map[string]string{".plural/seal.yaml": policy, "secrets/old.yaml": "age-encryption.org/v1\nold"})
	_, err := u.remote().Commit(t.Context(), workspace.Author{Name: "a", Email: "a@b"}, "back", func(fs.FS) (map[string][]byte, error) {
		return map[string][]byte{"secrets/db.yaml": []byte("age-encryption.org/v1\nnew"), "secrets/old.yaml": nil}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.git(u.bare, "ls-tree", "-r", "--name-only", "main", "secrets"); got != "secrets/db.yaml" {
		t.Errorf("got %s", got)
	}
}

func TestAProposalNeverMovesABranchThatIsThere(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "1"})
	before := u.git(u.bare, "rev-parse", "main")
	u.git(u.bare, "branch", "plural/upgrade/a", "main") // what is proposed comes out of it, so a push would go through
	_, err := u.remote().Propose(t.Context(), workspace.Proposal{To: "plural/upgrade/a"}, func(*workspace.Tip) (*workspace.Plan, error) {
		return &workspace.Plan{Files: map[string][]byte{"a.yaml": []byte("2")}, Message: "two"}, nil
	})
	if pushed := (*workspace.PushError)(nil); !errors.As(err, &pushed) || !errors.Is(err, workspace.ErrBranchExists) ||
		!strings.Contains(err.Error(), "is there already, at "+before[:12]) {
		t.Errorf("error is %v", err)
	}
	if got := u.git(u.bare, "rev-parse", "plural/upgrade/a"); got != before {
		t.Errorf("somebody's branch is at %s", got)
	}
}

func TestAProposalNeverMovesABranchThatAppearsBeforeItIsPushed(t *testing.T) {
	u := newUpstream(t, map[string]string{"a.yaml": "1"})
	before := u.git(u.bare, "rev-parse", "main")
	u.git(u.bare, "config", "http.receivePack", "true")
	backend := &cgi.Handler{
		Path: needs.Program(t, "git", "git"), Args: []string{"http-backend"}, Dir: u.bare, InheritEnv: []string{"PATH"}, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(u.bare), "GIT_HTTP_EXPORT_ALL=1"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("service") == "git-receive-pack" { // a push begins
			u.git(u.bare, "branch", "-f", "plural/upgrade/a", before)
		}
		backend.ServeHTTP(w, r)
	}))
	defer server.Close()
	remote := &workspace.Remote{URL: server.URL + "/origin.git", Branch: "main", Dir: t.TempDir()}
	_, err := remote.Propose(t.Context(), workspace.Proposal{To: "plural/upgrade/a"}, func(*workspace.Tip) (*workspace.Plan, error) {
		return &workspace.Plan{Files: map[string][]byte{"a.yaml": []byte("2")}, Message: "two"}, nil
	})
	if !errors.Is(err, workspace.ErrBranchExists) {
		t.Errorf("error is %v", err)
	}
	if got := u.git(u.bare, "rev-parse", "plural/upgrade/a"); got != before {
		t.Errorf("somebody's branch is at %s", got)
	}
}
