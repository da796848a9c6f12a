package packages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// diamond installs a network made by terraform, a chart and a service upon it, and an application upon both, which reads what
// they gave. Each terraform apply leaves a line in the file trace.
func (w *world) diamond() (trace string) {
	w.Helper()
	trace = filepath.Join(w.home, "trace")
	ns := w.cluster.Namespace
	w.install("net", `  version: 1.0.0
  steps:
  - name: network
    terraform: {path: module, inputs: {trace: `+trace+`, cidr: 10.0.0.0/8}}
  outputs: {id: {value: "${steps.network.outputs.id}"}, key: {value: "${steps.network.outputs.key}", secret: true}}
`, map[string]string{"module/main.tf": `variable "trace" { type = string }
variable "cidr" { type = string }
resource "terraform_data" "network" {
  input = var.cidr
  provisioner "local-exec" { command = "echo ${var.cidr} >> '${var.trace}'" }
}
output "id" { value = "net-${var.cidr}" }
output "key" {
  value     = "s3cr3t-${var.cidr}"
  sensitive = true
}
`}, nil)
	w.install("left", `  version: 1.0.0
  dependencies: [{package: net}]
  steps:
  - name: chart
    helm: {path: chart, namespace: `+ns+`, values: {id: "${packages.net.outputs.id}", key: "${packages.net.outputs.key}"}}
`, map[string]string{
		"chart/Chart.yaml":          "apiVersion: v2\nname: left\nversion: 1.0.0\n",
		"chart/values.yaml":         "id: none\nkey: none\n",
		"chart/templates/left.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: left}\ndata: {id: {{ .Values.id | quote }}, key: {{ .Values.key | quote }}}\n",
	}, map[string]string{"net": "net"})
	w.install("right", `  version: 1.0.0
  dependencies: [{package: net}]
  steps:
  - name: app
    service: {spec: {source: {path: app}, namespace: `+ns+`, parameters: {id: "${packages.net.outputs.id}"}}}
  - name: ready
    needs: [app]
    wait: {timeout: 1m, object: {apiVersion: v1, kind: ConfigMap, namespace: `+ns+`, name: right, condition: "object.data.id != ''", outputs: {seen: "object.data.id"}}}
  outputs: {seen: {value: "${steps.ready.outputs.seen}"}}
`, map[string]string{"app/right.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: right}\ndata: {id: {{ .parameters.id | quote }}}\n"},
		map[string]string{"net": "net"})
	w.install("top", `  version: 1.0.0
  dependencies: [{package: left}, {package: right}]
  steps:
  - name: app
    manifests: {path: app, namespace: `+ns+`, parameters: {seen: "${packages.right.outputs.seen}"}}
`, map[string]string{"app/top.yaml.tmpl": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: top}\ndata: {seen: {{ .parameters.seen | quote }}}\n"},
		map[string]string{"left": "left", "right": "right"})
	w.commit("Install a diamond")
	return trace
}

// data is what a ConfigMap of the test's namespace holds.
func (w *world) data(name string) map[string]string {
	w.Helper()
	object, err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	return data
}

// traced are the lines that terraform left.
func (w *world) traced(trace string) []string {
	w.Helper()
	text, err := os.ReadFile(trace)
	if err != nil {
		w.Fatal(err)
	}
	return strings.Fields(string(text))
}

func (w *world) check(cidr string) {
	w.Helper()
	id := "net-" + cidr
	for name, want := range map[string]map[string]string{
		"left": {"id": id, "key": "s3cr3t-" + cidr}, "right": {"id": id}, "top": {"seen": id},
	} {
		if diff := cmp.Diff(want, w.data(name)); diff != "" {
			w.Errorf("%s: %s", name, diff)
		}
	}
}

var everyStep = []string{"run left/chart", "run net/network", "run right/app", "run right/ready", "run top/app"}

