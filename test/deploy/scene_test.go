package deploy

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/faultproxy"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// The test binary is its own render child, as the product's binary is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// scene is one service on a real API server, brought in by an engine of its own through a proxy of its own, and the eyes
// of somebody who looks past both.
type scene struct {
	*testing.T
	cluster   *kubetest.Cluster
	proxy     *faultproxy.Proxy
	engine    *apply.Engine
	namespace string
	stop      func() // ends the engine
	timeout   time.Duration

	request  apply.Request
	revision int
	result   *apply.Result
	err      error
	said     []string // what all passes said
}

func newScene(t *testing.T, timeout time.Duration) *scene {
	t.Helper()
	cluster := kubetest.Start(t)
	proxy, err := faultproxy.New(t.Context(), cluster.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, cluster: cluster, proxy: proxy, namespace: cluster.Namespace, stop: func() {}, timeout: timeout}
	s.request = apply.Request{Service: s.namespace, Namespace: s.namespace, Prune: true, Heal: true, Budget: "100%"}
	t.Cleanup(func() {
		s.stop()
		_ = proxy.Close()
		s.sweep()
	})
	s.restart()
	return s
}

// sweep removes what does not go with the scene's namespace.
func (s *scene) sweep() {
	ctx := context.WithoutCancel(s.Context())
	_ = s.cluster.Dynamic.Resource(configMaps).Namespace("plural-system").Delete(ctx, s.inventory(), metav1.DeleteOptions{})
	for _, resource := range []schema.GroupVersionResource{definitions, admissionPolicies, admissionBindings, clusterRoles, namespaces} {
		all := s.cluster.Dynamic.Resource(resource)
		list, err := all.List(ctx, metav1.ListOptions{LabelSelector: "scene=" + s.namespace})
		if err != nil {
			continue
		}
		for i := range list.Items {
			_ = all.Delete(ctx, list.Items[i].GetName(), metav1.DeleteOptions{})
		}
	}
}

var (
	pods              = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	quotas            = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	services          = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	claims            = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	roles             = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	roleBindings      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	clusterRoles      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	definitions       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	admissionPolicies = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	apiServices       = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	admissionBindings = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}
)

// resources are where the scenes' kinds are served.
var resources = map[string]schema.GroupVersionResource{
	"ConfigMap": configMaps, "Secret": secrets, "Namespace": namespaces, "ServiceAccount": accounts, "Deployment": deployments,
	"Job": jobs, "Pod": pods, "ResourceQuota": quotas, "Service": services, "Role": roles, "RoleBinding": roleBindings, "ClusterRole": clusterRoles,
	"CustomResourceDefinition": definitions, "ValidatingAdmissionPolicy": admissionPolicies, "PersistentVolumeClaim": claims,
	"ValidatingAdmissionPolicyBinding": admissionBindings, "ClusterRoleBinding": bindings,
}

func (s *scene) inventory() string { return "plural-inventory-" + s.request.Service }

// restart ends the engine and starts another, which knows nothing but what the cluster holds.
func (s *scene) restart() {
	s.Helper()
	s.stop()
	config := s.proxy.Config()
	config.Timeout = s.timeout
	s.engine, s.stop = s.startEngine(config)
}

func (s *scene) startEngine(config *rest.Config) (*apply.Engine, func()) {
	s.Helper()
	engine, err := apply.New(config, apply.Options{DefinitionWait: 3 * time.Second, DigestKey: []byte("scene")})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan struct{}, 2)
	go func() { _ = engine.Run(ctx); ended <- struct{}{} }()
	go func() { _ = engine.FollowKinds(ctx, func() {}); ended <- struct{}{} }()
	return engine, func() {
		cancel()
		<-ended
		<-ended
	}
}

// ask makes the documents what the service should be, at a new revision. "NS" in them is the scene's namespace.
func (s *scene) ask(text string) {
	s.Helper()
	s.askFor(s.parse(text)...)
}

