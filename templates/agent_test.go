package templates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/agent/events"
	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/inventory"
	"github.com/pluralsh/plural/agent/object"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// objects are the manifests of a scaffold.
func objects(t *testing.T, scaffold string, values map[string]string) []*unstructured.Unstructured {
	t.Helper()
	files, err := Render(scaffold, values)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for _, f := range files {
		for decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(f.Content), 4096); ; {
			obj := &unstructured.Unstructured{}
			err := decoder.Decode(&obj.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			out = append(out, obj)
		}
	}
	return out
}

// rule is what a role allows.
type rule struct {
	role                            string
	groups, resources, names, verbs []string
}

func rules(objects []*unstructured.Unstructured) []rule {
	var out []rule
	for _, obj := range objects {
		list, _, _ := unstructured.NestedSlice(obj.Object, "rules")
		for _, r := range list {
			fields, _ := r.(map[string]any)
			get := func(name string) []string {
				values, _, _ := unstructured.NestedStringSlice(fields, name)
				return values
			}
			out = append(out, rule{obj.GetName(), get("apiGroups"), get("resources"), get("resourceNames"), get("verbs")})
		}
	}
	return out
}

// request is what an API server authorizes.
type request struct{ verb, group, resource, name string }

func (r rule) allows(q request) bool {
	return slices.Contains(r.verbs, q.verb) && slices.Contains(r.groups, q.group) &&
		(slices.Contains(r.resources, q.resource) || slices.Contains(r.resources, "*")) &&
		(len(r.names) == 0 || slices.Contains(r.names, q.name))
}

// cluster is a real one, in which an agent has the least role.
type cluster struct {
	*testing.T
	*kubetest.Cluster
	agent *rest.Config // with a token of the agent's account

	mu   sync.Mutex
	sent map[request]bool
	// old makes the API server one that cannot stream lists.
	old atomic.Bool
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, Cluster: kubetest.Start(t), sent: map[request]bool{}}
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	registration := identity.Registration{Cluster: "edge-1", HubURL: "https://hub", Identity: keys}
	if err := identity.Write(t.Context(), c.Dynamic, registration); err != nil {
		t.Fatal(err)
	}
	c.grant(AgentRole, nil)
	c.agent = rest.AnonymousClientConfig(c.RESTConfig)
	c.agent.BearerToken = c.token()
	c.agent.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			c.record(r)
			if query := r.URL.Query(); c.old.Load() && query.Get("sendInitialEvents") != "" {
				query.Set("resourceVersionMatch", "Exact") // which may not be asked of a stream
				r = r.Clone(r.Context())
				r.URL.RawQuery = query.Encode()
			}
			return rt.RoundTrip(r)
		})
	})
	c.eventually("the role is aggregated", func() bool { return c.may(request{"watch", "apps", "deployments", ""}, "") })
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func resource(obj *unstructured.Unstructured) schema.GroupVersionResource {
	return obj.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(obj.GetKind()) + "s")
}

func (c *cluster) admin(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	if obj.GetNamespace() == "" {
		return c.Dynamic.Resource(resource(obj))
	}
	return c.Dynamic.Resource(resource(obj)).Namespace(obj.GetNamespace())
}

// grant applies a scaffold, until the test ends.
func (c *cluster) grant(scaffold string, values map[string]string) {
	c.Helper()
	for _, obj := range objects(c.T, scaffold, values) {
		c.apply(obj)
	}
}

