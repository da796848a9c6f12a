package workspace

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/block"
	"github.com/pluralsh/plural/workspace/fleet"
)

func TestInitMakesARepoThatLoads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	got := initAt(t, Options{Dir: dir, Name: "demo", HubURL: "http://127.0.0.1:8080", RepoURL: "file:///srv/fleet.git"})
	want := []string{".gitattributes", ".gitignore", "README.md", "clusters/README.md", "plural.yaml", "services/README.md", "sources/README.md"}
	if diff := cmp.Diff(want, got.Created); diff != "" {
		t.Error(diff)
	}
	if gitIn(t, dir, "status", "--porcelain") != "" {
		t.Errorf("not clean: %s", gitIn(t, dir, "status"))
	}
	if head := gitIn(t, dir, "rev-parse", "refs/heads/main"); head != got.Commit {
		t.Errorf("main is %s, want %s", head, got.Commit)
	}
	if url := gitIn(t, dir, "remote", "get-url", "origin"); url != "file:///srv/fleet.git" {
		t.Errorf("origin is %s", url)
	}
	gitIn(t, dir, "fsck", "--strict")
	f, err := fleet.Load(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	if f.Workspace.Metadata.Name != "demo" || f.Workspace.Spec.Repo.Branch != "main" {
		t.Errorf("got %+v", f.Workspace)
	}
}

func TestInitASecondTimeChangesNothing(t *testing.T) {
	dir := t.TempDir()
	first := initAt(t, Options{Dir: dir, Name: "demo"})
	second := initAt(t, Options{Dir: dir, Name: "other"})
	if len(second.Created)+len(second.Updated) > 0 || second.Commit != "" {
		t.Errorf("second run: %+v", second)
	}
	if diff := cmp.Diff(first.Created, second.Unchanged); diff != "" {
		t.Error(diff)
	}
}

func TestInitKeepsWhatIsChangedStagedAndUntracked(t *testing.T) {
	dir := newGitDir(t)
	write(t, dir, ".gitignore", "node_modules\n")
	write(t, dir, "app.txt", "one\n")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "first")
	write(t, dir, ".gitignore", "node_modules\ndist\n")
	write(t, dir, "app.txt", "two\n")
	gitIn(t, dir, "add", "app.txt")
	write(t, dir, "app.txt", "three\n")
	write(t, dir, "README.md", "mine\n")

	got := initAt(t, Options{Dir: dir, Name: "demo"})
	if diff := cmp.Diff([]string{".gitignore"}, got.Updated); diff != "" {
		t.Error(diff)
	}
	committed := strings.Fields(gitIn(t, dir, "show", "--format=", "--name-only", "HEAD"))
	want := []string{
		".gitattributes", ".gitignore",
		".plural/scaffold/clusters/README.md", ".plural/scaffold/plural.yaml", ".plural/scaffold/services/README.md", ".plural/scaffold/sources/README.md",
		".plural/schema/access.json", ".plural/schema/cluster.json", ".plural/schema/installation.json", ".plural/schema/notify.json",
		".plural/schema/package.json", ".plural/schema/seal.json", ".plural/schema/service.json", ".plural/schema/source.json",
		".plural/schema/views.json", ".plural/schema/workspace.json",
		"clusters/README.md", "plural.yaml", "services/README.md", "sources/README.md",
	}
	if diff := cmp.Diff(want, committed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(" M .gitignore\nMM app.txt\n?? README.md", strings.Trim(run(t, dir, "status", "--porcelain"), "\n")); diff != "" {
		t.Error(diff)
	}
	if show := gitIn(t, dir, "show", "HEAD:.gitignore"); strings.Contains(show, "dist") || !strings.HasPrefix(show, "node_modules\n\n# >>> plural") {
		t.Errorf("committed .gitignore:\n%s", show)
	}
	if disk := read(t, dir, ".gitignore"); !strings.HasPrefix(disk, "node_modules\ndist\n\n# >>> plural") {
		t.Errorf(".gitignore on disk:\n%s", disk)
	}
	if read(t, dir, "app.txt") != "three\n" || read(t, dir, "README.md") != "mine\n" {
		t.Error("a file of the user's changed")
	}
	gitIn(t, dir, "fsck", "--strict")
}

func TestInitCommitsWhatARunWithoutCommitLeft(t *testing.T) {
	dir := t.TempDir()
	if got := initAt(t, Options{Dir: dir, Name: "demo", NoCommit: true}); got.Commit != "" {
		t.Fatalf("committed %s", got.Commit)
	}
	if got := initAt(t, Options{Dir: dir, Name: "demo"}); got.Commit == "" {
		t.Error("nothing was committed")
	}
	if gitIn(t, dir, "status", "--porcelain") != "" {
		t.Error("not clean")
	}
}

