package apiproxy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/kubetest"
)

// eventually polls, since what a cluster's controllers do has no moment that can be waited for.
func eventually(t testing.TB, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it did not come to pass")
		}
	}
}

func resource(client dynamic.Interface, obj *unstructured.Unstructured) dynamic.ResourceInterface {
	gvk := obj.GroupVersionKind()
	r := client.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"})
	if obj.GetNamespace() == "" {
		return r
	}
	return r.Namespace(obj.GetNamespace())
}

func apply(t testing.TB, client dynamic.Interface, text string) {
	t.Helper()
	for decoder := kyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		_, err := resource(client, obj).Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// account installs the account that impersonates, as its manifests say, and gives the agent's own, which may do no more than these
// let it.
func account(t testing.TB, kube *kubetest.Cluster) *rest.Config {
	t.Helper()
	apply(t, kube.Dynamic, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plural-system"}}`)
	apply(t, kube.Dynamic, `{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "plural-agent", "namespace": "plural-system"}}`)
	files, err := templates.Render(templates.AgentReach, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		apply(t, kube.Dynamic, string(f.Content))
	}
	agent := rest.AnonymousClientConfig(kube.RESTConfig)
	agent.BearerToken = token(t, kube, "plural-agent")
	return agent
}

// token is one of an account of plural-system.
func token(t testing.TB, kube *kubetest.Cluster, account string) string {
	t.Helper()
	accounts := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace("plural-system")
	answer, err := accounts.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account},
		"spec": map[string]any{},
	}}, metav1.CreateOptions{}, "token")
	if err != nil {
		t.Fatal(err)
	}
	token, _, _ := unstructured.NestedString(answer.Object, "status", "token")
	return token
}

// TestTheClusterSeesThePersonAndItsRBACDecides is the whole way, with the account's own manifests.
func TestTheClusterSeesThePersonAndItsRBACDecides(t *testing.T) {
	kube := kubetest.Start(t)
	o, _ := options(account(t, kube), apiproxy.Policy{})
	o.Account = "plural-agent-reach"
	rt := transport(hub(t, handler(t, o)))
	review := `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`
	got := do(t, rt, ask(t.Context(), t, ana(), http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review))
	var seen struct {
		Status struct {
			UserInfo struct {
				Username, UID string
				Groups        []string
				Extra         map[string][]string
			}
		}
	}
	if err := json.Unmarshal([]byte(got.Body), &seen); err != nil || got.Status != http.StatusCreated {
		t.Fatal(got)
	}
	who := seen.Status.UserInfo
	slices.Sort(who.Groups)
	if diff := cmp.Diff([]string{"plural:devs", "plural:oncall", "system:authenticated"}, who.Groups); who.Username != "plural:ana" || who.UID != "u-1" || diff != "" {
		t.Errorf("the cluster sees %v %s", who, diff)
	}
	if diff := cmp.Diff(map[string][]string{"plural.sh/request-id": {"req-42"}, "plural.sh/credential": {"c1"}}, who.Extra); diff != "" {
		t.Error(diff)
	}
	if got.Header.Get("Audit-Id") != "req-42" {
		t.Errorf("the cluster's audit log calls it %q", got.Header.Get("Audit-Id"))
	}
	pods := "/api/v1/namespaces/" + kube.Namespace + "/pods"
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, pods, "")); got.Status != http.StatusForbidden || !strings.Contains(got.Body, `User \"plural:ana\" cannot list`) {
		t.Fatal(got)
	}
	apply(t, kube.Dynamic, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: devs, namespace: `+kube.Namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "plural:devs"}]
`)
	eventually(t, func() bool {
		return do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, pods, "")).Status == http.StatusOK
	})
	if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodDelete, pods+"/x", "")); got.Status != http.StatusForbidden {
		t.Error(got)
	}
	direct, err := http.NewRequestWithContext(t.Context(), http.MethodGet, kube.RESTConfig.Host+pods, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	direct.Header.Set("Authorization", "Bearer "+token(t, kube, "plural-agent-reach"))
	if got := do(t, unauthenticated(t, kube.RESTConfig), direct); got.Status != http.StatusForbidden {
		t.Errorf("the account itself may list pods: %d", got.Status)
	}
}

