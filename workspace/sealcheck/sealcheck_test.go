package sealcheck

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const repositoryID = "3f0c0123456789abcdef0123456789ab"

const sealYAML = `apiVersion: plural.sh/v1alpha1
kind: Seal
metadata: {name: seal}
spec:
  repository: ` + repositoryID + `
  paths:
  - {pattern: "secrets/**", groups: [fleet]}
`

// repo is a git repository with the group fleet.
type repo struct {
	t     *testing.T
	dir   string
	group *groups.Group
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t: t, dir: t.TempDir()}
	r.git("init", "-q")
	alice, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	member := groups.Member{Kind: groups.Person, Name: "alice"}
	files := map[string]string{".plural/seal.yaml": sealYAML, groups.PersonFile("alice"): alice.Recipient().String() + "\n"}
	changes, err := load(t, files).Create(repositoryID, "fleet", []groups.Member{member}, groups.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range changes {
		files[name] = string(text)
	}
	r.group, _ = load(t, files).Group("fleet")
	r.write(files)
	return r
}

func load(t *testing.T, files map[string]string) *groups.Set {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, err := groups.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	out, err := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=a", "-c", "user.email=a@b.c"}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) write(files map[string]string) {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit commits the files, and opens what that gives.
func (r *repo) commit(files map[string]string) *snapshot.Snapshot {
	r.t.Helper()
	r.write(files)
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "x")
	snap, err := snapshot.Open(r.dir, "HEAD")
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

func (r *repo) seal(path string) string {
	r.t.Helper()
	b := seal.Binding{Repository: repositoryID, Path: path, Groups: []seal.Epoch{{Group: "fleet", Number: r.group.Epoch}}}
	data, err := seal.Seal([]byte("password: x\n"), b, r.group.Recipient.Recipient)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// check is the files with problems.
func check(t *testing.T, c *Checker, snap *snapshot.Snapshot) []string {
	t.Helper()
	problems, err := c.Check(t.Context(), snap)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, p := range problems {
		if p.Message == "" || p.Fix == "" {
			t.Errorf("problem = %+v", p)
		}
		files = append(files, p.File)
	}
	return files
}

func TestWhatIsKnownToBeInOrderIsNotReadAgain(t *testing.T) {
	r, c := newRepo(t), New()
	many := map[string]string{"secrets/a.yaml": r.seal("secrets/a.yaml"), "secrets/deep/b.yaml": r.seal("secrets/deep/b.yaml"), "README.md": "x"}
	if got := check(t, c, r.commit(many)); got != nil {
		t.Errorf("problems with %q", got)
	}
	next := r.commit(map[string]string{"secrets/c.yaml": r.seal("secrets/c.yaml"), "README.md": "y"})
	for _, name := range []string{"secrets/a.yaml", "secrets/deep/b.yaml"} { // whoever reads them fails
		id := r.git("rev-parse", "HEAD:"+name)
		if err := os.Remove(filepath.Join(r.dir, ".git", "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
	}
	if got := check(t, c, next); got != nil {
		t.Errorf("problems with %q", got)
	}
	if _, err := New().Check(t.Context(), next); err == nil {
		t.Error("the files can be read all the same, so this test tells nothing")
	}
}

func TestAFolderThatCannotBeReadIsNotEmpty(t *testing.T) {
	r, c := newRepo(t), New()
	snap := r.commit(map[string]string{"secrets/deep/a.yaml": "clear"})
	id := r.git("rev-parse", "HEAD:secrets/deep")
	if err := os.Remove(filepath.Join(r.dir, ".git", "objects", id[:2], id[2:])); err != nil {
		t.Fatal(err)
	}
	if problems, err := c.Check(t.Context(), snap); err == nil || !strings.Contains(err.Error(), `folder "secrets/deep"`) {
		t.Errorf("problems %v, %v", problems, err)
	}
}

func TestAFileIsJudgedAgainAtAnotherPlace(t *testing.T) {
	r, c := newRepo(t), New()
	if got := check(t, c, r.commit(map[string]string{"secrets/dir/a.yaml": r.seal("secrets/dir/a.yaml")})); got != nil {
		t.Errorf("problems with %q", got)
	}
	r.git("mv", "secrets/dir", "secrets/other")
	for range 2 { // a refused state is looked at again, with the same result
		if got := check(t, c, r.commit(nil)); !cmp.Equal(got, []string{"secrets/other/a.yaml"}) {
			t.Errorf("problems with %q", got)
		}
	}
}

func TestNewRulesAreAppliedToOldFiles(t *testing.T) {
	r, c := newRepo(t), New()
	if got := check(t, c, r.commit(map[string]string{"secrets/a.yaml": r.seal("secrets/a.yaml"), "notes/b.txt": "clear"})); got != nil {
		t.Errorf("problems with %q", got)
	}
	more := sealYAML + "  - {pattern: \"notes/**\", groups: [fleet]}\n"
	if got := check(t, c, r.commit(map[string]string{".plural/seal.yaml": more})); !cmp.Equal(got, []string{"notes/b.txt"}) {
		t.Errorf("problems with %q", got)
	}
	rotated := "# epoch 2\n" + r.group.Recipient.Text + "\n"
	files := map[string]string{".plural/seal.yaml": sealYAML, groups.RecipientFile("fleet"): rotated}
	if got := check(t, c, r.commit(files)); !cmp.Equal(got, []string{"secrets/a.yaml"}) {
		t.Errorf("problems with %q", got)
	}
}

func TestWorkTreeMayBeInClear(t *testing.T) {
	r := newRepo(t)
	files := map[string]string{"secrets/a.yaml": "password: x\n", "secrets/b.yaml": r.seal("secrets/b.yaml")}
	r.write(files)
	tree := func() *snapshot.Snapshot {
		snap, err := snapshot.Worktree(r.dir)
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	c := New()
	if got := check(t, c, tree()); got != nil {
		t.Errorf("problems with %q", got)
	}
	r.write(map[string]string{"secrets/c.yaml": files["secrets/b.yaml"]})
	if got := check(t, c, tree()); !cmp.Equal(got, []string{"secrets/c.yaml"}) {
		t.Errorf("problems with %q", got)
	}
	if got := check(t, c, r.commit(nil)); !cmp.Equal(got, []string{"secrets/a.yaml", "secrets/c.yaml"}) {
		t.Errorf("problems of the commit with %q", got)
	}
}

func TestProblemsOfThePolicyHaveTheirPlace(t *testing.T) {
	r := newRepo(t)
	for name, test := range map[string]struct {
		files map[string]string
		want  Problem
	}{
		"unknown field": {
			map[string]string{".plural/seal.yaml": sealYAML + "  color: blue\n"},
			Problem{File: ".plural/seal.yaml", Line: 8},
		},
		"unknown group": {
			map[string]string{".plural/seal.yaml": sealYAML + "  - {pattern: \"x/**\", groups: [nobody]}\n"},
			Problem{File: ".plural/seal.yaml", Line: 8},
		},
		"bad member": {
			map[string]string{".plural/members/bob.txt": "# bob\nage1nonsense\n"},
			Problem{File: ".plural/members/bob.txt", Line: 2},
		},
		"group in pieces": {
			map[string]string{".plural/groups/ops/members/alice.age": "x"},
			Problem{File: ".plural/groups/ops/recipient.txt"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(test.files)
			problems, err := New().Check(t.Context(), r.commit(files))
			if err != nil || len(problems) != 1 || problems[0].File != test.want.File || problems[0].Line != test.want.Line {
				t.Errorf("problems = %+v, %v", problems, err)
			}
			if err := os.RemoveAll(filepath.Join(r.dir, ".plural", "groups", "ops")); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(filepath.Join(r.dir, ".plural", "members", "bob.txt")) // most cases have none
			r.write(map[string]string{".plural/seal.yaml": sealYAML})
		})
	}
}

func TestPatternsThatContradictEachOtherAreAProblemOfThePolicy(t *testing.T) {
	r := newRepo(t)
	problems, err := New().Check(t.Context(), r.commit(map[string]string{
		groups.RecipientFile("ops"): "# epoch 1\n" + r.group.Recipient.Text + "\n",
		".plural/seal.yaml":         sealYAML + "  - {pattern: \"a*/b\", groups: [fleet]}\n  - {pattern: \"*a/b\", groups: [ops]}\n",
		"aa/b":                      "clear",
	}))
	if err != nil || len(problems) != 1 || problems[0].File != ".plural/seal.yaml" || problems[0].Line != 8 ||
		!strings.Contains(problems[0].Message, `both match "aa/b"`) {
		t.Errorf("problems = %+v, %v", problems, err)
	}
}

func TestNothingIsWrongWithoutAPolicy(t *testing.T) {
	r := newRepo(t)
	if err := os.RemoveAll(filepath.Join(r.dir, ".plural")); err != nil {
		t.Fatal(err)
	}
	if got := check(t, New(), r.commit(map[string]string{"secrets/a.yaml": "clear"})); got != nil {
		t.Errorf("problems with %q", got)
	}
}