func (c *cluster) apply(obj *unstructured.Unstructured) {
	c.Helper()
	if _, err := c.admin(obj).Apply(c.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		c.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	c.Cleanup(func() {
		_ = c.admin(obj).Delete(context.WithoutCancel(c.Context()), obj.GetName(), metav1.DeleteOptions{})
	})
}

func (c *cluster) token() string {
	c.Helper()
	accounts := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("plural-system")
	answer, err := accounts.Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
		"metadata": map[string]any{"name": "plural-agent"}, "spec": map[string]any{},
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		c.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	return token
}

// record notes what the API server is asked to authorize: of a request as somebody else, only that.
func (c *cluster) record(r *http.Request) {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case segments[0] == "api" && len(segments) > 2:
		segments = append([]string{""}, segments[2:]...)
	case segments[0] == "apis" && len(segments) > 3:
		segments = append([]string{segments[1]}, segments[3:]...)
	default:
		return // discovery, which is open to all
	}
	if segments[1] == "namespaces" && len(segments) > 3 {
		segments = append(segments[:1], segments[3:]...)
	}
	q := request{group: segments[0], resource: segments[1]}
	if len(segments) > 2 {
		q.name = segments[2]
	}
	q.verb = map[string]string{"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "list"}[r.Method]
	if q.name != "" && q.verb == "list" {
		q.verb = "get"
	}
	if r.URL.Query().Get("watch") != "" {
		q.verb = "watch"
	}
	if name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); ok {
		q.name = name
	}
	if user := strings.Split(r.Header.Get("Impersonate-User"), ":"); len(user) == 4 {
		q = request{"impersonate", "", "serviceaccounts", user[3]}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[q] = true
}

// may asks the API server whether the agent's account may do something.
func (c *cluster) may(q request, namespace string) bool {
	c.Helper()
	client, err := dynamic.NewForConfig(c.agent)
	if err != nil {
		c.Fatal(err)
	}
	resource, subresource, _ := strings.Cut(q.resource, "/")
	reviews := client.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"})
	answer, err := reviews.Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": q.verb, "group": q.group, "resource": resource, "subresource": subresource, "name": q.name, "namespace": namespace,
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	allowed, _, _ := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed
}

func (c *cluster) eventually(what string, yes func() bool) {
	c.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	c.Fatalf("never: %s", what)
}

func parse(t *testing.T, format string, args ...any) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := kyaml.Unmarshal(fmt.Appendf(nil, format, args...), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// deployer is an account that may do what the services in the test's namespace need, and that the agent may be.
func (c *cluster) deployer() string {
	c.Helper()
	c.apply(parse(c.T, `{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: %s}}`, c.Namespace))
	c.apply(parse(c.T, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: deployer, namespace: %[1]s}]
`, c.Namespace))
	c.grant(AgentImpersonate, map[string]string{"namespace": c.Namespace, "account": "deployer"})
	return c.Namespace + "/deployer"
}

// engine runs as the agent's account.
func (c *cluster) engine() *apply.Engine { return c.engineAs(c.agent) }

func (c *cluster) engineAs(config *rest.Config) *apply.Engine {
	c.Helper()
	engine, err := apply.New(config, apply.Options{})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	running.Go(func() { _ = engine.FollowKinds(ctx, func() {}) })
	c.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return engine
}

func (c *cluster) request(service, key string, objects ...*unstructured.Unstructured) apply.Request {
	return apply.Request{
		Service: service, Namespace: c.Namespace, Key: key, Prune: true, Heal: true,
		Objects:  func(context.Context) ([]*unstructured.Unstructured, error) { return objects, nil },
		Policies: apply.Policies{Account: c.Namespace + "/deployer"},
	}
}

// sync calls the engine until everything is applied.
func (c *cluster) sync(engine *apply.Engine, r apply.Request) {
	c.Helper()
	c.eventually("service "+r.Service+" is applied", func() bool {
		result, err := engine.Apply(c.Context(), r)
		if err != nil {
			c.Fatal(err)
		}
		for _, o := range result.Objects {
			if o.Err != nil {
				c.Fatalf("%s: %v", o.ID(), o.Err)
			}
		}
		return result.Done
	})
}

// TestTheAgentsRoleIsEnoughAndNoVerbOfItIsIdle lets an agent with no other rights do all that an agent does, against an API
// server that streams lists and one that does not, and looks which of its rights it used.
func TestTheAgentsRoleIsEnoughAndNoVerbOfItIsIdle(t *testing.T) {
	c := newCluster(t)
	c.deployer()
	config := func(name string) *unstructured.Unstructured {
		return parse(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {a: b}}`, name)
	}
	web := parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: main}]}}
