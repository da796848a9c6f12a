package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
)

// repo is a real git repository driven by the git program.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	needs.Program(t, "git", "git")
	t.Setenv("HOME", t.TempDir())
	r := &repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	return r.run("", args...)
}

func (r *repo) run(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r *repo) write(name, content string) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// commit writes one file and commits everything.
func (r *repo) commit(name, content string) string {
	r.t.Helper()
	r.write(name, content)
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "write "+name)
	return r.git("rev-parse", "HEAD")
}

// rawTree stores a tree object that git's own commands would refuse to write, and gives its id.
func (r *repo) rawTree(body string) string {
	r.t.Helper()
	return r.run(body, "hash-object", "-t", "tree", "-w", "--stdin", "--literally")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// treeLine is one line of a tree object.
func treeLine(t *testing.T, mode, name, id string) string {
	t.Helper()
	raw, err := hex.DecodeString(id)
	must(t, err)
	return mode + " " + name + "\x00" + string(raw)
}

// pack makes a pack of everything that some commits hold, except for what others do.
func (r *repo) pack(wants, haves []string) []byte {
	r.t.Helper()
	known := map[string]bool{}
	for _, id := range r.objects(haves) {
		known[id] = true
	}
	list := slices.DeleteFunc(r.objects(wants), func(id string) bool { return known[id] })
	return r.packOf(list)
}

func (r *repo) packOf(ids []string, args ...string) []byte {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"pack-objects", "-q", "--stdout"}, args...)...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(strings.Join(ids, "\n")+"\n")
	out, err := cmd.Output()
	must(r.t, err)
	return out
}

// objects lists some commits and all that they hold.
func (r *repo) objects(commits []string) []string {
	r.t.Helper()
	if len(commits) == 0 {
		return nil
	}
	var list []string
	for line := range strings.Lines(r.git(append([]string{"rev-list", "--objects", "--no-walk"}, commits...)...)) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		list = append(list, id)
	}
	return list
}

// origin serves a repository to a mirror, by the git program's own packs.
type origin struct {
	*repo
	// down is why nobody answers.
	down error
	// instead gives what is sent in place of the right pack.
	instead func() []byte
	sent    int
}

func newOrigin(t testing.TB) *origin { return &origin{repo: newRepo(t)} }

func (o *origin) Traffic() Traffic { return Traffic{} }

func (o *origin) Fetch(ctx context.Context, refs []string, into Receiver) (Answer, error) {
	if o.down != nil {
		return Answer{}, o.down
	}
	a := Answer{Tips: map[string]Tip{}}
	var wants []string
	for _, ref := range refs {
		commit, err := o.rev(cmp.Or(ref, "HEAD") + "^{commit}")
		if err != nil {
			a.Problems = append(a.Problems, &RefError{Ref: ref, Err: err})
			continue
		}
		id, _ := o.rev(cmp.Or(ref, "HEAD"))
		if a.Tips[ref] = (Tip{ID: id, Commit: commit, Revision: commit}); !into.Complete(commit) {
			wants = append(wants, commit)
		}
	}
	if len(wants) == 0 {
		return a, nil
	}
	o.sent++
	if o.instead != nil {
		return a, into.Pack(ctx, bytes.NewReader(o.instead()))
	}
	return a, into.Pack(ctx, bytes.NewReader(o.pack(wants, into.Commits())))
}

func (o *origin) rev(name string) (string, error) {
	cmd := exec.Command("git", "rev-parse", "--verify", "-q", name)
	cmd.Dir = o.dir
	out, err := cmd.Output()
	if err != nil {
		return "", errors.New("no such branch or tag")
	}
	return strings.TrimSpace(string(out)), nil
}