func TestADiamondOfPackagesIsDeployedInOrderAndOnce(t *testing.T) {
	w := newWorld(t)
	trace := w.diamond()
	if got := done(w.deploy()); !slices.Equal(got, everyStep) {
		t.Fatal(got)
	}
	w.check("10.0.0.0/8")

	refs, head := w.run("git", "ls-remote", w.origin), w.run("git", "rev-parse", "HEAD")
	if got := done(w.deploy()); len(got) != 0 {
		t.Errorf("without a change: %v", got)
	}
	if now := w.run("git", "ls-remote", w.origin); now != refs || w.run("git", "rev-parse", "HEAD") != head {
		t.Errorf("a deploy without changes wrote:\n%s%s", refs, now)
	}

	w.edit("packages/net/payload/package.yaml", func(s string) string { return strings.ReplaceAll(s, "10.0.0.0/8", "10.1.0.0/16") })
	w.commit("Change the network")
	if got := done(w.deploy("--allow-destroy")); !slices.Equal(got, everyStep) {
		t.Error(got)
	}
	w.check("10.1.0.0/16")
	if got := w.traced(trace); !slices.Equal(got, []string{"10.0.0.0/8"}) { // an input that changes is an update, which provisions nothing
		t.Errorf("terraform made %v", got)
	}

	w.edit("packages/top/payload/app/top.yaml.tmpl", func(s string) string {
		return strings.Replace(s, "\ndata: {",
			"\ndata: {more: \"yes\", ", 1)
	})
	w.commit("Change the top")
	if got := done(w.deploy()); !slices.Equal(got, []string{"run top/app"}) {
		t.Error(got)
	}
}

func TestSecretsOfOutputsAreNowhereInClear(t *testing.T) {
	w := newWorld(t)
	w.diamond()
	w.deploy()
	objects := w.run("git", "--git-dir", w.origin, "cat-file", "--batch-all-objects", "--batch", "--buffer")
	if strings.Contains(objects, "s3cr3t-10.0.0.0/8") {
		t.Error("a secret output lies in git in clear")
	}
	state := filepath.Join(w.home, ".state")
	err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is readable by others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsRemovedFromTheRepoIsTakenDownInReverse(t *testing.T) {
	w := newWorld(t)
	w.diamond()
	w.deploy()
	w.run("git", "rm", "-rq", "packages/top", "packages/right")
	w.commit("Remove two packages")
	if got := done(w.deploy()); !slices.Equal(got, []string{"remove right/app", "remove right/ready", "remove top/app"}) {
		t.Error(got)
	}
	for _, name := range []string{"top", "right"} {
		if _, err := w.cluster.Dynamic.Resource(configMaps).Namespace(w.cluster.Namespace).Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	w.check10()
}

// check10 checks what the removal had to leave.
func (w *world) check10() {
	w.Helper()
	if got := w.data("left")["id"]; got != "net-10.0.0.0/8" {
		w.Errorf("left: %s", got)
	}
}

func TestADryRunSaysWhatTerraformWouldDoAndDoesNothing(t *testing.T) {
	w := newWorld(t)
	trace := w.diamond()
	refs := w.run("git", "ls-remote", w.origin)
	var planned struct {
		Steps []struct {
			ID, Action string
			Terraform  *struct{ Add, Change, Destroy int }
		}
	}
	out := w.plural(append([]string{"deploy", "--dry-run", "-o", "json"}, w.reach()...)...)
	if err := json.Unmarshal([]byte(out), &planned); err != nil {
		t.Fatal(err)
	}
	if len(planned.Steps) != 5 || planned.Steps[0].Terraform == nil || planned.Steps[0].Terraform.Add != 1 {
		t.Errorf("%s", out)
	}
	if w.exists(trace) || w.run("git", "ls-remote", w.origin) != refs {
		t.Error("a dry run did something")
	}
	left, err := filepath.Glob(filepath.Join(w.home, ".state", "plural", "deploy", "*", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// Each of two modules waits until the other one is at work as well: one after the other, neither would come to its end.
func TestPackagesThatDoNotNeedEachOtherAreDeployedSideBySide(t *testing.T) {
	w := newWorld(t)
	meet := func(mine, other string) map[string]string {
		return map[string]string{"module/main.tf": `resource "terraform_data" "x" {
  provisioner "local-exec" { command = "touch ` + w.home + "/" + mine + "; while [ ! -e " + w.home + "/" + other + ` ]; do sleep 0.05; done" }
}
`}
	}
	const spec = "  version: 1.0.0\n  steps: [{name: tf, terraform: {path: module}}]\n"
	w.install("one", spec, meet("one.here", "two.here"), nil)
	w.install("two", spec, meet("two.here", "one.here"), nil)
	w.commit("Install two that wait for each other")
	if got := done(w.deploy()); !slices.Equal(got, []string{"run one/tf", "run two/tf"}) {
		t.Error(got)
	}
}