// TestAWatchGoesOnUntilItIsLeft follows a real one, over the shared connection.
func TestAWatchGoesOnUntilItIsLeft(t *testing.T) {
	kube := kubetest.Start(t)
	apply(t, kube.Dynamic, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ana, namespace: `+kube.Namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "plural:ana"}]
`)
	o, _ := options(kube.RESTConfig, apiproxy.Policy{})
	rt := transport(hub(t, handler(t, o)))
	maps := "/api/v1/namespaces/" + kube.Namespace + "/configmaps"
	eventually(t, func() bool {
		return do(t, rt, ask(t.Context(), t, ana(), http.MethodGet, maps, "")).Status == http.StatusOK
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response, err := rt.RoundTrip(ask(ctx, t, ana(), http.MethodGet, maps+"?watch=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	events := json.NewDecoder(response.Body)
	for _, name := range []string{"one", "two"} {
		if got := do(t, rt, ask(t.Context(), t, ana(), http.MethodPost, maps, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "`+name+`"}}`)); got.Status != http.StatusCreated {
			t.Fatal(got)
		}
		var event struct {
			Type   string
			Object struct{ Metadata struct{ Name string } }
		}
		for event.Object.Metadata.Name != name {
			if err := events.Decode(&event); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	if err := events.Decode(&struct{}{}); err == nil {
		t.Error("the watch goes on")
	}
}

func TestThePolicyIsFollowed(t *testing.T) {
	kube := kubetest.Start(t)
	apply(t, kube.Dynamic, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plural-system"}}`)
	config := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(apiproxy.Namespace)
	if err := config.Delete(t.Context(), apiproxy.ConfigMap, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	log := slog.New(slog.NewTextHandler(said, nil)) // read when Follow has returned
	policies, ended := make(chan apiproxy.Policy), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- apiproxy.Follow(ctx, kube.Dynamic, log, func(p apiproxy.Policy) {
			select {
			case policies <- p:
			case <-ctx.Done():
			}
		})
	}()
	next := func(want apiproxy.Policy) {
		t.Helper()
		select {
		case got := <-policies:
			if diff := cmp.Diff(want.Mode, got.Mode); diff != "" || len(got.Rules) != len(want.Rules) {
				t.Errorf("the policy is %v", got)
			}
		case <-time.After(time.Minute):
			t.Fatal("no policy came")
		}
	}
	write := func(data string) {
		t.Helper()
		apply(t, kube.Dynamic, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plural-agent-reach", "namespace": "plural-system"}, "data": `+data+`}`)
	}
	next(apiproxy.Policy{Mode: apiproxy.Off}) // nothing is known yet
	next(apiproxy.Policy{Mode: apiproxy.Full})
	write(`{"mode": "read-only"}`)
	next(apiproxy.Policy{Mode: apiproxy.ReadOnly})
	write(`{"mode": "read-only", "rules": "- verbs: [get]\n  resource: [pods]\n"}`)
	next(apiproxy.Policy{Mode: apiproxy.Off})
	write(`{"mode": "read-only", "rules": "- verbs: [get]\n  resources: [pods]\n"}`)
	next(apiproxy.Policy{Mode: apiproxy.ReadOnly, Rules: make([]apiproxy.Rule, 1)})
	if err := config.Delete(t.Context(), apiproxy.ConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(apiproxy.Policy{Mode: apiproxy.Full})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !strings.Contains(said.String(), "cannot be read") {
		t.Errorf("the log says %s", said)
	}
}

// TestAPolicyThatMayNotBeReadLetsNobodyIn: who takes the right to read it away does not open the cluster.
func TestAPolicyThatMayNotBeReadLetsNobodyIn(t *testing.T) {
	kube := kubetest.Start(t)
	kube.RESTConfig.Impersonate.UserName = "nobody"
	client, err := dynamic.NewForConfig(kube.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := &logged{refused: make(chan struct{})}
	ended := make(chan error)
	var last apiproxy.Policy
	go func() {
		ended <- apiproxy.Follow(ctx, client, slog.New(slog.NewTextHandler(said, nil)), func(p apiproxy.Policy) { last = p })
	}()
	<-said.refused
	cancel()
	if <-ended; last.Mode != apiproxy.Off {
		t.Errorf("the policy is %v", last)
	}
}

// logged waits for a line that says what somebody has to do.
type logged struct{ refused chan struct{} }

func (l *logged) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("fix=")) && bytes.Contains(line, []byte("configmaps")) {
		close(l.refused)
	}
	return len(line), nil
}
