package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/test/support/needs"
)

// complaint is an error as programs are told it.
type complaint struct {
	Message, Cause, Fix string
	Problems            []struct{ Where, Message, Fix string }
	Code                int
	// said is all that stood on stderr.
	said string
}

// sound complains about words that help nobody.
func (c *complaint) sound(t testing.TB) {
	t.Helper()
	texts := []string{c.Message + ": " + c.Cause}
	fix := c.Fix
	for _, p := range c.Problems {
		texts = append(texts, p.Message)
		fix += p.Fix
	}
	if fix == "" {
		t.Errorf("no fix is named:\n%s", c.said)
	}
	for _, text := range texts {
		words := strings.Split(text, ": ")
		for i := 1; i < len(words); i++ {
			if words[i] == words[i-1] {
				t.Errorf("%q is said twice:\n%s", words[i], c.said)
			}
		}
		for _, raw := range []string{"%!", "<nil>", "&value", "context deadline exceeded", "\nfatal"} {
			if strings.Contains(text, raw) {
				t.Errorf("%q stands in what people read:\n%s", raw, c.said)
			}
		}
	}
}

// all is all words of a complaint.
func (c *complaint) all() (message, fix string) {
	message, fix = c.Message+"\n"+c.Cause, c.Fix
	for _, p := range c.Problems {
		message += "\n" + p.Where + ": " + p.Message
		fix += "\n" + p.Fix
	}
	return message, fix
}

