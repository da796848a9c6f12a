// Package fleetrepo owns installation repos on disk that tests push to.
package fleetrepo

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// Origin is a bare repository that the git program pushes to.
type Origin struct {
	t testing.TB
	// Bare and Work are the folders of the bare repository and of the work tree.
	Bare, Work string
}

// New makes an origin that has no commit.
func New(t testing.TB) *Origin {
	t.Helper()
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	o := &Origin{t, filepath.Join(dir, "origin.git"), filepath.Join(dir, "work")}
	o.Git(dir, "init", "-q", "--bare", "-b", "main", o.Bare)
	o.Git(dir, "init", "-q", "-b", "main", o.Work)
	o.Git(o.Work, "remote", "add", "origin", o.Bare)
	return o
}

// Git runs git in a folder, which has to work out, and gives what it prints.
func (o *Origin) Git(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(o.Work), "GIT_CEILING_DIRECTORIES=" + filepath.Dir(o.Work), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// URL is where the bare repository is fetched.
func (o *Origin) URL() string { return "file://" + o.Bare }

// Write changes the work tree: a file or folder with no content is removed.
func (o *Origin) Write(files map[string]string) {
	o.t.Helper()
	for name, content := range files {
		path := filepath.Join(o.Work, name)
		var err error
		if content == "" {
			err = os.RemoveAll(path)
		} else if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			o.t.Fatal(err)
		}
	}
}

// Push commits a change and returns the commit's id.
func (o *Origin) Push(files map[string]string) string {
	o.t.Helper()
	o.Write(files)
	o.Git(o.Work, "add", "-A")
	o.Git(o.Work, "commit", "-q", "--allow-empty", "-m", "change "+strings.Join(slices.Sorted(maps.Keys(files)), " "))
	o.Git(o.Work, "push", "-q", "-f", "origin", "HEAD:main")
	return o.Git(o.Work, "rev-parse", "HEAD")
}

// Rewrite replaces the whole history by one commit with the change, and makes origin forget what was before.
func (o *Origin) Rewrite(files map[string]string) string {
	o.t.Helper()
	o.Git(o.Work, "checkout", "-q", "--orphan", fmt.Sprint("rewrite-", time.Now().UnixNano()))
	id := o.Push(files)
	o.Git(o.Bare, "reflog", "expire", "--expire=now", "--all")
	o.Git(o.Bare, "gc", "-q", "--prune=now")
	return id
}

// Away moves the repository out of the hub's sight until it is called again.
func (o *Origin) Away() (back func()) {
	o.t.Helper()
	hidden := o.Bare + ".away"
	if err := os.Rename(o.Bare, hidden); err != nil {
		o.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(hidden, o.Bare); err != nil {
			o.t.Fatal(err)
		}
	}
}

// Header is the first line of every file.
const Header = "apiVersion: plural.sh/v1alpha1\n"

// Workspace is plural.yaml, with more lines of its spec.
func Workspace(spec string) string {
	return Header + "kind: Workspace\nmetadata: {name: demo}\nspec:\n  hub: {url: https://hub.example.com}\n" + spec
}

// Cluster is a cluster's file, with an agent's key when there is one.
func Cluster(name string, key ed25519.PublicKey) string {
	text := Header + "kind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  tags: {env: test}\n"
	if key != nil {
		text += "  agent: {auth: \"ed25519:" + base64.StdEncoding.EncodeToString(key) + "\"}\n"
	}
	return text
}

// Service is a service's file; what it says begins in line 5.
func Service(name, spec string) string {
	return Header + "kind: Service\nmetadata: {name: " + name + "}\nspec:\n" + spec + "  clusters: {matchLabels: {env: test}}\n"
}

// Path is the line of a service whose files are in the installation repo.
func Path(p string) string { return "  source: {path: " + p + "}\n" }

// ConfigMap is a manifest.
func ConfigMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {value: \"" + value + "\"}\n"
}

// TwoServices is a good fleet of one cluster and two services.
func TwoServices(key ed25519.PublicKey) map[string]string {
	return map[string]string{
		"plural.yaml": Workspace(""), "clusters/a.yaml": Cluster("a", key),
		"services/api.yaml": Service("api", Path("apps/api")), "apps/api/cm.yaml": ConfigMap("api", "1"),
		"services/web.yaml": Service("web", Path("apps/web")), "apps/web/cm.yaml": ConfigMap("web", "1"),
	}
}

// Until waits for a condition.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// SigningKey makes a key for SSH signatures, and gives the path of its private half; the public one has .pub behind it.
func SigningKey(t testing.TB, name string) string {
	t.Helper()
	needs.Program(t, "ssh-keygen", "openssh-client")
	file := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	return file
}

// SignBy has the work tree's commits signed by a key from now on, by the path of its private half.
func (o *Origin) SignBy(key string) {
	o.Git(o.Work, "config", "gpg.format", "ssh")
	o.Git(o.Work, "config", "user.signingKey", key)
	sign := "true"
	if key == "" {
		sign = "false"
	}
	o.Git(o.Work, "config", "commit.gpgSign", sign)
}