func TestInitTakesTheBranchThatIsCheckedOut(t *testing.T) {
	dir := newGitDir(t)
	gitIn(t, dir, "checkout", "-qb", "fleet/live")
	initAt(t, Options{Dir: dir, Name: "demo"})
	if text := read(t, dir, Manifest); !strings.Contains(text, `branch: "fleet/live"`) {
		t.Errorf("got:\n%s", text)
	}
}

func TestInitThroughASymbolicLink(t *testing.T) {
	base := t.TempDir()
	real := filepath.Join(base, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	got := initAt(t, Options{Dir: link, Name: "demo"})
	want, err := filepath.EvalSymlinks(real)
	if err != nil {
		t.Fatal(err)
	}
	if got.Repo.Root() != want {
		t.Errorf("root is %s, want %s", got.Repo.Root(), want)
	}
}

func TestInitMakesAnEmptyFolderInsideARepositoryARepositoryOfItsOwn(t *testing.T) {
	outer := newGitDir(t)
	got := initAt(t, Options{Dir: filepath.Join(outer, "fleet"), Name: "demo"})
	if top := gitIn(t, got.Repo.Root(), "rev-parse", "--show-toplevel"); strings.TrimSpace(top) != got.Repo.Root() {
		t.Errorf("the repository is %s, want %s", top, got.Repo.Root())
	}
	if again := initAt(t, Options{Dir: filepath.Join(outer, "fleet"), Name: "demo"}); again.Commit != "" {
		t.Error("a second run made a commit")
	}
}

func TestInitRefuses(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, dir string) Options
		want    string
	}{
		{"a bad name", func(t *testing.T, dir string) Options { return Options{Dir: dir, Name: "My Fleet"} }, "lower-case"},
		{"a hub URL without scheme", func(t *testing.T, dir string) Options { return Options{Dir: dir, Name: "a", HubURL: "hub:80"} }, "https://HOST"},
		{"a token in the repo URL", func(t *testing.T, dir string) Options {
			return Options{Dir: dir, Name: "a", RepoURL: "https://s3cret@example.com/x.git"}
		}, "credential"},
		{"a bad branch", func(t *testing.T, dir string) Options { return Options{Dir: dir, Name: "a", Branch: "a..b"} }, "branch"},
		{"a file in the folder's place", func(t *testing.T, dir string) Options {
			write(t, dir, "file", "x")
			return Options{Dir: filepath.Join(dir, "file"), Name: "a"}
		}, "file"},
		{"a folder of files inside a repository", func(t *testing.T, dir string) Options {
			gitIn(t, dir, "init", "-q")
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, dir, "sub/file", "x")
			return Options{Dir: filepath.Join(dir, "sub"), Name: "a"}
		}, "lies inside the git repository"},
		{"a bare repository", func(t *testing.T, dir string) Options {
			gitIn(t, dir, "init", "-q", "--bare")
			return Options{Dir: dir, Name: "a"}
		}, "bare"},
		{"a detached HEAD", func(t *testing.T, dir string) Options {
			gitIn(t, dir, "init", "-q")
			gitIn(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
			gitIn(t, dir, "checkout", "-q", "--detach")
			return Options{Dir: dir, Name: "a"}
		}, "git switch"},
		{"a managed file that is a link", func(t *testing.T, dir string) Options {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, ".gitignore")); err != nil {
				t.Fatal(err)
			}
			return Options{Dir: dir, Name: "a"}
		}, "symbolic link"},
		{"a file where a folder must be", func(t *testing.T, dir string) Options {
			write(t, dir, "clusters", "x")
			return Options{Dir: dir, Name: "a"}
		}, "in the way"},
		{"a block without end", func(t *testing.T, dir string) Options {
			write(t, dir, ".gitignore", "a\n"+block.Start+"\nb\n")
			return Options{Dir: dir, Name: "a"}
		}, "line 2"},
		{"an index in use", func(t *testing.T, dir string) Options {
			gitIn(t, dir, "init", "-q")
			write(t, dir, ".git/index.lock", "")
			return Options{Dir: dir, Name: "a"}
		}, "holds the index"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			isolate(t)
			opts := tt.prepare(t, t.TempDir())
			_, err := Init(t.Context(), opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("want an error with %q, got %v", tt.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestInitOnAReadOnlyFolderSaysWhere(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		dir = "/sys/kernel/fleet" // root may write where it is not allowed to, but not there
	}
	if _, err := Init(t.Context(), Options{Dir: dir, Name: "demo"}); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

func TestFindWalksUp(t *testing.T) {
	dir := t.TempDir()
	want := initAt(t, Options{Dir: dir, Name: "demo"}).Repo.Root()
	got, err := Find(filepath.Join(dir, "services"))
	if err != nil || got.Root() != want {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Find(t.TempDir()); !errors.Is(err, ErrNotFound) {
		t.Errorf("want ErrNotFound, got %v", err)
	}
}

func TestCommitTakesItsAuthorFromGitsConfiguration(t *testing.T) {
	dir := t.TempDir()
	r := initAt(t, Options{Dir: dir, Name: "demo"}).Repo
	if who := gitIn(t, dir, "log", "-1", "--format=%an <%ae>"); who != "plural <plural@localhost>" {
		t.Errorf("without configuration: %s", who)
	}
	gitIn(t, dir, "config", "user.name", "Ada")
	gitIn(t, dir, "config", "user.email", "ada@example.com")
	commit(t, r, map[string]string{"services/a.yaml": "a\n"})
	if who := gitIn(t, dir, "log", "-1", "--format=%an <%ae>"); who != "Ada <ada@example.com>" {
		t.Errorf("with configuration: %s", who)
	}
}

func TestCommitRefusesToOverwriteAndWritesNothing(t *testing.T) {
	dir := t.TempDir()
	r := initAt(t, Options{Dir: dir, Name: "demo"}).Repo
	commit(t, r, map[string]string{"services/a.yaml": "one\n"})
	write(t, dir, "services/a.yaml", "edited by hand\n")
	_, err := r.Commit(t.Context(), "x", map[string][]byte{"services/a.yaml": []byte("two\n"), "services/b.yaml": []byte("b\n")})
	if err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "services/b.yaml")); err == nil {
		t.Error("services/b.yaml was written")
	}
}

func TestCommitRefusesPathsOutside(t *testing.T) {
	r := initAt(t, Options{Dir: t.TempDir(), Name: "demo"}).Repo
	for _, path := range []string{"../x", "/etc/x", ".git/hooks/post-commit", ".", ""} {
		if _, err := r.Commit(t.Context(), "x", map[string][]byte{path: []byte("x")}); err == nil {
			t.Errorf("%q was taken", path)
		}
	}
}

func TestCommitOfWhatIsThereIsNoCommit(t *testing.T) {
	r := initAt(t, Options{Dir: t.TempDir(), Name: "demo"}).Repo
	commit(t, r, map[string]string{"services/a.yaml": "a\n"})
	id, err := r.Commit(t.Context(), "x", map[string][]byte{"services/a.yaml": []byte("a\n")})
	if id != "" || err != nil {
		t.Errorf("got %q, %v", id, err)
	}
}

func TestABranchContainsCommitsByTheirWholeIDsOnly(t *testing.T) {
	here, there := clones(t)
	commit(t, there, map[string]string{"services/theirs.yaml": "theirs\n"})
	head, theirs := gitIn(t, here.Root(), "rev-parse", "HEAD"), gitIn(t, there.Root(), "rev-parse", "HEAD")
	gitIn(t, here.Root(), "fetch", "-q", there.Root(), "HEAD:refs/tags/"+head+"-x")
	for commit, want := range map[string]bool{
		head: true, head + "-x": false, head + "00": false, head[:39]: false, strings.ToUpper(head): false, theirs: false, "": false,
	} {
		if got, err := here.Contains(commit); err != nil || got != want {
			t.Errorf("%q: %v, %v", commit, got, err)
		}
	}
}

func TestPushCatchesUpWithOthers(t *testing.T) {
	here, there := clones(t)
	commit(t, there, map[string]string{"services/theirs.yaml": "theirs\n", "services/README.md": "new\n"})
	push(t, there)
	commit(t, here, map[string]string{"services/mine.yaml": "mine\n"})
	write(t, here.Root(), "notes.txt", "untracked\n")
	push(t, here)

	if got := gitIn(t, here.Root(), "status", "--porcelain"); got != "?? notes.txt" {
		t.Errorf("status: %s", got)
	}
	if read(t, here.Root(), "services/theirs.yaml") != "theirs\n" || read(t, here.Root(), "services/README.md") != "new\n" {
		t.Error("their files did not arrive")
	}
	if n := gitIn(t, here.Root(), "rev-list", "--count", "origin/main"); n != "3" {
		t.Errorf("%s commits upstream, want 3", n)
	}
	gitIn(t, here.Root(), "fsck", "--strict")
}

func TestPushRefusesWhatItCannotSettle(t *testing.T) {
	tests := []struct {
		name  string
		local func(t *testing.T, here *Repo)
		want  string
	}{
		{"the same file", func(t *testing.T, here *Repo) {
			commit(t, here, map[string]string{"services/a.yaml": "mine\n"})
		}, `services/a.yaml`},
		{"two local commits", func(t *testing.T, here *Repo) {
			commit(t, here, map[string]string{"services/b.yaml": "b\n"})
			commit(t, here, map[string]string{"services/c.yaml": "c\n"})
		}, "more than one"},
		{"a local change to their file", func(t *testing.T, here *Repo) {
			commit(t, here, map[string]string{"services/b.yaml": "b\n"})
			write(t, here.Root(), "services/a.yaml", "by hand\n")
		}, "not committed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			here, there := clones(t)
			commit(t, there, map[string]string{"services/a.yaml": "theirs\n"})
			push(t, there)
			tt.local(t, here)
			before := gitIn(t, here.Root(), "rev-parse", "HEAD") + run(t, here.Root(), "status", "--porcelain")
			_, err := here.Push(t.Context())
			if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v", err)
			}
			if after := gitIn(t, here.Root(), "rev-parse", "HEAD") + run(t, here.Root(), "status", "--porcelain"); after != before {
				t.Errorf("something changed:\n%s\n%s", before, after)
			}
		})
	}
}