// fails runs plural, which has to fail in the form for programs, with nobody at its stdin.
func (o *operator) fails(code int, args ...string) *complaint {
	o.Helper()
	cmd := o.command(o.Context(), program(o, "plural"), append(args, "-o", "json")...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code {
		o.Fatalf("plural %s: %v, not exit code %d\n%s%s", strings.Join(args, " "), err, code, out.String(), said.String())
	}
	at := strings.LastIndex("\n"+said.String(), "\n{\n")
	var told struct{ Error complaint }
	if at < 0 || json.Unmarshal(said.Bytes()[at:], &told) != nil {
		o.Fatalf("plural %s: no error in JSON on stderr:\n%s", strings.Join(args, " "), said.String())
	}
	told.Error.said = said.String()
	told.Error.sound(o)
	return &told.Error
}

// says checks words of the message and of the fix.
func (c *complaint) says(t testing.TB, message, fix []string) {
	t.Helper()
	m, f := c.all()
	for _, want := range message {
		if !strings.Contains(m, want) {
			t.Errorf("%q is not told:\n%s", want, c.said)
		}
	}
	for _, want := range fix {
		if !strings.Contains(f, want) {
			t.Errorf("the fix is not %q:\n%s", want, c.said)
		}
	}
}

// bench installs a package that is to fail, one after it, and one that has nothing to do with them. More belongs to the
// package that fails: its dependencies.
func (w *world) bench(spec string, files map[string]string) {
	w.Helper()
	ns := w.cluster.Namespace
	w.install("bad", "  version: 1.0.0\n"+spec, files, nil)
	w.install("after", "  version: 1.0.0\n  dependencies: [{package: bad}]\n  steps: [{name: app, manifests: {path: app, namespace: "+ns+"}}]\n",
		map[string]string{"app/after.yaml": configMap("after", "is", "there")}, map[string]string{"bad": "bad"})
	w.install("aside", "  version: 1.0.0\n  steps: [{name: app, manifests: {path: app, namespace: "+ns+"}}]\n",
		map[string]string{"app/aside.yaml": configMap("aside", "is", "there")}, nil)
}

// module is a package of one terraform step.
func (w *world) module(text string) {
	w.bench("  steps: [{name: tf, terraform: {path: module}}]\n", map[string]string{"module/main.tf": text})
}

// manifests is a package of one step with one manifest.
func (w *world) manifests(text string) {
	w.bench("  steps: [{name: app, manifests: {path: app, namespace: "+w.cluster.Namespace+"}}]\n",
		map[string]string{"app/bad.yaml": text})
}

// set changes a variable of the operator's environment; empty takes it out. It returns what undoes that.
func (o *operator) set(name, value string) (undo func()) {
	was := o.env
	o.env = slices.DeleteFunc(slices.Clone(was), func(s string) bool { return strings.HasPrefix(s, name+"=") })
	if value != "" {
		o.env = append(o.env, name+"="+value)
	}
	return func() { o.env = was }
}

// bare is a PATH with what a deploy cannot do without.
func (o *operator) bare() string {
	o.Helper()
	dir := o.TempDir()
	for _, name := range []string{"git", "sh", "sed", "cat", "touch"} {
		path, err := exec.LookPath(name)
		if err != nil {
			o.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			o.Fatal(err)
		}
	}
	return dir
}

const something = "resource \"terraform_data\" \"it\" {}\n"

// fault is something that goes wrong in a deploy.
type fault struct {
	name string
	// breaks installs a bench in which it goes wrong, and returns what mends it.
	breaks func(w *world) (mend func())
	// message and fix are words that have to be told.
	message, fix []string
	// before says that nothing is begun: it is seen in time.
	before bool
	// stuck says that the package aside fails of the same cause.
	stuck bool
	// nowhere leaves the way to the cluster out.
	nowhere bool
	// mended are arguments of the deploy that works out.
	mended []string
}

func faults() []fault {
	return []fault{
		{
			name: "terraform is not there",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				named, path := w.set("PLURAL_TERRAFORM", ""), w.set("PATH", w.bare())
				_ = path
				return named
			},
			message: []string{"bad/tf", "terraform or tofu", "not on PATH"}, fix: []string{"install it", "PLURAL_TERRAFORM"}, before: true,
		},
		{
			name: "terraform is too old",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				old := filepath.Join(w.home, "terraform")
				if err := os.WriteFile(old, []byte("#!/bin/sh\necho Terraform v0.1.0\n"), 0o700); err != nil {
					w.Fatal(err)
				}
				return w.set("PLURAL_TERRAFORM", old)
			},
			message: []string{"bad/tf", "0.1.0", "asks for >=1.1"}, fix: []string{
				"install one in that range",
				"PLURAL_TERRAFORM",
			}, before: true,
		},
		{
			name: "the package asks for another terraform",
			breaks: func(w *world) func() {
				w.bench("  steps: [{name: tf, terraform: {path: module, version: \">=99\"}}]\n",
					map[string]string{"module/main.tf": something})
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/package.yaml", func(s string) string { return strings.Replace(s, ">=99", ">=1", 1) })
					w.commit("Ask for less")
				}
			},
			message: []string{"bad/tf", "asks for >=99"}, fix: []string{"install one in that range"}, before: true,
		},
		{
			name: "terraform would destroy",
			breaks: func(w *world) func() {
				w.module(something)
				w.install("aside", "  version: 0.9.0\n", nil, nil)
				w.commit("Install")
				w.deploy()
				w.module("resource \"terraform_data\" \"other\" {}\n")
				w.edit("packages/after/payload/app/after.yaml", func(s string) string { return s + "# more\n" })
				w.commit("Change")
				return func() {}
			},
			message: []string{"bad/tf", "would destroy terraform_data.it"}, fix: []string{"--allow-destroy"}, mended: []string{"--allow-destroy"},
		},
		{
			name: "no network, and a provider is to be fetched",
			breaks: func(w *world) func() {
				w.module("terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\" }\n  }\n}\n")
				w.commit("Install")
				off := w.set("HTTPS_PROXY", "http://127.0.0.1:1")
				return func() {
					off()
					w.edit("packages/bad/payload/module/main.tf", func(string) string { return something })
					w.commit("Ask for no provider")
				}
			},
			message: []string{"bad/tf", "hashicorp/aws", "tf.log)"}, fix: []string{"check the network"},
		},
		{
			name: "a module with a mistake",
			breaks: func(w *world) func() {
				w.module("\nresurce \"terraform_data\" \"it\" {}\n")
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/module/main.tf", func(string) string { return something })
					w.commit("Mend")
				}
			},
			message: []string{"bad/tf", "main.tf:2", `"resurce"`, "tf.log)"}, fix: []string{"run the command again"},
		},
		{
			name: "a chart that does not render",
			breaks: func(w *world) func() {
				w.bench("  steps: [{name: chart, helm: {path: chart, namespace: "+w.cluster.Namespace+"}}]\n", map[string]string{
					"chart/Chart.yaml": "apiVersion: v2\nname: bad\nversion: 1.0.0\n", "chart/values.yaml": "size: huge\n",
					"chart/templates/bad.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: bad\n  {{- if eq .Values.size \"huge\" }}{{ fail \"no such size\" }}{{ end }}\n",
				})
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/chart/values.yaml", func(string) string { return "size: small\n" })
					w.commit("Mend")
				}
			},
			message: []string{"bad/chart", "templates/bad.yaml:5", "no such size"}, fix: []string{"again"},
		},
		{
			name: "a manifest that the cluster refuses",
			breaks: func(w *world) func() {
				w.manifests("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndata: {count: 3}\n")
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/app/bad.yaml", func(string) string { return configMap("bad", "count", "3") })
					w.commit("Mend")
				}
			},
			message: []string{"bad/app", "cluster mgmt", "ConfigMap", "bad", "data"}, fix: []string{"correct the manifest"},
		},
		{
			name: "no way to the cluster",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				return func() {}
			},
			stuck: true, nowhere: true, message: []string{
				"after/app", "on cluster mgmt",
				"knows no way",
			}, fix: []string{"--context mgmt=CONTEXT"},
		},
		{
			name: "the cluster does not answer",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				return w.kubeconfigOf(clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}, clientcmdapi.AuthInfo{})
			},
			stuck: true, message: []string{"after/app", "cluster mgmt cannot be reached at https://127.0.0.1:1", "connection refused"},
			fix: []string{"see that it runs", "--context mgmt=CONTEXT"},
		},
		{
			name: "a person who may do little on the cluster",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				return w.kubeconfigOf(w.server(), clientcmdapi.AuthInfo{Token: w.token("nobody")})
			},
			stuck: true, message: []string{"after/app", "cluster mgmt refuses", "system:serviceaccount:", "cannot"},
			fix: []string{"use a context that may do this", "--context mgmt=CONTEXT"},
		},
		{
			name: "credentials that are no longer good",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				return w.kubeconfigOf(w.server(), clientcmdapi.AuthInfo{Token: "old"})
			},
			stuck: true, message: []string{
				"after/app", "cluster mgmt refuses",
				"credentials",
			}, fix: []string{"log in to the cluster again"},
		},
		{
			name: "the origin is away",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				w.run("mv", w.origin, w.origin+".away")
				return func() { w.run("mv", w.origin+".away", w.origin) }
			},
			message: []string{"record of deployments", "origin"}, fix: []string{"git ls-remote origin"}, before: true,
		},
		{
			name: "the origin goes away in the middle",
			breaks: func(w *world) func() {
				w.module(fmt.Sprintf("resource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" { command = \"mv %[1]s %[1]s.away\" }\n}\noutput \"id\" { value = 1 }\n", w.origin))
				w.commit("Install")
				return func() { w.run("mv", w.origin+".away", w.origin) }
			},
			message: []string{"bad/tf", "origin", "lock"}, fix: []string{"git ls-remote origin", "takes the lock over"},
		},
		{
			name: "the origin takes no records",
			breaks: func(w *world) func() {
				w.module(something)
				w.commit("Install")
				w.hook("pre-receive", "#!/bin/sh\ncase \"$(cat)\" in *refs/plural/*) echo 'only branches here' >&2; exit 1;; esac\n")
				return func() { w.run("rm", filepath.Join(w.origin, "hooks", "pre-receive")) }
			},
			message: []string{"refs/plural/deployments", "origin", "only branches here"}, fix: []string{"let its server take pushes to refs/plural/*"}, before: true,
		},
		{
			name: "the origin takes no commits",
			breaks: func(w *world) func() {
				w.module(something + "output \"id\" { value = 1 }\n")
				w.commit("Install")
				w.hook("pre-receive", "#!/bin/sh\ncase \"$(cat)\" in *refs/heads/*) echo 'main is protected' >&2; exit 1;; esac\n")
				return func() { w.run("rm", filepath.Join(w.origin, "hooks", "pre-receive")) }
			},
			stuck: true, message: []string{"bad/tf", "main is protected"}, fix: []string{"git push origin main"},
		},
		{
			name: "nothing is sealed, and a module has state",
			breaks: func(w *world) func() {
				w.module(something)
				w.run("git", "mv", ".plural", ".unsealed")
				w.commit("Install")
				return func() {
					w.run("git", "mv", ".unsealed", ".plural")
					w.commit("Seal")
				}
			},
			message: []string{"bad/tf", "state", "nothing is sealed"}, fix: []string{"plural crypto init"},
		},
		{
			name: "a question without an answer",
			breaks: func(w *world) func() {
				w.bench("  questions: [{name: domain, type: string, prompt: The domain}]\n  steps: [{name: tf, terraform: {path: module}}]\n", map[string]string{"module/main.tf": something})
				w.commit("Install")
				return func() {
					w.write("packages/bad/values.yaml", "domain: example.com\n")
					w.commit("Answer")
				}
			},
			message: []string{"bad", "domain"}, fix: []string{"plural package set bad", "domain="}, before: true,
		},
		{
			name: "packages that need each other",
			breaks: func(w *world) func() {
				w.module(something)
				w.edit("packages/bad/payload/package.yaml", func(s string) string { return s + "  dependencies: [{package: after}]\n" })
				w.edit("plural.lock", func(s string) string {
					return strings.Replace(s, "name: bad", "name: bad\n    requires: {after: after}", 1)
				})
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/package.yaml", func(s string) string {
						return strings.Replace(s,
							"  dependencies: [{package: after}]\n", "", 1)
					})
					w.edit("plural.lock", func(s string) string { return strings.Replace(s, "\n    requires: {after: after}", "", 1) })
					w.commit("Mend")
				}
			},
			message: []string{"after -> bad -> after"}, fix: []string{"plural package remove"}, before: true,
		},
		{
			name: "a package that cannot be read",
			breaks: func(w *world) func() {
				w.module(something)
				w.edit("packages/bad/payload/package.yaml", func(s string) string { return strings.Replace(s, "steps:", "stesp:", 1) })
				w.commit("Install")
				return func() {
					w.edit("packages/bad/payload/package.yaml", func(s string) string { return strings.Replace(s, "stesp:", "steps:", 1) })
					w.commit("Mend")
				}
			},
			message: []string{"packages/bad/payload/package.yaml:6", "stesp"}, fix: []string{"steps"}, before: true,
		},
	}
}

