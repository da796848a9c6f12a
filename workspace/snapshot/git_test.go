package snapshot

import (
	"os"
	"os/exec"
	"path/filepath"
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
