package gitsource

import (
	"context"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/mirror"
)

// repo is a real git repository driven by the git program.
type repo struct {
	t   testing.TB
	dir string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	needs.Program(t, "git", "git")
	r := &repo{t, filepath.Join(t.TempDir(), "repo")}
	must(t, os.Mkdir(r.dir, 0o755))
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) git(args ...string) string { return r.run("", args...) }

func (r *repo) run(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes one file and commits it.
func (r *repo) commit(name, content string) string {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	must(r.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(r.t, os.WriteFile(file, []byte(content), 0o644))
	r.git("add", name)
	r.git("commit", "-q", "--allow-empty", "-m", "write "+name+fmt.Sprintf("\n\n%.20q", content))
	return r.git("rev-parse", "HEAD")
}

func (r *repo) file() Options { return Options{URL: "file://" + r.dir, AllowFile: true} }

// front stands before git's own server, and may answer in its place.
type front struct {
	*httptest.Server
	mu   sync.Mutex
	hook func(w http.ResponseWriter, r *http.Request, git http.Handler)
}

func (f *front) behave(hook func(w http.ResponseWriter, r *http.Request, git http.Handler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request, git http.Handler) {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook == nil {
		git.ServeHTTP(w, r)
		return
	}
	hook(w, r, git)
}

// backend is git's own server, for the repositories beside r.
func (r *repo) backend() http.Handler {
	return &cgi.Handler{
		Path: needs.Program(r.t, "git", "git"), Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null"},
	}
}

// serve runs git's own HTTP server.
func (r *repo) serve() *front {
	git := r.backend()
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { f.ServeHTTP(w, req, git) }))
	r.t.Cleanup(f.Close)
	return f
}

func (f *front) options() Options { return Options{URL: f.URL + "/repo/.git"} }

// certificate is what a client must trust.
func certificate(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// old makes a server that knows only git's first protocol.
func old(w http.ResponseWriter, r *http.Request, git http.Handler) {
	r.Header.Del("Git-Protocol")
	git.ServeHTTP(w, r)
}

// followed is a mirror with the source that fills it.
type followed struct {
	*mirror.Mirror
	t   testing.TB
	src mirror.Upstream
}

func follow(t testing.TB, o Options) *followed {
	t.Helper()
	return followInto(t, o, t.TempDir())
}

func followInto(t testing.TB, o Options, dir string) *followed {
	t.Helper()
	src, err := New(o)
	must(t, err)
	m, err := mirror.Open(dir)
	must(t, err)
	return &followed{m, t, src}
}

func (f *followed) try(refs ...string) ([]string, error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	return f.Fetch(ctx, f.src, refs)
}

func (f *followed) fetch(refs ...string) []string {
	f.t.Helper()
	changed, err := f.try(refs...)
	must(f.t, err)
	return changed
}

// content is a file's in the last good commit of a ref.
func (f *followed) content(ref, name string) string {
	f.t.Helper()
	s, err := f.Snapshot(ref)
	must(f.t, err)
	data, err := fs.ReadFile(s.FS(), name)
	must(f.t, err)
	return string(data)
}

func (f *followed) want(ref, name, content string) {
	f.t.Helper()
	if got := f.content(ref, name); got != content {
		f.t.Errorf("%s at %q has %q, want %q", name, ref, got, content)
	}
}

// says wants an error with some words, and the last good commit still there.
func (f *followed) says(err error, words ...string) {
	f.t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			f.t.Errorf("error is %v, want it to say %q", err, word)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestShortFormOfSSHIsTheURLThatItStandsFor(t *testing.T) {
	for short, want := range map[string]string{
		"git@git.example.com:team/apps.git":  "ssh://git@git.example.com/team/apps.git",
		"git@git.example.com:/team/apps.git": "ssh://git@git.example.com/team/apps.git",
		"https://git.example.com/x":          "https://git.example.com/x",
		"ssh://git@git.example.com:22/x":     "ssh://git@git.example.com:22/x",
		"-oProxyCommand=x@y:z":               "-oProxyCommand=x@y:z",
	} {
		if got := Expand(short); got != want {
			t.Errorf("%s: %s", short, got)
		}
	}
	if _, err := parseURL("git@git.example.com:team/apps.git", false); err != nil {
		t.Error(err)
	}
}