// kubeconfigOf has the operator reach another cluster, or as somebody else. It returns what undoes that.
func (w *world) kubeconfigOf(cluster clientcmdapi.Cluster, user clientcmdapi.AuthInfo) (undo func()) {
	w.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"] = &cluster, &user
	config.Contexts["kubetest"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "kubetest"
	was := w.kubeconfig
	w.kubeconfig = filepath.Join(w.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		w.Fatal(err)
	}
	return func() { w.kubeconfig = was }
}

// server is the API server, without anybody's credentials.
func (w *world) server() clientcmdapi.Cluster {
	c := w.cluster.RESTConfig
	return clientcmdapi.Cluster{Server: c.Host, CertificateAuthority: c.CAFile, CertificateAuthorityData: c.CAData}
}

// token is that of a new service account, which may do nothing.
func (w *world) token(name string) string {
	w.Helper()
	accounts := w.cluster.Dynamic.Resource(schema.GroupVersionResource{
		Version:  "v1",
		Resource: "serviceaccounts",
	}).Namespace(w.cluster.Namespace)
	account := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"name": name},
	}}
	if _, err := accounts.Create(w.Context(), account, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	asked := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
	}}
	given, err := accounts.Create(w.Context(), asked, metav1.CreateOptions{}, "token")
	if err != nil {
		w.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(given.Object, "status", "token")
	return token
}