func TestPushFromManyAtOnceLosesNothing(t *testing.T) {
	origin, first := origin(t)
	repos := []*Repo{first}
	for range 3 {
		repos = append(repos, clone(t, origin))
	}
	var wg sync.WaitGroup
	for i, r := range repos {
		wg.Go(func() {
			name := "services/" + string(rune('a'+i)) + ".yaml"
			if _, err := r.Commit(context.Background(), "add "+name, map[string][]byte{name: []byte("x\n")}); err != nil {
				t.Error(err)
			}
			if _, err := r.Push(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := strings.Fields(gitIn(t, origin, "ls-tree", "--name-only", "main", "services/")); len(got) != 5 {
		t.Errorf("upstream has %v", got)
	}
}

func TestPushWithoutRemoteNamesTheCommand(t *testing.T) {
	r := initAt(t, Options{Dir: t.TempDir(), Name: "demo"}).Repo
	if _, err := r.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "git remote add origin") {
		t.Errorf("got %v", err)
	}
}

// isolate keeps the machine's git configuration out.
func isolate(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "tester")
		t.Setenv("GIT_"+who+"_EMAIL", "tester@localhost")
	}
}

func initAt(t *testing.T, opts Options) *Result {
	t.Helper()
	isolate(t)
	result, err := Init(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func newGitDir(t *testing.T) string {
	t.Helper()
	isolate(t)
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q", "-b", "main")
	return dir
}

// origin is a bare repository, and a repo that has pushed its scaffold there.
func origin(t *testing.T) (string, *Repo) {
	t.Helper()
	isolate(t)
	bare := t.TempDir()
	gitIn(t, bare, "init", "-q", "--bare", "-b", "main")
	r := initAt(t, Options{Dir: t.TempDir(), Name: "demo", RepoURL: "file://" + bare}).Repo
	push(t, r)
	return bare, r
}

func clone(t *testing.T, origin string) *Repo {
	t.Helper()
	dir := t.TempDir()
	gitIn(t, dir, "clone", "-q", "file://"+origin, ".")
	r, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func clones(t *testing.T) (here, there *Repo) {
	t.Helper()
	origin, here := origin(t)
	return here, clone(t, origin)
}

func commit(t *testing.T, r *Repo, files map[string]string) {
	t.Helper()
	content := map[string][]byte{}
	for path, text := range files {
		content[path] = []byte(text)
	}
	if id, err := r.Commit(t.Context(), "change", content); err != nil || id == "" {
		t.Fatalf("commit: %q, %v", id, err)
	}
}

func push(t *testing.T, r *Repo) {
	t.Helper()
	id, err := r.Push(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if head := gitIn(t, r.Root(), "rev-parse", "HEAD"); head != id {
		t.Errorf("pushed %s, HEAD is %s", id, head)
	}
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return strings.TrimSpace(run(t, dir, args...))
}

func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWriteChangesTheWorkTreeAlone(t *testing.T) {
	dir := t.TempDir()
	initAt(t, Options{Dir: dir, Name: "demo"})
	r, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	head := gitIn(t, dir, "rev-parse", "HEAD")
	if err := r.Write(map[string][]byte{"packages/web/values.yaml": []byte("a: 1\n"), "README.md": nil}); err != nil {
		t.Fatal(err)
	}
	if read(t, dir, "packages/web/values.yaml") != "a: 1\n" || gitIn(t, dir, "rev-parse", "HEAD") != head {
		t.Error("not written, or committed")
	}
	if got := gitIn(t, dir, "status", "--porcelain"); got != "D README.md\n?? packages/" {
		t.Errorf("status %q", got)
	}
	if err := r.Write(map[string][]byte{"../x": nil}); err == nil {
		t.Error("a path outside is written")
	}
}
