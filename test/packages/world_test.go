// Package packages owns what is checked of installing packages as a whole, on real programs.
package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// program is the path of one of the built programs. They are what is tested, so they have to be there.
func program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	return needs.Program(t, path, "make build")
}

// operator is a person with a machine and a clone of the installation repo.
type operator struct {
	testing.TB
	home, dir, origin string
	kubeconfig        string
	env               []string
}

// world is an origin with a first operator, whose fleet is one cluster: a real API server.
type world struct {
	*operator
	cluster *kubetest.Cluster
}

func newWorld(t testing.TB) *world {
	t.Helper()
	cluster := kubetest.Start(t)
	t.Cleanup(func() { // other tests have services of the same names
		for _, namespace := range []string{cluster.Namespace, object.SystemNamespace} {
			maps := cluster.Dynamic.Resource(configMaps).Namespace(namespace)
			if err := maps.DeleteCollection(context.WithoutCancel(t.Context()), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	o := &operator{TB: t, home: t.TempDir(), kubeconfig: cluster.Kubeconfig}
	o.origin, o.dir = filepath.Join(o.home, "origin.git"), filepath.Join(o.home, "fleet")
	o.settle("ada")
	o.run("git", "init", "--quiet", "--bare", "--initial-branch=main", o.origin)
	o.plural("init", o.dir, "--name", "fleet", "--repo-url", "file://"+o.origin)
	o.write("clusters/mgmt.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: mgmt}\n")
	o.edit("plural.yaml", func(text string) string { return text + "  management: mgmt\n" })
	o.commit("Begin")
	return &world{operator: o, cluster: cluster}
}

// settle makes a home.
func (o *operator) settle(name string) {
	o.Helper()
	o.env = append(slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "PLURAL_") && !strings.HasPrefix(s, "PLURAL_TERRAFORM") || strings.HasPrefix(s,
			"XDG_") || strings.HasPrefix(s, "HOME=") ||
			strings.HasPrefix(s, "KUBECONFIG=")
	}),
		"HOME="+o.home, "XDG_CONFIG_HOME="+o.home+"/.config", "XDG_STATE_HOME="+o.home+"/.state", "XDG_CACHE_HOME="+o.home+"/.cache",
		"PLURAL_CONFIG_DIR="+o.home+"/.config/plural", "KUBECONFIG="+o.kubeconfig, "CI=1", "GIT_CONFIG_NOSYSTEM=1", "PLURAL_ALLOW_FILE_SOURCES=1",
		"PATH="+filepath.Dir(program(o, "plural"))+":"+os.Getenv("PATH"))
	if err := os.MkdirAll(filepath.Join(o.home, ".config"), 0o700); err != nil {
		o.Fatal(err)
	}
	config := fmt.Sprintf("[user]\n\tname = %s\n\temail = %s@example.com\n[init]\n\tdefaultBranch = main\n", name, name)
	if err := os.WriteFile(filepath.Join(o.home, ".gitconfig"), []byte(config), 0o600); err != nil {
		o.Fatal(err)
	}
}

// command is a program in the operator's clone, with the operator's environment, and nobody at a terminal.
func (o *operator) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = o.env
	if _, err := os.Stat(o.dir); err == nil {
		cmd.Dir = o.dir
	}
	return cmd
}

// run runs a program that has to work out.
func (o *operator) run(name string, args ...string) string {
	o.Helper()
	out, said, err := o.try(name, args...)
	if err != nil {
		o.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, said)
	}
	return out
}

// try runs a program.
func (o *operator) try(name string, args ...string) (out, said string, err error) {
	o.Helper()
	cmd := o.command(o.Context(), name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func (o *operator) plural(args ...string) string {
	o.Helper()
	return o.run(program(o, "plural"), args...)
}

// reach are the flags by which the fleet's cluster is reached.
func (o *operator) reach() []string {
	return []string{"--kubeconfig", o.kubeconfig, "--context", "mgmt=kubetest"}
}

// step is what came of one step.
type step struct {
	Step, Action, State, Error string
}

// deploy runs plural deploy, which has to work out, and says what came of each step.
func (o *operator) deploy(args ...string) []step {
	o.Helper()
	return o.deployHere(append(o.reach(), args...)...)
}

// deployHere deploys with the ways to clusters that are remembered.
func (o *operator) deployHere(args ...string) []step {
	o.Helper()
	out := o.plural(append([]string{"deploy", "--yes", "-o", "json"}, args...)...)
	var deployed struct{ Items []step }
	if err := json.Unmarshal([]byte(out), &deployed); err != nil {
		o.Fatalf("%v in %s", err, out)
	}
	return deployed.Items
}

// done are the steps that were done.
func done(steps []step) []string {
	var names []string
	for _, s := range steps {
		if s.State == "done" {
			names = append(names, s.Action+" "+s.Step)
		}
	}
	slices.Sort(names)
	return names
}

func (o *operator) write(name, text string) {
	o.Helper()
	path := filepath.Join(o.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		o.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
}

func (o *operator) edit(name string, change func(string) string) {
	o.Helper()
	text, err := os.ReadFile(filepath.Join(o.dir, name))
	if err != nil {
		o.Fatal(err)
	}
	o.write(name, change(string(text)))
}

func (o *operator) commit(message string) {
	o.Helper()
	o.run("git", "add", "-A")
	o.run("git", "commit", "--quiet", "-m", message)
	o.run("git", "push", "--quiet", "-u", "origin", "HEAD")
}

// install puts a package into the repo, as plural package add leaves it; requires says which installation satisfies which
// dependency.
func (o *operator) install(name, spec string, files map[string]string, requires map[string]string) {
	o.Helper()
	o.write("packages/"+name+"/package.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: "+name+"}\n")
	payload := "packages/" + name + "/payload"
	o.write(payload+"/package.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: "+name+"}\nspec:\n"+spec)
	for path, text := range files {
		o.write(payload+"/"+path, text)
	}
	digest, err := packages.Digest(os.DirFS(filepath.Join(o.dir, payload)))
	if err != nil {
		o.Fatal(err)
	}
	var head struct {
		Spec struct{ Version string }
	}
	if err := yaml.Unmarshal([]byte("spec:\n"+spec), &head); err != nil {
		o.Fatal(err)
	}
	lock, err := lockfile.Load(os.DirFS(o.dir))
	if err != nil {
		o.Fatal(err)
	}
	lock.Set(lockfile.Entry{
		Name: name, Package: name, Catalog: "builtin", Version: head.Spec.Version, Digest: digest,
		Requires: requires,
	})
	text, err := lock.Encode()
	if err != nil {
		o.Fatal(err)
	}
	o.write(lockfile.File, string(text))
}

// configMap is a manifest.
func configMap(name, key, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s: %q}\n", name, key, value)
}