`)
	foreign := web.DeepCopy()
	foreign.SetName("foreign")
	foreign.SetNamespace(c.Namespace)
	c.apply(foreign)
	later := config("later")
	later.SetAnnotations(map[string]string{"config.kubernetes.io/depends-on": "apps/namespaces/" + c.Namespace + "/Deployment/foreign"})
	for _, old := range []bool{false, true} {
		c.old.Store(old) // watches of the engine before may still come back
		service := c.Namespace
		engine := c.engine()
		c.sync(engine, c.request(service, "one", config("one"), web, later))
		c.sync(engine, c.request(service, "two", config("two"), web, later))
		c.readsEvents(engine)
		c.eventually("the service is removed", func() bool {
			result, err := engine.Remove(t.Context(), apply.Removal{Service: service, Namespace: c.Namespace})
			if err != nil {
				t.Fatal(err)
			}
			return result.Done
		})
		c.readsItsRegistration()
	}
	c.readsInventories()
	impersonate := objects(t, AgentImpersonate, map[string]string{"namespace": "x", "account": "deployer"})
	granted := slices.Concat(rules(objects(t, AgentRole, nil)), rules(impersonate))
	for _, r := range granted {
		for _, verb := range r.verbs {
			one := r
			one.verbs = []string{verb}
			if !c.used(one) {
				t.Errorf("role %s allows %s of %v, which no agent does", r.role, verb, r.resources)
			}
		}
	}
	for q := range c.sent {
		if !slices.ContainsFunc(granted, func(r rule) bool { return r.allows(q) }) && q.resource != "selfsubjectaccessreviews" {
			t.Errorf("the agent asks for %+v, which no rule allows", q)
		}
	}
}

func (c *cluster) used(r rule) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for q := range c.sent {
		if r.allows(q) {
			return true
		}
	}
	return false
}

// readsItsRegistration also watches it.
func (c *cluster) readsItsRegistration() {
	c.Helper()
	client, err := dynamic.NewForConfig(c.agent)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := identity.Read(c.Context(), client); err != nil {
		c.Error(err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	_ = identity.Watch(ctx, client, func(_ identity.Registration, err error) {
		if err != nil {
			c.Error(err)
		}
		cancel()
	})
}

// readsEvents asks what keeps an object from being well.
func (c *cluster) readsEvents(engine *apply.Engine) {
	c.Helper()
	client, err := dynamic.NewForConfig(c.agent)
	if err != nil {
		c.Fatal(err)
	}
	web := events.Object{ID: object.ID{Group: "apps", Kind: "Deployment", Namespace: c.Namespace, Name: "web"}, UID: "of nobody"}
	reader := events.New(client, engine.Kinds(), slog.New(slog.DiscardHandler))
	if _, err := reader.Read(c.Context(), []events.Object{web}, strings.Clone); err != nil {
		c.Error(err)
	}
}

// readsInventories reads one apart from the others, as the agent does when two of it wrote at once.
func (c *cluster) readsInventories() {
	c.Helper()
	client, err := dynamic.NewForConfig(c.agent)
	if err != nil {
		c.Fatal(err)
	}
	brief, err := metadata.NewForConfig(c.agent)
	if err != nil {
		c.Fatal(err)
	}
	if _, err := inventory.NewStore(client, brief).Load(c.Context(), c.Namespace); err != nil {
		c.Error(err)
	}
}

func TestTheAgentsRoleGrantsNothingElse(t *testing.T) {
	c := newCluster(t)
	c.deployer()
	for _, tt := range []struct {
		request
		namespace string
	}{
		{request{"list", "", "secrets", ""}, ""},
		{request{"get", "", "secrets", "any"}, c.Namespace},
		{request{"list", "", "secrets", ""}, "plural-system"},
		{request{"get", "", "secrets", "other"}, "plural-system"},
		{request{"update", "", "secrets", "plural-agent"}, "plural-system"},
		{request{"patch", "", "configmaps", "any"}, "plural-system"},
		{request{"update", "", "configmaps", "any"}, c.Namespace},
		{request{"create", "", "configmaps", ""}, c.Namespace},
		{request{"delete", "apps", "deployments", "any"}, c.Namespace},
		{request{"patch", "apps", "deployments", "any"}, c.Namespace},
		{request{"create", "batch", "jobs", ""}, c.Namespace},
		{request{"create", "", "namespaces", ""}, ""},
		{request{"patch", "", "namespaces", "plural-system"}, "plural-system"},
		{request{"create", "", "pods", ""}, "plural-system"},
		{request{"get", "", "pods/log", "any"}, c.Namespace},
		{request{"get", "", "pods/exec", "any"}, c.Namespace},
		{request{"create", "", "pods/exec", "any"}, c.Namespace},
		{request{"get", "", "services/proxy", "any"}, c.Namespace},
		{request{"get", "", "nodes/proxy", "any"}, ""},
		{request{"list", "", "nodes", ""}, ""},
		{request{"create", "", "serviceaccounts/token", "deployer"}, c.Namespace},
		{request{"impersonate", "", "serviceaccounts", "default"}, c.Namespace},
		{request{"impersonate", "", "serviceaccounts", "deployer"}, "kube-system"},
		{request{"impersonate", "", "users", "admin"}, ""},
		{request{"impersonate", "", "groups", "system:masters"}, ""},
		{request{"create", "rbac.authorization.k8s.io", "clusterrolebindings", ""}, ""},
		{request{"bind", "rbac.authorization.k8s.io", "clusterroles", "cluster-admin"}, ""},
		{request{"escalate", "rbac.authorization.k8s.io", "clusterroles", "any"}, ""},
		{request{"update", "rbac.authorization.k8s.io", "clusterroles", "plural-agent-watch-builtin"}, ""},
	} {
		if c.may(tt.request, tt.namespace) {
			t.Errorf("the agent may %+v in %q", tt.request, tt.namespace)
		}
	}
	if !c.may(request{"impersonate", "", "serviceaccounts", "deployer"}, c.Namespace) {
		t.Error("the agent may not be the account that it was given")
	}
}

func TestSecretsAreOwnedOnlyWhereThatIsGranted(t *testing.T) {
	c := newCluster(t)
	c.deployer()
	r := c.request(c.Namespace, "one", parse(t, `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}`))
	result, err := c.engine().Apply(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Objects) != 1 || result.Objects[0].Err == nil || !strings.Contains(result.Objects[0].Err.Error(), "secrets") {
		t.Errorf("without the right: %+v", result.Objects)
	}
	c.grant(AgentSecrets, nil)
	c.eventually("the role is aggregated", func() bool { return c.may(request{"watch", "", "secrets", ""}, "") })
	c.sync(c.engine(), r)
	if c.may(request{"update", "", "secrets", "s"}, c.Namespace) {
		t.Error("the agent itself may write secrets")
	}
}

func TestTheAdministratorsBindingIsAFileOfItsOwn(t *testing.T) {
	c := newCluster(t)
	c.grant(AgentAdmin, nil)
	c.eventually("the agent may do everything", func() bool { return c.may(request{"*", "*", "*", ""}, "") })
	var kinds []string
	for _, obj := range objects(t, AgentAdmin, nil) {
		kinds = append(kinds, obj.GetKind())
	}
	if diff := cmp.Diff([]string{"ClusterRoleBinding"}, kinds); diff != "" {
		t.Error(diff)
	}
}

// deploys gives the agent the role that it has unless somebody says otherwise.
func (c *cluster) deploys() {
	c.Helper()
	c.grant(AgentDeploy, nil)
	c.eventually("the agent may write everywhere", func() bool { return c.may(request{"patch", "example.com", "things", ""}, "") })
}

// results of the service's objects, by KIND/NAME: what went wrong, or "".
func (c *cluster) results(objects ...*unstructured.Unstructured) map[string]string {
	c.Helper()
	r := c.request(c.Namespace, "one", objects...)
	r.Account = ""
	result, err := c.engine().Apply(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		for _, obj := range objects {
			_ = c.admin(obj).Delete(context.WithoutCancel(c.Context()), obj.GetName(), metav1.DeleteOptions{})
		}
	})
	out := map[string]string{}
	for _, o := range result.Objects {
		name := o.GVK.Kind + "/" + o.Name
		if out[name] = ""; o.Err != nil {
			out[name] = o.Err.Error()
		}
	}
	return out
}

// TestTheRoleThatDeploysInstallsChartsWithRolesOfTheirOwn applies what common charts have, with no other rights.
func TestTheRoleThatDeploysInstallsChartsWithRolesOfTheirOwn(t *testing.T) {
	c := newCluster(t)
	c.deploys()
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1"
	named := func(format string) *unstructured.Unstructured {
		return parse(t, "%s", strings.ReplaceAll(strings.ReplaceAll(format, "NAME", c.Namespace), "RBAC", rbac))
	}
	account := "subjects: [{kind: ServiceAccount, name: web, namespace: NAME}]"
	got := c.results(
		named(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME-more}}`),
		named(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: web}}`),
		named(`{apiVersion: v1, kind: Secret, metadata: {name: keys}, stringData: {a: b}}`),
		named(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.NAME.example.com}
spec:
  group: NAME.example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`),
		named(`{apiVersion: NAME.example.com/v1, kind: Thing, metadata: {name: thing}}`),
		named(`
RBAC
kind: ClusterRole
metadata: {name: NAME-controller, labels: {rbac.authorization.k8s.io/aggregate-to-view: "true"}}
rules:
- apiGroups: [NAME.example.com]
  resources: [things, things/status, things/finalizers]
  verbs: [get, list, watch, create, update, patch, delete]
- {apiGroups: ["", events.k8s.io], resources: [events, secrets], verbs: [get, list, watch, create, patch]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {nonResourceURLs: [/metrics], verbs: [get]}
`),
		named(`
RBAC
kind: ClusterRole
metadata: {name: NAME-approver}
rules:
- apiGroups: [cert-manager.io]
  resources: [signers]
  resourceNames: ["issuers.cert-manager.io/*", "clusterissuers.cert-manager.io/*"]
  verbs: [approve]
`),
		named(`
RBAC
kind: ClusterRoleBinding
metadata: {name: NAME-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAME-controller}
`+account),
		named(`
RBAC
kind: RoleBinding
metadata: {name: edit}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
`+account),
		named(`
RBAC
kind: RoleBinding
metadata: {name: reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
`+account),
		named(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME}, webhooks: []}`),
	)
	for name, reason := range got {
		if reason != "" {
			t.Errorf("%s is refused: %s", name, reason)
		}
	}
	if len(got) != 11 {
		t.Errorf("results %v", got)
	}
}

// TestTheRoleThatDeploysGivesAwayNoMoreThanItHas also asks the API server itself for what was taken out of the role.
func TestTheRoleThatDeploysGivesAwayNoMoreThanItHas(t *testing.T) {
	c := newCluster(t)
	c.deploys()
	for _, q := range []request{
		{"*", "*", "*", ""},
		{"impersonate", "", "users", "system:admin"},
		{"impersonate", "", "groups", "system:masters"},
		{"impersonate", "", "serviceaccounts", "deployer"},
		{"impersonate", "authentication.k8s.io", "userextras/any", "x"},
		{"escalate", "rbac.authorization.k8s.io", "clusterroles", "any"},
		{"escalate", "rbac.authorization.k8s.io", "roles", "any"},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "cluster-admin"},
		{"bind", "rbac.authorization.k8s.io", "roles", "any"},
		{"approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client"},
		{"sign", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client"},
		{"attest", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client"},
	} {
		if c.may(q, "") {
			t.Errorf("the agent may %+v", q)
		}
	}
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1"
	for what, text := range map[string]string{
		"an administrator": `
