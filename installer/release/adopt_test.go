package release_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent"
	"github.com/pluralsh/plural/agent/object"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/test/support/faultproxy"
	"github.com/pluralsh/plural/test/support/needs"
)

// everything is one service of each kind: plain manifests with a sealed secret, a kustomization into a namespace that is not
// there, a chart with hooks, definitions and a release record, whose templates ask what the cluster can do.
func (w *world) everything() {
	w.Helper()
	w.seals("secrets/db.yaml", "password: "+password+"\n")
	w.service("plain", "{source: {path: apps/plain}, namespace: NS, secrets: [{name: db, from: secrets/db.yaml}]}")
	w.write("apps/plain/web.yaml", web("plain"))
	w.write("apps/plain/cm.yaml.tmpl", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\ndata: {service: '{{ .service.name }}'}\n")

	w.service("built", "{source: {path: apps/built}, namespace: new-ID, dependsOn: [{service: plain-ID}]}")
	w.write("apps/built/kustomization.yaml", "resources: [cm.yaml]\nnamePrefix: a-\n")
	w.write("apps/built/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: built}\ndata: {a: b}\n")

	w.service("chart", "{source: {path: apps/chart}, namespace: NS, helm: {record: true, values: {color: blue}}}")
	w.chart("apps/chart")
}

// seen is all that the world's services have in the cluster, inventories included, by name, with its version.
func (w *world) seen() map[string]string {
	w.Helper()
	found := map[string]string{}
	for _, kind := range []struct{ group, resource, namespace string }{
		{"", "configmaps", w.kube.Namespace},
		{"", "secrets", w.kube.Namespace},
		{"apps", "deployments", w.kube.Namespace},
		{"batch", "jobs", w.kube.Namespace},
		{w.id + ".example.com", "things", w.kube.Namespace},
		{"apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"", "configmaps", "new-" + w.id},
		{"", "configmaps", object.SystemNamespace},
	} {
		list, err := w.kube.Dynamic.Resource(gvr(kind.group, "v1", kind.resource)).Namespace(kind.namespace).List(w.Context(),
			metav1.ListOptions{})
		if err != nil {
			w.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			owner := o.GetLabels()[object.ServiceLabel]
			ours := strings.HasSuffix(owner, "-"+w.id) || o.GetNamespace() == object.SystemNamespace && strings.Contains(o.GetName(), w.id)
			if ours {
				found[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return found
}

// hub serves the repo, and returns its address and what it says of the fleet, nil when it says nothing.
func (w *world) hub() (url string, says func() *v1.Status) {
	w.Helper()
	dir := w.TempDir()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		w.Fatal(err)
	}
	url = "http://" + address
	started := make(chan struct{})
	o := hubsvc.Options{
		Data: filepath.Join(dir, "data"), Listen: address, URL: url,
		TokenFile: filepath.Join(dir, "token"), Repo: "file://" + w.root, Branch: "main",
		Interval: 50 * time.Millisecond, AllowFile: true, AllowLoopback: true, CacheBytes: 64 << 20,
		Log:   slog.New(starts{slog.DiscardHandler, started}),
		Terms: gateway.Terms{PollInterval: 200 * time.Millisecond, ReportInterval: 200 * time.Millisecond},
	}
	w.background(func(ctx context.Context) error { return hubsvc.Run(ctx, o) })
	select {
	case <-started:
	case <-time.After(time.Minute):
		w.Fatal("the hub does not start")
	}
	token, err := os.ReadFile(o.TokenFile)
	if err != nil {
		w.Fatal(err)
	}
	return url, func() *v1.Status {
		request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, url+"/v1/status", nil)
		if err != nil {
			w.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil
		}
		defer response.Body.Close()
		status := new(v1.Status)
		if err := json.NewDecoder(response.Body).Decode(status); err != nil {
			return nil
		}
		if len(status.Refused) > 0 {
			w.Fatalf("the hub refuses the commit: %+v", status.Refused)
		}
		return status
	}
}

func converged(s *v1.Status) bool { return s != nil && s.Converged() }

// starts closes a channel when a hub says that it has started.
type starts struct {
	slog.Handler
	started chan struct{}
}

func (s starts) Enabled(context.Context, slog.Level) bool { return true }

func (s starts) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "hub started" {
		close(s.started)
	}
	return nil
}

// background runs something until the test ends.
func (w *world) background(run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// agent is a real one, behind a proxy of its own.
func (w *world) agent() *faultproxy.Proxy {
	w.Helper()
	proxy, err := faultproxy.New(w.Context(), w.kube.RESTConfig)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = proxy.Close() })
	o := agent.Options{
		Kube: proxy.Config(), Dir: w.TempDir(), RenderCommand: needs.Child(w, "render-child"),
		HealthCommand: needs.Child(w, "health-child"),
		Log:           slog.New(slog.NewTextHandler(logs{w}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	w.background(func(ctx context.Context) error { return agent.Run(ctx, o) })
	return proxy
}

// logs is the test's log as a writer.
type logs struct{ *world }

func (l logs) Write(text []byte) (int, error) {
	l.Logf("%s", strings.TrimSpace(string(text)))
	return len(text), nil
}

func TestAnAgentThatBeginsAfterwardsWritesNothing(t *testing.T) {
	for name, registered := range map[string]bool{"registered before": true, "registered afterwards": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.everything()
			w.commit()
			url, says := w.hub()
			if registered {
				w.register(url)
			}
			list, renderer := w.wanted()
			if len(list) != 3 {
				t.Fatalf("%d deployments", len(list))
			}
			for _, service := range []string{"plain", "built", "chart"} {
				for i := range list {
					if list[i].Service != w.name(service) {
						continue
					}
					if list[i].Hold != nil {
						t.Fatal(list[i].Hold)
					}
					outcome, err := w.cluster.Apply(t.Context(), &list[i], renderer, w.tell)
					if err != nil {
						t.Fatalf("%v\n%s", err, strings.Join(w.told, "\n"))
					}
					t.Logf("%s: %d objects, changed %v", service, outcome.Objects, sortedKeys(outcome.Changed))
				}
			}
			if err := w.cluster.Settle(t.Context(), w.tell); err != nil {
				t.Fatal(err)
			}
			for _, text := range w.told {
				if strings.Contains(text, password) {
					t.Errorf("it tells the secret: %s", text)
				}
			}
			before := w.seen()
			if len(before) < 12 {
				t.Errorf("seen: %v", sortedKeys(before))
			}
			if !registered {
				w.register(url)
			}
			proxy := w.agent()
			w.eventually("the fleet has converged", func() bool { return converged(says()) })
			if diff := cmp.Diff(before, w.seen()); diff != "" {
				t.Errorf("objects changed (-before +after):\n%s", diff)
			}
			if writes := w.writes(proxy, 0); len(writes) > 0 {
				t.Errorf("the agent has sent:\n%s", strings.Join(writes, "\n"))
			}
		})
	}
}

// A deployment that is slow to become healthy, with a role that the cluster itself goes on writing. Its agent, which is part of
// it as a rule, is at work on it long before whoever deploys it is done waiting.
func TestAnAgentThatBeginsBeforeTheReleaseIsHealthyWritesNothingAndNorDoesTheRelease(t *testing.T) {
	w := newWorld(t)
	w.service("slow", `{source: {path: apps/slow}, namespace: NS, health: [
  {kind: ConfigMap, healthy: 'self.metadata.annotations.done == "yes"', message: '"turn " + self.metadata.annotations.turn'}]}`)
	w.write("apps/slow/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: slow}\ndata: {a: b}\n")
	w.write("apps/slow/web.yaml", web("slow"))
	w.write("apps/slow/roles.yaml", `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: whole-ID}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {part-of: whole-ID}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: part-ID, labels: {part-of: whole-ID}}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
`)
	roles := w.kube.Dynamic.Resource(gvr("rbac.authorization.k8s.io", "v1", "clusterroles"))
	for _, name := range []string{"whole-", "part-"} {
		t.Cleanup(func() { _ = roles.Delete(context.WithoutCancel(t.Context()), name+w.id, metav1.DeleteOptions{}) })
	}
	d, renderer := w.deployment("slow")
	url, says := w.hub()
	w.register(url)

	told, done := make(chan string, 1000), make(chan error, 1)
	go func() {
		_, err := w.cluster.Apply(t.Context(), d, renderer, func(text string) { told <- text })
		done <- err
	}()
	hears := func(what string) bool {
		for len(told) > 0 {
			if strings.Contains(<-told, what) {
				return true
			}
		}
		return false
	}
	w.eventually("nothing but the slow object is waited for", func() bool { return hears("3 of 4 objects") })
	w.eventually("the role is filled in", func() bool {
		role, err := roles.Get(t.Context(), "whole-"+w.id, metav1.GetOptions{})
		rules, _ := role.Object["rules"].([]any)
		return err == nil && len(rules) == 1
	})
	inventory := func() string {
		name := "plural-inventory-" + w.name("slow")
		found, err := w.kube.Dynamic.Resource(gvr("", "v1", "configmaps")).Namespace(object.SystemNamespace).Get(t.Context(), name,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return found.GetResourceVersion()
	}
	before, beyond := inventory(), len(w.proxy.Requests())
	proxy := w.agent()
	w.eventually("the agent has taken over", func() bool {
		s := says()
		return s != nil && s.Deployments[v1.Progressing] == 1
	})
	for _, turn := range []string{"one", "two", "three", "four"} {
		w.annotate("slow", "turn", turn)
		w.eventually("the release has looked", func() bool { return hears("turn " + turn) })
		w.eventually("the agent has looked", func() bool {
			s := says()
			return s != nil && len(s.Unhealthy) == 1 && strings.Contains(s.Unhealthy[0].Message, "turn "+turn)
		})
	}
	w.annotate("slow", "done", "yes")
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.eventually("the fleet has converged", func() bool { return converged(says()) })

	if now := inventory(); now != before {
		t.Errorf("the inventory is at %s, and was at %s", now, before)
	}
	if writes := w.writes(proxy, 0); len(writes) > 0 {
		t.Errorf("the agent has sent:\n%s", strings.Join(writes, "\n"))
	}
	if writes := w.writes(w.proxy, beyond); len(writes) > 0 {
		t.Errorf("the release has sent:\n%s", strings.Join(writes, "\n"))
	}
}

// annotate is what somebody else writes on a ConfigMap.
func (w *world) annotate(name, key, value string) {
	w.Helper()
	text := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := w.of("", "configmaps").Patch(w.Context(), name, types.MergePatchType, text, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestASecondReleaseWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.everything()
	for _, service := range []string{"plain", "built", "chart"} {
		w.mustApply(service)
	}
	before, beyond := w.seen(), len(w.proxy.Requests())
	w.connect()
	for _, service := range []string{"plain", "built", "chart"} {
		if outcome := w.mustApply(service); len(outcome.Changed) > 0 {
			t.Errorf("%s: changed %v", service, outcome.Changed)
		}
	}
	if writes := w.writes(w.proxy, beyond); len(writes) > 0 {
		t.Errorf("it has sent:\n%s", strings.Join(writes, "\n"))
	}
	if diff := cmp.Diff(before, w.seen()); diff != "" {
		t.Errorf("objects changed (-before +after):\n%s", diff)
	}
}
