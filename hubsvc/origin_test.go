package hubsvc

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

	"github.com/pluralsh/plural/internal/needs"
)

// origin is a bare repository that the git program pushes to.
type origin struct {
	t          testing.TB
	bare, work string
}

func newOrigin(t testing.TB) *origin {
	t.Helper()
	needs.Program(t, "git", "git")
	dir := t.TempDir()
	o := &origin{t, filepath.Join(dir, "origin.git"), filepath.Join(dir, "work")}
	o.git(dir, "init", "-q", "--bare", "-b", "main", o.bare)
	o.git(dir, "init", "-q", "-b", "main", o.work)
	o.git(o.work, "remote", "add", "origin", o.bare)
	return o
}

func (o *origin) git(dir string, args ...string) string {
	o.t.Helper()
	cmd := exec.CommandContext(o.t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(o.work), "GIT_CEILING_DIRECTORIES=" + filepath.Dir(o.work), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=ann", "GIT_COMMITTER_EMAIL=ann@example.com",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		o.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (o *origin) url() string { return "file://" + o.bare }

// write changes the work tree: a file or folder with no content is removed.
func (o *origin) write(files map[string]string) {
	o.t.Helper()
	for name, content := range files {
		path := filepath.Join(o.work, name)
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

// push commits a change and returns the commit's id.
func (o *origin) push(files map[string]string) string {
	o.t.Helper()
	o.write(files)
	o.git(o.work, "add", "-A")
	o.git(o.work, "commit", "-q", "--allow-empty", "-m", "change "+strings.Join(slices.Sorted(maps.Keys(files)), " "))
	o.git(o.work, "push", "-q", "-f", "origin", "HEAD:main")
	return o.git(o.work, "rev-parse", "HEAD")
}

// rewrite replaces the whole history by one commit with the change, and makes origin forget what was before.
func (o *origin) rewrite(files map[string]string) string {
	o.t.Helper()
	o.git(o.work, "checkout", "-q", "--orphan", fmt.Sprint("rewrite-", time.Now().UnixNano()))
	id := o.push(files)
	o.git(o.bare, "reflog", "expire", "--expire=now", "--all")
	o.git(o.bare, "gc", "-q", "--prune=now")
	return id
}

// away moves the repository out of the hub's sight until it is called again.
func (o *origin) away() (back func()) {
	o.t.Helper()
	hidden := o.bare + ".away"
	if err := os.Rename(o.bare, hidden); err != nil {
		o.t.Fatal(err)
	}
	return func() {
		if err := os.Rename(hidden, o.bare); err != nil {
			o.t.Fatal(err)
		}
	}
}

const header = "apiVersion: plural.sh/v1alpha1\n"

func workspaceFile(spec string) string {
	return header + "kind: Workspace\nmetadata: {name: demo}\nspec:\n  hub: {url: https://hub.example.com}\n" + spec
}

// cluster is a cluster's file, with an agent's key when there is one.
func cluster(name string, key ed25519.PublicKey) string {
	text := header + "kind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  tags: {env: test}\n"
	if key != nil {
		text += "  agent: {auth: \"ed25519:" + base64.StdEncoding.EncodeToString(key) + "\"}\n"
	}
	return text
}

// service is a service's file; what it says begins in line 5.
func service(name, spec string) string {
	return header + "kind: Service\nmetadata: {name: " + name + "}\nspec:\n" + spec + "  clusters: {matchLabels: {env: test}}\n"
}

func path(p string) string { return "  source: {path: " + p + "}\n" }

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {value: \"" + value + "\"}\n"
}

// twoServices is a good fleet of one cluster and two services.
func twoServices(key ed25519.PublicKey) map[string]string {
	return map[string]string{
		"plural.yaml": workspaceFile(""), "clusters/a.yaml": cluster("a", key),
		"services/api.yaml": service("api", path("apps/api")), "apps/api/cm.yaml": configMap("api", "1"),
		"services/web.yaml": service("web", path("apps/web")), "apps/web/cm.yaml": configMap("web", "1"),
	}
}