func TestWhatGoesWrongIsToldWithItsFixAndTheNextDeployGoesOn(t *testing.T) {
	needs.Terraform(t)
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			w := newWorld(t)
			mend := f.breaks(w)
			args := []string{"deploy", "--yes"}
			if !f.nowhere {
				args = append(args, w.reach()...)
			} else {
				defer w.set("KUBECONFIG", filepath.Join(w.home, "none"))()
			}
			c := w.fails(1, args...)
			c.says(t, f.message, f.fix)
			if begun := strings.Contains(c.said, "started  "); begun == f.before {
				t.Errorf("begun: %v\n%s", begun, c.said)
			}
			mend()
			got := done(w.deploy(f.mended...))
			if again := slices.Contains(got, "run aside/app"); again != (f.before || f.stuck) {
				t.Errorf("the package that has nothing to do with it: %v", got)
			}
			if !slices.Contains(got, "run after/app") {
				t.Errorf("after the mending: %v", got)
			}
			for _, name := range []string{"after", "aside"} {
				if w.data(name)["is"] != "there" {
					t.Errorf("%s is not there", name)
				}
			}
			if got := done(w.deploy()); len(got) != 0 {
				t.Errorf("a third deploy does %v", got)
			}
			if status := w.run("git", "status", "--porcelain"); status != "" {
				t.Errorf("the work tree is not clean:\n%s", status)
			}
		})
	}
}

