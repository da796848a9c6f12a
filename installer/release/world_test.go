package release_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"filippo.io/age"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/health/lua"
	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/installer/release"
	"github.com/pluralsh/plural/test/support/faultproxy"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// The test binary is its own children, as the product's binary is, and in one test a whole installer that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "render-child":
			os.Exit(render.ChildMain(os.Stdin, os.Stdout))
		case "health-child":
			os.Exit(lua.ChildMain(os.Stdin, os.Stdout))
		case "installer":
			os.Exit(installer(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

const (
	clusterName  = "edge-1"
	repositoryID = "3f0c0123456789abcdef0123456789ab"
	password     = "hunter2-of-the-test"
)

// world is an installation repo of one cluster, a real API server behind a proxy, and a way into it.
type world struct {
	*testing.T
	kube    *kubetest.Cluster
	proxy   *faultproxy.Proxy
	cluster *release.Cluster
	root    string
	// id tells this world's names in the cluster from those of others.
	id      string
	keys    *crypto.AgentIdentity
	person  *age.X25519Identity
	options release.Options
	told    []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	needs.Program(t, "git", "your system's packages")
	kube := kubetest.Start(t)
	proxy, err := faultproxy.New(t.Context(), kube.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	w := &world{T: t, kube: kube, proxy: proxy, root: t.TempDir(), id: kube.Namespace[strings.LastIndexByte(kube.Namespace, '-')+1:]}
	w.options = release.Options{Timeout: time.Minute, Patience: 3 * time.Second, Grace: time.Second}
	if w.keys, err = crypto.NewAgentIdentity(); err != nil {
		t.Fatal(err)
	}
	if w.person, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.sweep)
	w.git("init", "-q", "-b", "main")
	w.git("config", "user.name", "Ada")
	w.git("config", "user.email", "ada@example.com")
	w.write("plural.yaml", document("Workspace", "demo", "{}"))
	w.raw("clusters/edge-1.yaml", []byte(document("Cluster", clusterName, // write might find NS or ID in a key
		fmt.Sprintf("{agent: {auth: %q, age: %q}}", w.keys.Public().Auth, w.keys.Public().Age))))
	w.connect()
	return w
}

func document(kind, name, spec string) string {
	return fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: %s\n", kind, name, spec)
}

// connect is another process's way into the cluster, in place of the one before.
func (w *world) connect() {
	w.Helper()
	if w.cluster != nil {
		w.cluster.Close()
	}
	var err error
	if w.cluster, err = release.Connect(clusterName, w.proxy.Config(), w.options); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.cluster.Close)
}

func (w *world) git(args ...string) {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "git", args...)
	cmd.Dir = w.root
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// write puts a file into the work tree. NS in it is the test's namespace, ID what tells its names from those of others.
func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.NewReplacer("NS", w.kube.Namespace, "ID", w.id).Replace(text)), 0o644); err != nil {
		w.Fatal(err)
	}
}

// service writes a service of the cluster, and commits all there is.
func (w *world) service(name, spec string) {
	w.Helper()
	w.write("services/"+name+".yaml", document("Service", w.name(name),
		strings.Replace(spec, "{", "{clusters: {names: [edge-1]}, ", 1)))
}

// name is a service's in the cluster.
func (w *world) name(service string) string { return service + "-" + w.id }

func (w *world) commit() {
	w.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", "Change")
}

// register writes down who the cluster's agent is.
func (w *world) register(hub string) {
	w.Helper()
	err := identity.Write(w.Context(), w.kube.Dynamic, identity.Registration{
		Cluster: clusterName, HubURL: hub, Identity: w.keys, Repository: repositoryID,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { w.unregister() })
}

func (w *world) unregister() {
	secret := w.kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(identity.Namespace)
	if err := secret.Delete(context.WithoutCancel(w.Context()), identity.SecretName, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		w.Error(err)
	}
}

// seals makes a policy by which the cluster and the person open what is below secrets/, and seals a file there.
func (w *world) seals(name, text string) {
	w.Helper()
	w.write(".plural/seal.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: "+repositoryID+
		"\n  paths:\n  - {pattern: \"secrets/**\", groups: [fleet]}\n")
	w.write(".plural/members/ada.txt", w.person.Recipient().String()+"\n")
	set, err := groups.Load(fstest.MapFS{".plural/members/ada.txt": {Data: []byte(w.person.Recipient().String() + "\n")}})
	if err != nil {
		w.Fatal(err)
	}
	changes, err := set.Create(repositoryID, "fleet", []groups.Member{{Kind: groups.Person, Name: "ada"}, {Kind: groups.Cluster, Name: clusterName}},
		groups.CreateOptions{ClusterKey: func(string) (string, error) { return w.keys.Public().Age, nil }})
	if err == nil {
		set, err = set.With(changes)
	}
	if err != nil {
		w.Fatal(err)
	}
	for file, data := range changes {
		w.raw(file, data)
	}
	group, _ := set.Group("fleet")
	data, err := seal.Seal([]byte(text),
		seal.Binding{Repository: repositoryID, Path: name, Groups: []seal.Epoch{{Group: "fleet", Number: group.Epoch}}}, group.Recipient.Recipient)
	if err != nil {
		w.Fatal(err)
	}
	w.raw(name, data)
}

func (w *world) raw(name string, data []byte) {
	w.Helper()
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		w.Fatal(err)
	}
}

// one is the only repository there is.
type one struct{ files *snapshot.Snapshot }

