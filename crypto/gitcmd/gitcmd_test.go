package gitcmd_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/gitcmd"

	"github.com/pluralsh/plural/test/support/needs"
)

// clone is a git repository in a folder of its own.
type clone struct {
	*testing.T
	dir string
}

func newClone(t *testing.T) clone {
	t.Helper()
	needs.Program(t, "git", "git")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	c := clone{t, filepath.Join(dir, "repo")}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c.git("init", "-q", "-b", "main")
	return c
}

func (c clone) git(args ...string) string {
	c.Helper()
	args = append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"}, args...)
	cmd := exec.CommandContext(c.Context(), "git", args...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (c clone) write(name, text string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// commit stages everything and returns the commit's name.
func (c clone) commit(message string) string {
	c.Helper()
	c.git("add", "-A")
	c.git("commit", "-q", "--allow-empty", "-m", message)
	return c.git("rev-parse", "HEAD")
}

func (c clone) find() *gitcmd.Repo {
	c.Helper()
	r, err := gitcmd.Find(c.Context(), c.dir)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func TestFindKnowsEveryKindOfWorkTree(t *testing.T) {
	c := newClone(t)
	c.write("sub dir/file", "x")
	c.commit("first")
	above := filepath.Dir(c.dir)
	c.git("worktree", "add", "-q", filepath.Join(above, "linked"))
	c.git("clone", "-q", "--bare", c.dir, filepath.Join(above, "bare"))
	c.git("submodule", "--quiet", "add", c.dir, "module")
	git := filepath.Join(c.dir, ".git")

	for name, tc := range map[string]struct{ dir, top, gitDir, common string }{
		"root":        {c.dir, c.dir, git, git},
		"folder":      {filepath.Join(c.dir, "sub dir"), c.dir, git, git},
		"linked tree": {filepath.Join(above, "linked"), filepath.Join(above, "linked"), filepath.Join(git, "worktrees/linked"), git},
		"submodule":   {filepath.Join(c.dir, "module"), filepath.Join(c.dir, "module"), filepath.Join(git, "modules/module"), filepath.Join(git, "modules/module")},
		"bare":        {filepath.Join(above, "bare"), "", filepath.Join(above, "bare"), filepath.Join(above, "bare")},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.top == "" {
				if _, err := gitcmd.Find(t.Context(), tc.dir); !errors.Is(err, gitcmd.ErrNoRepository) || !strings.Contains(err.Error(), "GIT_DIR") {
					t.Errorf("a bare repository that nobody named: %v", err)
				}
				t.Setenv("GIT_DIR", tc.dir)
			}
			r, err := gitcmd.Find(t.Context(), tc.dir)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{r.Top, r.GitDir, r.CommonDir, r.IndexFile}
			if diff := cmp.Diff([]string{tc.top, tc.gitDir, tc.common, filepath.Join(tc.gitDir, "index")}, got); diff != "" {
				t.Error(diff)
			}
			if r.Bare != (tc.top == "") {
				t.Errorf("Bare is %v", r.Bare)
			}
		})
	}
	if _, err := gitcmd.Find(t.Context(), git); err == nil {
		t.Error("git's own folder was taken for a work tree")
	}
	if _, err := gitcmd.Find(t.Context(), above); !errors.Is(err, gitcmd.ErrNoRepository) {
		t.Errorf("outside of a repository: %v", err)
	}
}

func TestFindKeepsTheIndexOfAHook(t *testing.T) {
	c := newClone(t)
	c.write("a", "a")
	c.commit("first")
	c.write("b", "b")
	other := filepath.Join(c.dir, ".git", "other")
	cmd := exec.CommandContext(t.Context(), "git", "add", "b")
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "GIT_INDEX_FILE="+other)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Chdir(c.dir)
	t.Setenv("GIT_DIR", ".git")
	t.Setenv("GIT_INDEX_FILE", ".git/other")
	entries, err := c.find().Index(t.Context())
	if err != nil || len(entries) != 1 || entries[0].Path != "b" {
		t.Errorf("the hook's index holds %v, %v", entries, err)
	}
}

func TestListsTakePathsAsTheyAre(t *testing.T) {
	c := newClone(t)
	names := []string{" lead", "-dash", ":colon", "a\tb", "a\nb", "back\\slash", "f\u00fcr/\u00e4", "q\"uote", "star*"}
	for _, name := range names {
		c.write(name, name)
	}
	c.commit("first")
	r := c.find()
	tree, err := r.Tree(t.Context(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	index, err := r.Index(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree, index); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, e := range index {
		got = append(got, e.Path)
		if !e.IsFile() {
			t.Errorf("%q is no file", e.Path)
		}
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Error(diff)
	}
	blobs, err := r.Blobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer blobs.Close()
	for _, name := range names {
		content, _, ok, err := blobs.Get(":0:" + name)
		if strings.Contains(name, "\n") {
			if err == nil {
				t.Errorf("%q went to git as it is", name)
			}
			continue
		}
		if err != nil || !ok || string(content) != name {
			t.Errorf("%q is %q, %v, %v", name, content, ok, err)
		}
	}
}

func TestBlobsAnswersForEverythingThatCanBeAsked(t *testing.T) {
	c := newClone(t)
	c.write("dir/a", "one")
	c.write("empty", "")
	c.commit("first")
	c.write("dir/a", "two")
	c.git("add", "-A")
	large := filepath.Join(c.dir, "large")
	c.write("large", "")
	if err := os.Truncate(large, gitcmd.MaxBlob+1); err != nil {
		t.Fatal(err)
	}
	c.git("add", "large")

	blobs, err := c.find().Blobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"HEAD:dir/a": "one", ":0:dir/a": "two", "HEAD:empty": "", ":dir/none": "-", "HEAD:dir": "-", "no-branch:x": "-", strings.Repeat("0", 40): "-"} {
		content, oid, ok, err := blobs.Get(name)
		if err != nil || ok != (want != "-") || ok && (string(content) != want || len(oid) != 40) {
			t.Errorf("%s is %q %q %v %v", name, content, oid, ok, err)
		}
	}
	if _, _, ok, err := blobs.Get(":large"); !ok || !errors.Is(err, gitcmd.ErrTooLarge) {
		t.Errorf("a large blob: %v %v", ok, err)
	}
	if content, _, _, err := blobs.Get(":dir/a"); err != nil || string(content) != "two" {
		t.Errorf("after a large blob: %q %v", content, err)
	}
	if err := errors.Join(blobs.Close(), blobs.Close()); err != nil {
		t.Error(err)
	}
	if _, _, _, err := blobs.Get(":dir/a"); err == nil {
		t.Error("closed blobs answer")
	}
}

func TestMissingRevisionHasItsOwnError(t *testing.T) {
	c := newClone(t)
	for _, rev := range []string{"HEAD", "no-such-branch", "-x", strings.Repeat("1", 40)} {
		if _, err := c.find().Tree(t.Context(), rev); !errors.Is(err, gitcmd.ErrNoRevision) {
			t.Errorf("Tree(%q) = %v", rev, err)
		}
		if _, err := c.find().FS(t.Context(), rev); !errors.Is(err, gitcmd.ErrNoRevision) {
			t.Errorf("FS(%q) = %v", rev, err)
		}
	}
	if entries, err := c.find().Index(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("an empty index holds %v, %v", entries, err)
	}
}

func TestFSShowsOnlyTheFolderOfTheProgram(t *testing.T) {
	c := newClone(t)
	c.write("other", "x")
	c.write(".plural/seal.yaml", "old")
	c.write(".plural/groups/g/recipient.txt", "age1")
	if err := os.Symlink("/etc/passwd", filepath.Join(c.dir, ".plural/link")); err != nil {
		t.Fatal(err)
	}
	c.commit("first")
	c.write(".plural/seal.yaml", "new")
	c.git("add", "-A")
	for rev, want := range map[string]string{"HEAD": "old", "main": "old", "": "new"} {
		files, err := c.find().FS(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(files, ".plural/seal.yaml", ".plural/groups/g/recipient.txt"); err != nil {
			t.Error(err)
		}
		if content, err := fs.ReadFile(files, ".plural/seal.yaml"); err != nil || string(content) != want {
			t.Errorf("at %q: %q, %v", rev, content, err)
		}
		for _, hidden := range []string{"other", ".plural/link"} {
			if _, err := fs.Stat(files, hidden); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q is shown: %v", hidden, err)
			}
		}
	}
}

func TestChangedLeavesWhatAMergeTookOverToItsParents(t *testing.T) {
	c := newClone(t)
	c.write("base", "0")
	root := c.commit("root")
	c.git("checkout", "-q", "-b", "side")
	c.write("side file", "1")
	side := c.commit("side")
	c.git("checkout", "-q", "main")
	c.write("main file", "2")
	own := c.commit("main")
	c.git("merge", "-q", "--no-commit", "side")
	c.write("smuggled", "3")
	merge := c.commit("merge")
	c.git("rm", "-q", "base")
	removal := c.commit("removal")

	changes, err := c.find().Changed(t.Context(), []string{removal, merge, own, side, root})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, change := range changes {
		if !change.IsFile() || len(change.Oid) != 40 {
			t.Errorf("%+v is no file", change)
		}
		got = append(got, change.Commit+" "+change.Path)
	}
	want := []string{merge + " smuggled", own + " main file", side + " side file", root + " base"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewCommitsLeavesOutWhatIsKnown(t *testing.T) {
	c := newClone(t)
	first := c.commit("first")
	second := c.commit("second")
	c.git("update-ref", "refs/remotes/upstream/main", second)
	third := c.commit("third")
	unknown := strings.Repeat("2", 40)
	for name, tc := range map[string]struct {
		ask  gitcmd.Range
		want []string
	}{
		"everything":          {gitcmd.Range{Tips: []string{"HEAD"}}, []string{third, second, first}},
		"known":               {gitcmd.Range{Tips: []string{third}, Known: []string{second, unknown}}, []string{third}},
		"known to nobody":     {gitcmd.Range{Tips: []string{third}, Known: []string{unknown}}, []string{third, second, first}},
		"tracked":             {gitcmd.Range{Tips: []string{third}, Remote: "upstream"}, []string{third}},
		"tracked, not a glob": {gitcmd.Range{Tips: []string{third}, Remote: "up*"}, []string{third, second, first}},
		"nothing":             {gitcmd.Range{Known: []string{second}}, nil},
	} {
		got, err := c.find().NewCommits(t.Context(), tc.ask)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if _, err := c.find().NewCommits(t.Context(), gitcmd.Range{Tips: []string{unknown}}); err == nil {
		t.Error("a tip that does not exist is nothing new")
	}
}

func TestSettingsOfTheClone(t *testing.T) {
	c := newClone(t)
	r := c.find()
	const key = "filter.plural.process"
	if _, ok, err := r.Config(t.Context(), key); ok || err != nil {
		t.Fatalf("a key that nobody set: %v %v", ok, err)
	}
	for _, value := range []string{"a", "b \"c\"\nd"} {
		if err := r.SetConfig(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := r.Config(t.Context(), key); got != value || !ok || err != nil {
			t.Errorf("%q came back as %q, %v, %v", value, got, ok, err)
		}
	}
	if err := errors.Join(r.UnsetConfig(t.Context(), key), r.UnsetConfig(t.Context(), key)); err != nil {
		t.Error(err)
	}
	if err := r.SetConfig(t.Context(), "core.hooksPath", "my hooks"); err != nil {
		t.Fatal(err)
	}
	if dir, err := r.GitPath(t.Context(), "hooks"); err != nil || dir != filepath.Join(c.dir, "my hooks") {
		t.Errorf("hooks are in %q, %v", dir, err)
	}
}