func (s *scene) askFor(objects ...*unstructured.Unstructured) {
	s.revision++
	s.request.Key = fmt.Sprintf("%s-%d", s.namespace, s.revision)
	s.request.Objects = func(context.Context) ([]*unstructured.Unstructured, error) { return objects, nil }
}

func (s *scene) parse(text string) (objects []*unstructured.Unstructured) {
	s.Helper()
	for document := range strings.SplitSeq(strings.ReplaceAll(text, "NS", s.namespace), "\n---\n") {
		object := new(unstructured.Unstructured)
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			s.Fatalf("%v\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects
}

// pass is one call of the engine.
func (s *scene) pass() {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	s.result, s.err = s.engine.Apply(ctx, s.request)
	s.said = append(s.said, s.lines()...)
}

// until calls the engine as whoever owns it does: when it says that something changed, when it asked for that, and after an
// error. It says whether yes came in time.
func (s *scene) until(limit time.Duration, yes func() bool) bool {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		s.pass()
		if yes() {
			return true
		}
		var again <-chan time.Time
		switch {
		case s.err != nil:
			again = time.After(300 * time.Millisecond)
		case s.result.Retry > 0:
			again = time.After(s.result.Retry)
		}
		select {
		case <-s.engine.Changed():
			s.engine.Take()
		case <-again:
		case <-deadline.C:
			return false
		}
	}
}

// becomes waits until the service is as asked for.
func (s *scene) becomes(done string) {
	s.Helper()
	if !s.until(2*time.Minute, func() bool { return s.err == nil && s.result.Done && s.allHealthy() }) {
		s.Fatalf("%s: it never converged:\n%s", done, strings.Join(s.lines(), "\n"))
	}
}

// allHealthy looks at what the pass says of health, since Done is about applying alone.
func (s *scene) allHealthy() bool {
	return !slices.ContainsFunc(s.result.Objects, func(o apply.ObjectResult) bool { return o.Action == apply.Failed })
}

// lines are what one pass said.
func (s *scene) lines() (lines []string) {
	if s.err != nil {
		lines = append(lines, "error: "+s.err.Error())
	}
	if s.result == nil {
		return lines
	}
	for i := range s.result.Objects {
		o := &s.result.Objects[i]
		line := fmt.Sprintf("%s %s/%s: %s", o.Action, o.GVK.Kind, o.Name, o.Message)
		if o.Err != nil {
			line = fmt.Sprintf("%s %s/%s: %v", o.Err.Reason, o.GVK.Kind, o.Name, o.Err)
		}
		lines = append(lines, line)
	}
	for _, note := range s.result.Notes {
		lines = append(lines, "note: "+note)
	}
	if s.result.Held != nil {
		lines = append(lines, "held: "+s.result.Held.Message+" "+strings.Join(s.result.Held.Names, " "))
	}
	if s.result.Waiting != "" {
		lines = append(lines, "waiting: "+s.result.Waiting)
	}
	if s.result.Done {
		lines = append(lines, "done")
	}
	return lines
}

// shows waits for a pass that says all of this.
func (s *scene) shows(expected ...string) {
	s.Helper()
	told := func() bool {
		lines := s.lines()
		for _, text := range expected {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
				return false
			}
		}
		return true
	}
	if !s.until(15*time.Second, told) {
		s.Fatalf("never seen: %q in\n%s", expected, strings.Join(s.lines(), "\n"))
	}
}

// live are the objects of the scene's namespace that carry the service's label, with their uids.
func (s *scene) live() map[string]types.UID {
	s.Helper()
	found := map[string]types.UID{}
	for kind, resource := range resources {
		if clusterWide(kind) {
			continue
		}
		list, err := s.cluster.Dynamic.Resource(resource).Namespace(s.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: serviceLabel + "=" + s.request.Service})
		if err != nil {
			s.Fatal(err)
		}
		for i := range list.Items {
			found[kind+"/"+list.Items[i].GetName()] = list.Items[i].GetUID()
		}
	}
	return found
}