func (o one) Snapshot(string, string) (*snapshot.Snapshot, error) { return o.files, nil }

// deployments are what the last commit asks of the cluster, in the order of their names, with what renders them.
func deployments(root string, person age.Identity) ([]resolve.Deployment, *preview.Renderer, error) {
	snap, err := snapshot.Open(root, "HEAD")
	if err != nil {
		return nil, nil, err
	}
	f, err := fleet.Load(snap.FS())
	if err != nil {
		return nil, nil, err
	}
	list, err := resolve.For(f, clusterName, one{snap})
	if err != nil {
		return nil, nil, err
	}
	renderer, err := preview.New(snap, func() ([]age.Identity, error) { return []age.Identity{person}, nil })
	return list, renderer, err
}

func (w *world) wanted() ([]resolve.Deployment, *preview.Renderer) {
	w.Helper()
	list, renderer, err := deployments(w.root, w.person)
	if err != nil {
		w.Fatal(err)
	}
	return list, renderer
}

// deployment commits, and returns the one of a service.
func (w *world) deployment(service string) (*resolve.Deployment, *preview.Renderer) {
	w.Helper()
	w.commit()
	list, renderer := w.wanted()
	at := slices.IndexFunc(list, func(d resolve.Deployment) bool { return d.Service == w.name(service) })
	if at < 0 {
		w.Fatalf("no service %s", service)
	}
	return &list[at], renderer
}

func (w *world) tell(text string) { w.told = append(w.told, text) }

// apply brings a service in.
func (w *world) apply(service string) (*release.Outcome, error) {
	w.Helper()
	d, renderer := w.deployment(service)
	return w.cluster.Apply(w.Context(), d, renderer, w.tell)
}

func (w *world) mustApply(service string) *release.Outcome {
	w.Helper()
	outcome, err := w.apply(service)
	if err != nil {
		w.Fatalf("%v\n%s", err, strings.Join(w.told, "\n"))
	}
	return outcome
}

// writes are the requests that came through the proxy and ask for a change, beyond the first ones.
func (w *world) writes(proxy *faultproxy.Proxy, beyond int) (list []string) {
	for _, r := range proxy.Requests()[beyond:] {
		if r.Method != http.MethodGet && r.Method != faultproxy.Watch && !strings.Contains(r.Path, "accessreviews") && !strings.Contains(r.Path, "tokenreviews") {
			list = append(list, r.Method+" "+r.Path)
		}
	}
	return list
}

func gvr(group, version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
}

// of is one kind in the test's namespace, past the proxy.
func (w *world) of(group, resource string) dynamic.ResourceInterface {
	return w.kube.Dynamic.Resource(gvr(group, "v1", resource)).Namespace(w.kube.Namespace)
}

func (w *world) create(group, resource, text string) {
	w.Helper()
	if _, err := w.of(group, resource).Create(w.Context(), w.object(text), metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) object(text string) *unstructured.Unstructured {
	w.Helper()
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("NS", w.kube.Namespace, "ID", w.id).Replace(text)), &object.Object); err != nil {
		w.Fatal(err)
	}
	return object
}

// sweep removes what does not go with the test's namespace: inventories, definitions, other namespaces.
func (w *world) sweep() {
	ctx := context.WithoutCancel(w.Context())
	for _, resource := range []schema.GroupVersionResource{gvr("", "v1", "configmaps"), gvr("apiextensions.k8s.io", "v1", "customresourcedefinitions"), gvr("", "v1", "namespaces")} {
		all := w.kube.Dynamic.Resource(resource)
		list, err := all.List(ctx, metav1.ListOptions{})
		if err != nil {
			w.Error(err)
			continue
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !strings.Contains(o.GetName(), w.id) || o.GetName() == w.kube.Namespace || o.GetNamespace() == w.kube.Namespace {
				continue
			}
			var in dynamic.ResourceInterface = all
			if o.GetNamespace() != "" {
				in = all.Namespace(o.GetNamespace())
			}
			if err := in.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				w.Error(err)
			}
		}
	}
}

func (w *world) eventually(what string, yes func() bool) {
	w.Helper()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	w.Fatalf("never: %s", what)
}

// chart is one with a definition, an object of it, hooks, and templates that ask what the cluster can do.
func (w *world) chart(at string) {
	w.write(at+"/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n")
	w.write(at+"/values.yaml", "color: red\n")
	w.write(at+"/crds/things.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.ID.example.com}
spec:
  group: ID.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`)
	w.write(at+"/templates/thing.yaml", "apiVersion: ID.example.com/v1\nkind: Thing\nmetadata: {name: one}\nspec: {color: {{ .Values.color }}}\n")
	w.write(at+"/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\n"+
		"data: {version: {{ .Capabilities.KubeVersion.Version }}, things: '{{ .Capabilities.APIVersions.Has \"ID.example.com/v1\" }}'}\n")
	w.write(at+"/templates/web.yaml", web("chart"))
	for _, hook := range []string{"pre-install,pre-upgrade", "post-install"} {
		name, _, _ := strings.Cut(hook, ",")
		w.write(at+"/templates/"+name+".yaml", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: "+name+", annotations: {helm.sh/hook: '"+hook+"'}}\n"+
			"spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: main}]}}}\n")
	}
}

func web(name string) string {
	return `apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `}
spec:
  replicas: 1
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: {labels: {app: ` + name + `}}
    spec: {containers: [{name: main, image: main}]}
`
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