func TestWithoutTerraformAPackageThatNeedsNoneIsDeployedByItsName(t *testing.T) {
	w := newWorld(t)
	w.module(something)
	w.commit("Install")
	w.set("PLURAL_TERRAFORM", "")
	w.set("PATH", w.bare())
	if got := done(w.deploy("aside")); !slices.Equal(got, []string{"run aside/app"}) {
		t.Error(got)
	}
}

func TestASecondDeployIsToldWhoHasTheLockAndOneOfADeadRunIsTakenAway(t *testing.T) {
	w := newWorld(t)
	trace := w.diamond()
	m := inTerraform()
	come := m.arm(w)
	other := w.second()
	cmd := other.command(context.WithoutCancel(t.Context()), program(t, "plural"),
		append([]string{"deploy", "--yes"}, other.reach()...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "terraform is at work", come)
	args := append([]string{"deploy", "--yes"}, w.reach()...)
	c := w.fails(1, args...)
	c.says(t, []string{"ada <ada@example.com> has locked the fleet since 20", `for "plural deploy"`, fmt.Sprintf("process %d", cmd.Process.Pid)},
		[]string{"wait for it to end", "plural deploy --unlock "})
	w.fails(1, "deploy", "--unlock", "another").says(t, []string{"ada <ada@example.com> has locked the fleet since 20"},
		[]string{"--unlock "})

	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	m.after(w)
	c = w.fails(1, args...)
	c.says(t, []string{"that process is gone"}, []string{
		"run the command in the clone where that process ran",
		"plural deploy --unlock ",
	})
	_, id, _ := strings.Cut(c.Fix, "--unlock ")
	w.plural("deploy", "--unlock", id)
	w.deploy()
	w.check("10.0.0.0/8")
	if got := w.traced(trace); len(got) > 2 { // a resource whose provisioner was at work is made anew
		t.Errorf("terraform made %v", got)
	}
}

func TestAStateThatAnotherTerraformHasLockedTellsWhoHasIt(t *testing.T) {
	w := newWorld(t)
	hold, state := filepath.Join(w.home, "hold"), filepath.Join(w.home, "shared.tfstate")
	module := fmt.Sprintf("terraform {\n  backend \"local\" { path = %q }\n}\nresource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" { command = %q }\n}\n",
		state, held(hold))
	w.module(module)
	w.commit("Install")
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "main.tf"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := needs.Terraform(t)
	w.run(tool, "-chdir="+elsewhere, "init")
	w.touch(hold)
	live := w.command(context.WithoutCancel(t.Context()), tool, "-chdir="+elsewhere, "apply", "-auto-approve")
	if err := live.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "terraform is at work", func() bool { return w.exists(hold + ".come") })
	c := w.fails(1, append([]string{"deploy", "--yes"}, w.reach()...)...)
	c.says(t, []string{"bad/tf", "lock terraform state", "holds it since 20", "apply, lock "},
		[]string{"wait for it", "plural deploy --terraform-unlock "})
	if w.data("aside")["is"] != "there" {
		t.Error("the package that has nothing to do with it was not deployed")
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if err := live.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := done(w.deploy()); !slices.Equal(got, []string{"run after/app", "run bad/tf"}) {
		t.Error(got)
	}
}

