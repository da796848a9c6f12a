package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/test/support/needs"
)

// site is a fleet of one cluster, with what people use beside plural.
type site struct {
	*local
	objects dynamic.Interface
	// fleet is the test that the fleet lives as long as.
	fleet *testing.T
}

const (
	// only is the cluster that there is.
	only = "mgmt"
	// namespace is where service() puts things.
	namespace = "demo"
	// scaler is who changes what services own.
	scaler = "kubectl-scale"
)

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodes = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// oneCluster brings up a fleet of one cluster.
func oneCluster(t *testing.T) *site {
	t.Helper()
	l := alone(t)
	t.Cleanup(func() { l.dump(); l.run("down", "--yes", l.repo) })
	t.Log(l.run("up", "--local", "--port", port, "--clusters", only, l.repo))
	l.hub = l.manifestField("url")
	return &site{l, l.kube(only), t}
}

// deploy commits files, brings them to the hub, and returns the commit.
func (s *site) deploy(message string, files map[string]string) string {
	s.t.Helper()
	s.write(files)
	commit := s.push(message)
	s.run("source", "sync", ".")
	return commit
}

// deployment is what the hub says of a service's one deployment; nil when it knows no such service.
func (s *site) deployment(name string) (*v1.Deployment, string) {
	s.t.Helper()
	var got v1.Service
	if !s.ask("/v1/services/"+name, &got) {
		return nil, ""
	}
	if len(got.Deployments) != 1 {
		return nil, ""
	}
	return &got.Deployments[0], got.Commit
}

// becomes waits until a service that is made of the newest commit is as it should be, and returns it.
func (s *site) becomes(name, what string, yes func(*v1.Deployment) bool) *v1.Deployment {
	s.t.Helper()
	commit := s.git("rev-parse", "HEAD")
	var d *v1.Deployment
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s is %+v", name, d)
		}
	}()
	s.eventually(name+" "+what, timeout, func() bool {
		var of string
		d, of = s.deployment(name)
		return d != nil && of == commit && yes(d)
	})
	return d
}

// healthy waits until services run what the newest commit says.
func (s *site) healthy(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.becomes(name, "is healthy", func(d *v1.Deployment) bool { return d.Phase == v1.Healthy && d.AppliedKey == d.Key })
	}
}

// says checks what a program printed.
func (s *site) says(out string, want ...string) {
	s.t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			s.t.Errorf("%q is missing in\n%s", w, out)
		}
	}
}

// get is a live object, or nil.
func (s *site) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	object, err := s.objects.Resource(resource).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return object
}

// field is a field of a live object, as text; empty when it is not there.
func (s *site) field(resource schema.GroupVersionResource, name string, path ...string) string {
	object := s.get(resource, name)
	if object == nil {
		return ""
	}
	value, ok, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if !ok || err != nil {
		return ""
	}
	return fmt.Sprint(value)
}

// count is how many live objects a service has.
func (s *site) count(resource schema.GroupVersionResource, service string) int {
	s.t.Helper()
	list, err := s.objects.Resource(resource).List(context.Background(), metav1.ListOptions{LabelSelector: "plural.sh/service=" + service})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list.Items)
}

// patch changes a live object, as somebody else would.
func (s *site) patch(resource schema.GroupVersionResource, name, change string, subresources ...string) {
	s.t.Helper()
	_, err := s.objects.Resource(resource).Namespace(namespace).Patch(context.Background(), name, types.MergePatchType, []byte(change),
		metav1.PatchOptions{FieldManager: scaler}, subresources...)
	if err != nil {
		s.t.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

// make makes an object by hand.
func (s *site) make(resource schema.GroupVersionResource, in, text string) {
	s.t.Helper()
	object := new(unstructured.Unstructured)
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		s.t.Fatal(err)
	}
	options := metav1.CreateOptions{FieldManager: "somebody"}
	if _, err := s.objects.Resource(resource).Namespace(in).Create(context.Background(), object, options); err != nil {
		s.t.Fatal(err)
	}
}

// behind puts a program of this machine at the address of a pod that nobody runs, and returns the pod's manifest, and its port.
func (s *site) behind(pod string, handler http.Handler) (manifest string, port int, start func()) {
	s.t.Helper()
	address := needs.Address(s.t)
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		s.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	s.t.Cleanup(server.Close)
	s.make(nodes, "", "{apiVersion: v1, kind: Node, metadata: {name: nobody}}")
	_, text, _ := net.SplitHostPort(listener.Addr().String())
	_, _ = fmt.Sscan(text, &port)
	manifest = "{apiVersion: v1, kind: Pod, metadata: {name: " + pod + ", labels: {app: " + pod + "}}, " +
		"spec: {nodeName: nobody, terminationGracePeriodSeconds: 0, containers: [{name: main, image: none}]}}\n"
	return manifest, port, func() {
		s.patch(pods, pod, fmt.Sprintf(`{"status": {"phase": "Running", "podIP": %[1]q, "podIPs": [{"ip": %[1]q}],
			"conditions": [{"type": "Ready", "status": "True"}]}}`, address), "status")
	}
}

// ran checks that Jobs ran one after another.
func (s *site) ran(names ...string) {
	s.t.Helper()
	var before string
	for i, name := range names {
		began, ended := s.field(jobs, name, "status", "startTime"), s.field(jobs, name, "status", "completionTime")
		if began == "" || ended == "" {
			s.t.Errorf("%s did not run", name)
		}
		if i > 0 && cmp.Compare(began, before) < 0 {
			s.t.Errorf("%s began at %s, and %s ended at %s", name, began, names[i-1], before)
		}
		before = ended
	}
}

// reasons are those of a deployment's problems.
func reasons(d *v1.Deployment) []string {
	var all []string
	for _, p := range d.Problems {
		all = append(all, p.Reason)
	}
	slices.Sort(all)
	return all
}

// job is a Job that ends at once, with annotations.
func job(name, annotations string) string {
	return "apiVersion: batch/v1\nkind: Job\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\nspec:\n  backoffLimit: 0\n" +
		"  template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}\n---\n"
}

// workload is a Deployment with one replica.
func workload(name string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + "}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: " + name +
		"}}\n  template:\n    metadata: {labels: {app: " + name + "}}\n    spec: {containers: [{name: a, image: \"a:1\"}]}\n"
}

// definition defines a kind of example.org whose objects have a status.
func definition(kind string) string {
	plural := strings.ToLower(kind) + "s"
	return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + plural + ".example.org}\nspec:\n" +
		"  group: example.org\n  names: {kind: " + kind + ", plural: " + plural + "}\n  scope: Namespaced\n" +
		"  versions: [{name: v1, served: true, storage: true, subresources: {status: {}}, " +
		"schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n---\n"
}

// custom is where objects of such a kind are.
func custom(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: plural}
}

// file writes a file outside of the repo, which may be run.
func (s *site) file(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

// agent runs an agent of the test's own until the fleet's test ends.
func (s *site) agent(args ...string) {
	s.t.Helper()
	cmd := s.command(filepath.Join(s.bin, "plural-agent"), append([]string{"run", "--listen", "127.0.0.1:0"}, args...)...)
	said := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.fleet.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if s.fleet.Failed() {
			s.fleet.Logf("--- the agent of the test\n%s", said.Bytes()[max(0, said.Len()-4000):])
		}
	})
}