func clusterWide(kind string) bool {
	switch kind {
	case "Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		return true
	}
	return false
}

// names are what documents ask for in the scene's namespace, sorted, hooks aside.
func (s *scene) names(text string) []string {
	var names []string
	for _, object := range s.parse(text) {
		if _, known := resources[object.GetKind()]; known && !clusterWide(object.GetKind()) {
			names = append(names, object.GetKind()+"/"+object.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// stay fails for each object that is not there any more, or is another one now.
func (s *scene) stay(when string, before map[string]types.UID) {
	s.Helper()
	now := s.live()
	for name, uid := range before {
		switch now[name] {
		case uid:
		case "":
			s.Errorf("%s: %s is gone, or has lost its label", when, name)
		default:
			s.Errorf("%s: %s was made anew", when, name)
		}
	}
}

// exactly wants the live objects to be those that the documents name, as they are written.
func (s *scene) exactly(text string, more ...string) {
	s.Helper()
	want := append(s.names(text), more...)
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(s.live()))); diff != "" {
		s.Errorf("objects with the service's label (-want +got):\n%s", diff)
	}
	for _, object := range s.parse(text) {
		if object.GetKind() != "ConfigMap" || object.GetNamespace() != "" {
			continue
		}
		live, err := s.of("ConfigMap").Get(s.Context(), object.GetName(), metav1.GetOptions{})
		if err != nil {
			s.Errorf("%s: %v", object.GetName(), err)
			continue
		}
		if diff := cmp.Diff(object.Object["data"], live.Object["data"]); diff != "" {
			s.Errorf("%s (-want +got):\n%s", object.GetName(), diff)
		}
	}
}

// of reaches one kind as the administrator, past the proxy.
func (s *scene) of(kind string) dynamic.ResourceInterface {
	if clusterWide(kind) {
		return s.cluster.Dynamic.Resource(resources[kind])
	}
	return s.cluster.Dynamic.Resource(resources[kind]).Namespace(s.namespace)
}

// others makes objects as somebody else does; what they return takes them away.
func (s *scene) others(text string) (remove func()) {
	s.Helper()
	objects := s.parse(text)
	for _, object := range objects {
		if object.GetLabels() == nil {
			object.SetLabels(map[string]string{})
		}
		labels := object.GetLabels()
		labels["scene"] = s.namespace
		object.SetLabels(labels)
		if _, err := s.of(object.GetKind()).Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	return func() {
		for _, object := range objects {
			if err := s.of(object.GetKind()).Delete(s.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil && !isGone(err) {
				s.Error(err)
			}
		}
	}
}

// edit changes an object as somebody else does.
func (s *scene) edit(kind, name, merge string) {
	s.Helper()
	_, err := s.of(kind).Patch(context.WithoutCancel(s.Context()), name, types.MergePatchType, []byte(merge), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		s.Error(err)
	}
}

// meets puts a fault on requests whose path below the scene's namespace, or else on the whole, contains text.
func (s *scene) meets(method, text string, fault faultproxy.Fault) (lift func()) {
	return s.proxy.Add(faultproxy.Rule{Method: method, Path: s.path(text), Fault: fault})
}

func (s *scene) path(text string) *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(text, "NS", s.namespace))
}

// onA is the path of the ConfigMap a.
const onA = `/namespaces/NS/configmaps/a(\?|$)`

func refusal(code int, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) faultproxy.Fault {
	return faultproxy.Refuse(metav1.Status{Code: int32(code), Reason: reason, Message: message, Details: &metav1.StatusDetails{Kind: "configmaps", Name: "a", Causes: causes}})
}

func slowDown(seconds int) faultproxy.Fault {
	return faultproxy.Refuse(metav1.Status{
		Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests",
		Details: &metav1.StatusDetails{RetryAfterSeconds: int32(seconds)},
	})
}