func TestACloneWithoutKeysIsToldWhatItLacks(t *testing.T) {
	w := newWorld(t)
	w.diamond()
	w.deploy()
	home := t.TempDir()
	o := &operator{TB: t, home: home, dir: filepath.Join(home, "fleet"), origin: w.origin, kubeconfig: w.kubeconfig}
	o.settle("ci")
	o.run("git", "clone", "--quiet", w.origin, o.dir)
	c := o.fails(1, append([]string{"deploy", "--yes"}, o.reach()...)...)
	c.says(t, []string{"outputs.secret.yaml"}, []string{"plural crypto"})
}

func TestDeletionsThatWaitForAnotherPackageAreNotForgotten(t *testing.T) {
	w := newWorld(t)
	w.manifests(configMap("bad", "is", "there"))
	w.edit("packages/aside/payload/app/aside.yaml", func(s string) string {
		return s + "---\n" + configMap("surplus", "is",
			"there")
	})
	w.commit("Install")
	w.deploy()
	w.edit("packages/aside/payload/app/aside.yaml", func(s string) string { s, _, _ = strings.Cut(s, "---\n"); return s })
	w.edit("packages/bad/payload/app/bad.yaml", func(s string) string { return strings.Replace(s, `"there"`, "3", 1) })
	w.commit("Take an object out, and break another package")
	w.fails(1, append([]string{"deploy", "--yes"}, w.reach()...)...)
	w.data("surplus") // it may be what the other package takes over
	w.edit("packages/bad/payload/app/bad.yaml", func(s string) string { return strings.Replace(s, "3", `"here"`, 1) })
	w.commit("Mend")
	w.deploy()
	if w.has("surplus") {
		t.Error("it is still there")
	}
	if got := done(w.deploy()); len(got) != 0 {
		t.Errorf("a third deploy does %v", got)
	}
}

// has says whether the test's namespace has a ConfigMap.
func (w *world) has(name string) bool {
	_, err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Get(w.Context(), name, metav1.GetOptions{})
	return err == nil
}

