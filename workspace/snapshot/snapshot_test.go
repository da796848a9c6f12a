package snapshot

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing"
)

func open(t testing.TB, r *repo, revision string) *Snapshot {
	t.Helper()
	s, err := Open(r.dir, revision)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFSIsAWholeFileSystem(t *testing.T) {
	r := newRepo(t)
	r.write("apps/web/deploy.yaml", "kind: Deployment\n")
	r.write("apps/web.yaml", "x")
	r.write("apps/web-2/a", "")
	r.commit("README.md", "hello\n")
	s := open(t, r, "HEAD")
	if err := fstest.TestFS(s.FS(), "README.md", "apps/web/deploy.yaml", "apps/web.yaml", "apps/web-2/a"); err != nil {
		t.Fatal(err)
	}
	if got := s.Commit(); got.Author != "Ada" || got.Subject != "write README.md" || got.Time.IsZero() {
		t.Errorf("commit = %+v", got)
	}
}

func TestHashIsGitsOwn(t *testing.T) {
	r := newRepo(t)
	r.write("a/b/c.txt", "1")
	r.commit("a/d", "2")
	s := open(t, r, "main")
	for _, path := range []string{"a", "a/b", "a/b/c.txt", "a/d"} {
		got, _, err := s.Hash(path)
		if want := r.git("rev-parse", "HEAD:"+path); err != nil || string(got) != want {
			t.Errorf("Hash(%q) = %s, %v; want %s", path, got, err, want)
		}
	}
	if got, mode, err := s.Hash("."); err != nil || string(got) != r.git("rev-parse", "HEAD^{tree}") || !mode.IsDir() {
		t.Errorf("Hash(.) = %s %v %v", got, mode, err)
	}
	for _, path := range []string{"nope", "a/nope", "a/d/below"} {
		if _, _, err := s.Hash(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Hash(%q): %v, want not exist", path, err)
		}
	}
	if _, _, err := s.Hash("../etc"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Hash(../etc): %v, want invalid", err)
	}
}

func TestSymlinksAndSubmodulesAreSeenAndNotFollowed(t *testing.T) {
	r := newRepo(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(r.dir, "values.yaml")); err != nil {
		t.Fatal(err)
	}
	id := r.commit("a", "1")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+id+",sub")
	r.git("commit", "-q", "-m", "submodule")
	fsys := open(t, r, "HEAD").FS()
	for name, mode := range map[string]fs.FileMode{"values.yaml": fs.ModeSymlink, "sub": fs.ModeIrregular} {
		info, err := fs.Stat(fsys, name)
		if err != nil || info.Mode().Type() != mode {
			t.Errorf("Stat(%s) = %v, %v", name, info, err)
		}
		if _, err := fs.ReadFile(fsys, name); err == nil || strings.Contains(err.Error(), "root:") {
			t.Errorf("ReadFile(%s): %v, want a refusal", name, err)
		}
		if _, err := fs.ReadFile(fsys, name+"/x"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("ReadFile(%s/x): %v, want not exist", name, err)
		}
	}
}

func TestOpenTakesAWorkTreeAFolderInItAndABareRepository(t *testing.T) {
	r := newRepo(t)
	id := r.commit("apps/a", "1")
	bare := filepath.Join(r.dir, "inside.git") // in another repository's work tree, which it must not be taken for
	r.git("clone", "-q", "--bare", ".", bare)
	r.commit("apps/b", "2")
	for dir, want := range map[string]string{r.dir: r.git("rev-parse", "HEAD"), filepath.Join(r.dir, "apps"): r.git("rev-parse", "HEAD"), bare: id} {
		snap, err := Open(dir, "HEAD")
		if err != nil {
			t.Errorf("Open(%s): %v", dir, err)
			continue
		}
		if got := snap.Commit().ID; got != want {
			t.Errorf("Open(%s) is commit %s, want %s", dir, got, want)
		}
	}
}

func treeLine(t *testing.T, mode, name, id string) string {
	t.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	return mode + " " + name + "\x00" + string(raw)
}

