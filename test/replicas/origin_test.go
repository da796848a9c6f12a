package replicas

import (
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// origin is a real git server that counts how often each repository is asked.
type origin struct {
	t           *testing.T
	dir         string
	base        string
	credentials string // the folder that hubs read them from

	mu    sync.Mutex
	asked map[string][]time.Time // by repository: when somebody asked for its refs
}

func newOrigin(t *testing.T, dir, ip string, pki *pki) *origin {
	t.Helper()
	backend, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{t: t, dir: dir, credentials: filepath.Join(dir, "credentials"), asked: map[string][]time.Time{}}
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	o.base = "https://" + listener.Addr().String()
	handler := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(backend)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir},
		Stderr: &strings.Builder{},
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if repo, ok := strings.CutSuffix(r.URL.Path, "/info/refs"); ok {
			o.mu.Lock()
			repo = strings.Trim(repo, "/")
			o.asked[repo] = append(o.asked[repo], time.Now())
			o.mu.Unlock()
		}
		if protocol := r.Header.Get("Git-Protocol"); protocol != "" {
			r.Header.Set("Git-Protocol", protocol)
		}
		handler.ServeHTTP(w, r)
	}), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.ServeTLS(listener, pki.cert, pki.key) }()
	t.Cleanup(func() { _ = server.Close() })
	ca, err := os.ReadFile(pki.ca)
	if err == nil {
		err = os.MkdirAll(o.credentials, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(o.credentials, "ca.crt"), ca, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *origin) url(repo string) string { return o.base + "/" + repo }

// requests are how often a repository was asked since.
func (o *origin) requests(repo string, since time.Time) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := 0
	for _, at := range o.asked[repo] {
		if at.After(since) {
			n++
		}
	}
	return n
}

// push commits files to a repository, which is made with the first; nothing else stays in it.
func (o *origin) push(repo string, files map[string]string) (commit string) {
	o.t.Helper()
	bare, work := filepath.Join(o.dir, repo), filepath.Join(o.dir, repo+"-work")
	if _, err := os.Stat(bare); err != nil {
		o.git(o.dir, "init", "-q", "--bare", "-b", "main", bare)
		o.git(o.dir, "init", "-q", "-b", "main", work)
	}
	for name, content := range files {
		name = filepath.Join(work, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			o.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
	o.git(work, "add", "-A")
	o.git(work, "commit", "-q", "-m", "change")
	o.git(work, "push", "-q", bare, "main")
	return o.git(work, "rev-parse", "HEAD")
}

func (o *origin) git(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		o.t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