func TestADownThatCannotGoOnListsWhatIsLeftAndTheNextGoesOn(t *testing.T) {
	w := newWorld(t)
	w.manifests("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad, finalizers: [example.com/nobody]}\n")
	w.install("kept", "  version: 1.0.0\n  steps: [{name: app, manifests: {path: app, namespace: "+w.cluster.Namespace+"}}]\n",
		map[string]string{"app/kept.yaml": configMap("kept", "is", "there")}, nil)
	w.edit("packages/kept/package.yaml", func(s string) string { return s + "spec: {protected: true}\n" })
	w.commit("Install")
	w.deploy()
	down := append([]string{"down", "--timeout", "20s"}, w.reach()...)

	w.fails(1, down...).says(t, []string{"--confirm"}, []string{"--confirm"})
	w.fails(1, append(down, "--confirm", "fleece")...).says(t, []string{"fleece"}, []string{"--confirm=fleet"})
	if !w.has("after") {
		t.Fatal("something went though nobody agreed")
	}
	c := w.fails(8, append(down, "--confirm", "fleet")...)
	c.says(t, []string{"20s", "bad/app", "cluster mgmt", "ConfigMap", "/bad", "finalizers", "example.com/nobody"},
		[]string{"finalizers", "again"})
	if !strings.Contains(c.said, "kept/app (service): protected") {
		t.Errorf("that a package stays is not told:\n%s", c.said)
	}
	if w.has("aside") || w.has("after") || !w.has("kept") {
		t.Error("of the others not those went that should")
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Patch(t.Context(), "bad", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	out := w.plural(append(down, "--confirm", "fleet", "-o", "json")...)
	if !strings.Contains(out, `"bad/app"`) || strings.Contains(out, `"aside/app"`) || w.has("bad") || !w.has("kept") {
		t.Errorf("the second down: %s", out)
	}
}

func TestWhereNobodyCanBeAskedTheErrorNamesTheFlag(t *testing.T) {
	w := newWorld(t)
	w.module(something)
	w.commit("Install")
	w.install("asking", `  version: 1.0.0
  questions:
  - {name: domain, type: string, prompt: The domain}
  - {name: size, type: enum, options: [small, large], prompt: The size}
  - {name: key, type: secret, prompt: The key}
  - {name: replicas, type: int, default: 1}
`, nil, nil)
	// A catalog of this repo's own origin has it.
	w.run("mv", "packages/asking/payload", "catalog-asking")
	w.run("git", "checkout", "--quiet", "plural.lock")
	w.run("rm", "-r", "packages/asking")
	w.run("mkdir", "catalog")
	w.run("mv", "catalog-asking", "catalog/asking")
	w.write("sources/own.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: own}\nspec:\n  git: {url: \"file://"+w.origin+"\", ref: main}\n")
	w.edit("plural.yaml", func(s string) string { return s + "  catalogs: [{name: own, source: own, path: catalog}]\n" })
	w.commit("Have a catalog")
	for name, tt := range map[string]struct {
		args, message, fix []string
	}{
		"deploy": {append([]string{"deploy"}, w.reach()...), []string{"nobody can be asked"}, []string{"--yes"}},
		"down":   {append([]string{"down"}, w.reach()...), nil, nil},
		"package add": {
			[]string{"package", "add", "asking", "--yes"},
			[]string{"domain", "size", "key"},
			[]string{"--set domain=", "--set size=", "--answers"},
		},
		"up without its flags": {
			[]string{"up", filepath.Join(w.home, "new"), "--context", "kubetest", "--kubeconfig", w.kubeconfig},
			[]string{"--hub-url", "--repo-url"},
			[]string{"--hub-url", "--repo-url"},
		},
		"up to no such context": {
			[]string{"up", filepath.Join(w.home, "new"), "--context", "nowhere", "--kubeconfig", w.kubeconfig},
			[]string{"nowhere"},
			[]string{"kubetest"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := *w.operator
			o.TB = t
			if tt.message == nil { // nothing is deployed: nothing to ask
				if out, said, err := o.try(program(t, "plural"), tt.args...); err != nil {
					t.Errorf("%v\n%s%s", err, out, said)
				}
				return
			}
			o.fails(1, tt.args...).says(t, tt.message, tt.fix)
			if w.exists(filepath.Join(w.home, "new")) {
				t.Error("something was made")
			}
		})
	}
}

func TestACatalogWhoseRegistryIsAwayIsNamed(t *testing.T) {
	w := newWorld(t)
	w.write("sources/own.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: own}\nspec:\n  oci: {url: \"oci://127.0.0.1:1/packages\"}\n")
	w.edit("plural.yaml", func(s string) string { return s + "  catalogs: [{name: own, source: own}]\n" })
	w.commit("Have a catalog")
	w.fails(1, "package", "add", "redis", "--yes").says(t, []string{"own", "127.0.0.1:1", "connection refused"},
		[]string{"reachable from here"})
}