func TestACommitIsOpenedByItsIDAndByNoTagOfThatName(t *testing.T) {
	r := newRepo(t)
	id := r.commit("a", "mine")
	other := r.commit("a", "theirs")
	r.git("update-ref", "refs/tags/"+id, other)
	r.git("update-ref", "refs/tags/"+id+"-x", other)
	s, err := At(r.dir, Hash(id))
	if err != nil || s.Commit().ID != id {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := At(r.dir, Hash(id+"-x")); err == nil {
		t.Errorf("a tag's name opens %s", s.Commit().ID)
	}
}

func TestATagTakesTheNameOfNoBranch(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("update-ref", "refs/remotes/origin/main", "HEAD")
	r.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	for _, name := range []string{"main", "origin/main", "origin"} {
		r.git("tag", name)
		var ambiguous *AmbiguousError
		for _, revision := range []string{name, name + "~0"} {
			if _, err := Open(r.dir, revision); !errors.As(err, &ambiguous) {
				t.Errorf("%s: got %v", revision, err)
			}
		}
		for _, revision := range []string{"HEAD", "refs/tags/" + name, ambiguous.Branch.String()} {
			if _, err := Open(r.dir, revision); err != nil {
				t.Errorf("%s: %v", revision, err)
			}
		}
		r.git("tag", "-d", name)
	}
}

func TestANameEndsWhereGitEndsIt(t *testing.T) {
	for revision, want := range map[string]plumbing.ReferenceName{
		"main": "refs/tags/main", "main~2": "refs/tags/main", "main^{commit}": "refs/tags/main", "main:a@b": "refs/tags/main",
		"main@{1}~2": "refs/tags/main", "a@b": "refs/tags/a@b", "a@b@{u}^": "refs/tags/a@b",
	} {
		err := Unambiguous(revision, func(plumbing.ReferenceName) bool { return true })
		var ambiguous *AmbiguousError
		if names := Names(revision); len(names) == 0 || names[0] != want || !errors.As(err, &ambiguous) {
			t.Errorf("%s: got %v, %v, want %s", revision, names, err, want)
		}
	}
	for _, revision := range []string{"", "@{1}", ":/fix"} {
		if names := Names(revision); names != nil {
			t.Errorf("%s: got %v", revision, names)
		}
	}
}

func TestTreesThatGitWouldNotWriteAreRefusedByName(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	blob, dir := r.git("rev-parse", "HEAD:a"), r.git("rev-parse", "HEAD^{tree}")
	for _, name := range []string{"..", ".", "", "a/b", `a\b`, ".git", ".GIT", "git~1", ".g\u200cit", ".git ", ".git.", ".git::$INDEX_ALLOCATION", "a\nb", "\x1b[31m"} {
		t.Run(name, func(t *testing.T) {
			refused(t, r, treeLine(t, "100644", name, blob), name)
		})
	}
	for name, body := range map[string]string{
		"twice":           treeLine(t, "100644", "a", blob) + treeLine(t, "100644", "a", blob),
		"file and folder": treeLine(t, "100644", "a", blob) + treeLine(t, "100644", "a.b", blob) + treeLine(t, "40000", "a", dir),
		"unsorted":        treeLine(t, "100644", "b", blob) + treeLine(t, "100644", "a", blob),
		"odd mode":        treeLine(t, "100600", "a", blob),
		"padded mode":     treeLine(t, "040000", "a", dir),
	} {
		t.Run(name, func(t *testing.T) { refused(t, r, body, "a") })
	}
}

func refused(t *testing.T, r *repo, body, name string) {
	t.Helper()
	commit := r.git("commit-tree", "-m", "bad", r.rawTree(body))
	_, err := Open(r.dir, commit)
	var bad *TreeError
	if !errors.As(err, &bad) || bad.Name != name {
		t.Fatalf("Open: %v, want a TreeError for %q", err, name)
	}
	if !strings.Contains(err.Error(), "invalid tree path") || strings.ContainsAny(err.Error(), "\n\x1b\u200c") {
		t.Errorf("error text %q is not escaped", err)
	}
}

func TestBlobBeyondTheLimitIsNotInflated(t *testing.T) {
	r := newRepo(t)
	r.commit("big", strings.Repeat("\x00", MaxBlob+1))
	s := open(t, r, "HEAD")
	id, _, err := s.Hash("big")
	if err != nil {
		t.Fatal(err)
	}
	_, read := fs.ReadFile(s.FS(), "big")
	for _, err := range []error{read, s.TooLarge(id)} {
		if limit := new(LimitError); !errors.As(err, &limit) || limit.Max != MaxBlob {
			t.Fatalf("got %v, want a LimitError", err)
		}
	}
}

func TestSnapshotIsReadConcurrently(t *testing.T) {
	r := newRepo(t)
	for _, name := range []string{"a/1", "a/2", "b/c/3"} {
		r.commit(name, strings.Repeat(name, 1000))
	}
	r.git("gc", "-q")
	fsys := open(t, r, "HEAD").FS()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if data, err := fs.ReadFile(fsys, "b/c/3"); err != nil || len(data) != 5000 {
					t.Errorf("ReadFile: %d bytes, %v", len(data), err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x0001234567890123456789"))
	f.Add([]byte("40000 a\x0001234567890123456789100755 b\x0001234567890123456789"))
	f.Fuzz(func(t *testing.T, body []byte) {
		entries, err := parseTree("", body)
		if err != nil {
			return
		}
		again, err := EncodeTree(entries)
		if err != nil || string(again) != string(body) {
			t.Fatalf("%q became %q, %v", body, again, err)
		}
		for _, e := range entries {
			if got, ok := lookup(entries, e.Name); !ok || got != e {
				t.Fatalf("lookup(%q) = %v, %v", e.Name, got, ok)
			}
		}
	})
}