RBAC
kind: ClusterRoleBinding
metadata: {name: NAME-bad}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: web, namespace: NAME}]
`,
		"all verbs": `
RBAC
kind: ClusterRole
metadata: {name: NAME-bad}
rules: [{apiGroups: [""], resources: [pods], verbs: ["*"]}]
`,
		"being others": `
RBAC
kind: ClusterRole
metadata: {name: NAME-bad}
rules: [{apiGroups: [""], resources: [users], verbs: [impersonate]}]
`,
		"giving away more": `
RBAC
kind: Role
metadata: {name: NAME-bad}
rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]}]
`,
		"whatever it will be": `
RBAC
kind: ClusterRole
metadata: {name: NAME-bad}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}
rules: []
`,
	} {
		obj := parse(t, "%s", strings.ReplaceAll(strings.ReplaceAll(text, "NAME", c.Namespace), "RBAC", rbac))
		if got := c.results(obj); !strings.Contains(got[obj.GetKind()+"/"+obj.GetName()], "permissions=admin") {
			t.Errorf("%s: %v", what, got)
		}
	}
}

// TestTheAgentTakesItselfIn: its roles, which a person has put there, become its service's, and change with its next version.
func TestTheAgentTakesItselfIn(t *testing.T) {
	c := newCluster(t)
	c.deploys()
	for _, scaffold := range []string{AgentReach, AgentSecrets} {
		c.grant(scaffold, nil)
	}
	own := slices.Concat(objects(t, AgentRole, nil), objects(t, AgentDeploy, nil), objects(t, AgentReach, nil), objects(t, AgentSecrets, nil))
	r := c.request("agent", "one", own...)
	r.Account, r.Namespace, r.OwnRepository = "", "plural-system", true
	engine, admin := c.engine(), c.engineAs(c.RESTConfig)
	c.sync(engine, r)
	for _, obj := range own {
		if obj.GetName() == "plural-agent-reach" && obj.GetKind() == "ClusterRole" {
			more := parse(t, `{rules: [{apiGroups: [authentication.k8s.io], resources: [userextras/plural.sh/more], verbs: [impersonate]}]}`)
			obj.Object["rules"] = more.Object["rules"]
		}
	}
	r.Key = "two"
	c.sync(engine, r)
	c.eventually("it is removed", func() bool {
		result, err := admin.Remove(t.Context(), apply.Removal{Service: "agent", Namespace: "plural-system"})
		if err != nil {
			t.Fatal(err)
		}
		return result.Done
	})
}
