package sync_test

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/render"
	agentsync "github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/api"
)

// counted is a transport that counts requests, but for watches.
type counted struct {
	next http.RoundTripper
	seen *requests
}

type requests struct {
	mu  sync.Mutex // guards all
	all []string
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "" {
		c.seen.mu.Lock()
		c.seen.all = append(c.seen.all, r.Method+" "+r.URL.Path)
		c.seen.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

func (r *requests) since(n int) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.all[n:]...)
}

// counting makes engines that start from now on count their requests.
func (w *world) counting() *requests {
	seen := new(requests)
	w.config = rest.CopyConfig(w.config)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, seen} })
	return seen
}

// passes waits until the hub was asked so many times more: time in which an agent could do something.
func (w *world) passes(polls int) {
	w.Helper()
	var before int
	w.hub.set(func() { before = w.hub.asked })
	w.eventually("the hub is polled a few times more", func() bool {
		now := 0
		w.hub.set(func() { now = w.hub.asked })
		return now >= before+polls
	})
}

// quiet waits until nothing was asked of the API server for some polls.
func (w *world) quiet(seen *requests) {
	w.Helper()
	w.eventually("the agent is idle", func() bool {
		before := len(seen.since(0))
		w.passes(3)
		return len(seen.since(before)) == 0
	})
}

// What idling costs an API server is what a fleet pays for ever.
func TestAnIdleAgentAsksAndRendersNothing(t *testing.T) {
	w := newWorld(t)
	seen := w.counting()
	web := w.service("web", map[string]string{"a.yaml": manifest("a", "one"), "b.yaml": manifest("b", "one")})
	broken := w.service("broken", map[string]string{"cm.yaml": "kind: [\n"})
	waits := w.slow("waits", map[string]string{})
	w.hub.asks("", web, broken, waits)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	w.becomes(broken, api.Phase_FAILED)
	w.becomes(waits, api.Phase_PROGRESSING)
	w.quiet(seen)
	before, renders := len(seen.since(0)), w.renders.Load()
	w.passes(10)
	if asked := seen.since(before); len(asked) > 0 || w.renders.Load() != renders {
		t.Errorf("an idle agent rendered %d times, and asked %v", w.renders.Load()-renders, asked)
	}
}

func TestWhatDriftsIsHealedWithoutARender(t *testing.T) {
	w := newWorld(t)
	web := w.configMap("web", "one")
	w.hub.asks("", web)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	renders := w.renders.Load()
	patch := []byte(`{"data":{"value":"edited"}}`)
	if _, err := w.objects.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the edit is taken back", func() bool { return w.live("web") == "one" })
	w.healed("web", "one")
	if got := w.renders.Load() - renders; got != 0 {
		t.Errorf("%d renders", got)
	}
}

func TestARestartedAgentRendersAndWritesNothing(t *testing.T) {
	w := newWorld(t)
	raw, chart := w.configMap("raw", "one"), w.chart("chart", "plain")
	w.hub.asks("", raw, chart)
	stop := w.start()
	w.becomes(raw, api.Phase_HEALTHY)
	w.becomes(chart, api.Phase_HEALTHY)
	stop()
	w.hub.set(func() { w.hub.reports = nil })
	seen, renders := w.counting(), w.renders.Load()
	w.start()
	w.becomes(raw, api.Phase_HEALTHY)
	w.becomes(chart, api.Phase_HEALTHY)
	w.quiet(seen)
	if got := w.renders.Load() - renders; got != 0 {
		t.Errorf("%d renders", got)
	}
	for _, request := range seen.since(0) {
		if !strings.HasPrefix(request, http.MethodGet+" ") {
			t.Errorf("a restarted agent sent %s", request)
		}
	}
	w.delete("chart")
	w.eventually("what was deleted is back", func() bool { return w.live("chart") == "plain" })
}

// chart is a service of one ConfigMap, rendered by helm. A value of "capable" is taken from what the cluster can do.
func (w *world) chart(name, value string) *api.Deployment {
	w.Helper()
	if value == "capable" {
		value = `{{ .Capabilities.APIVersions.Has "example.com/v1" | quote }}`
	}
	return w.service(name, map[string]string{
		"Chart.yaml":        "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n",
		"templates/cm.yaml": manifest(name, value),
	}, func(d *api.Deployment) { d.Renderer = render.HelmChart })
}

func TestOnlyRendersThatDependOnWhatTheClusterCanDoAreMadeAgain(t *testing.T) {
	w := newWorld(t)
	raw, plain, capable := w.configMap("raw", "one"), w.chart("plain", "one"), w.chart("capable", "capable")
	w.hub.asks("", raw, plain, capable)
	stop := w.start()
	for _, d := range []*api.Deployment{raw, plain, capable} {
		w.becomes(d, api.Phase_HEALTHY)
	}
	if got := w.live("capable"); got != "false" {
		t.Errorf("value = %q", got)
	}
	renders := w.renders.Load()
	w.can <- agentsync.Capabilities{KubeVersion: "v1.35.0", APIVersions: []string{"v1", "example.com/v1"}}
	w.eventually("the chart is rendered again", func() bool { return w.live("capable") == "true" })
	if got := w.renders.Load() - renders; got != 1 {
		t.Errorf("%d renders", got)
	}
	w.passes(3) // and written down
	stop()
	w.start() // with what the cluster could do at first
	w.eventually("the chart is rendered for what the cluster can do now", func() bool { return w.live("capable") == "false" })
	if got := w.renders.Load() - renders; got != 2 {
		t.Errorf("%d renders", got)
	}
}

// slow is a service with an object that is healthy once somebody annotates it, and files beside.
func (w *world) slow(name string, files map[string]string) *api.Deployment {
	w.Helper()
	files["svc.yaml"] = "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {ports: [{port: 80}]}\n"
	return w.service(name, files, func(d *api.Deployment) {
		d.Health = []*api.HealthRule{{Kind: "Service", Healthy: `has(self.metadata.annotations) && "ready" in self.metadata.annotations`}}
	})
}

// ready annotates that object.
func (w *world) ready(name string) {
	w.Helper()
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		w.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "services"}).Namespace(w.ns)
	patch := []byte(`{"metadata":{"annotations":{"ready":""}}}`)
	if _, err := services.Patch(w.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		w.Fatal(err)
	}
}

func TestARenderThatCannotSucceedIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	good := w.configMap("web", "one")
	w.hub.asks("", good)
	w.start()
	w.becomes(good, api.Phase_HEALTHY)
	broken := w.service("web", map[string]string{"cm.yaml": "kind: [\n"})
	w.hub.asks("", broken)
	w.becomes(broken, api.Phase_FAILED)
	renders := w.renders.Load()
	for range 3 { // each a pass in which it could be tried again
		w.healed("web", "one")
	}
	if got := w.renders.Load() - renders; got > 1 { // the last good one, once
		t.Errorf("%d renders", got)
	}
	if s := w.becomes(broken, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "cm.yaml") {
		t.Errorf("message = %q", s.GetMessage())
	}
}

func TestWhatWaitsForHealthHoldsNoPlace(t *testing.T) {
	w := newWorld(t)
	var all []*api.Deployment
	for i := range 5 { // more than there are places
		name := "slow-" + strconv.Itoa(i)
		second := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {argocd.argoproj.io/sync-wave: \"1\"}}\ndata: {value: x}\n"
		all = append(all, w.slow(name, map[string]string{"cm.yaml": second}))
	}
	w.hub.asks("", all...)
	w.start()
	for _, d := range all {
		if s := w.becomes(d, api.Phase_PROGRESSING); !strings.Contains(s.GetMessage(), d.GetService()) {
			t.Errorf("message = %q", s.GetMessage())
		}
		if w.live(d.GetService()) != "" {
			t.Errorf("%s did not wait", d.GetService())
		}
	}
	web := w.configMap("web", "one")
	w.hub.asks("", append(all, web)...)
	w.becomes(web, api.Phase_HEALTHY)
	for _, d := range all {
		w.ready(d.GetService())
	}
	for _, d := range all {
		w.becomes(d, api.Phase_HEALTHY)
		if w.live(d.GetService()) != "x" {
			t.Errorf("%s has no second wave", d.GetService())
		}
	}
}

func TestTwentyFailingServicesLeaveAHealthyOneAlone(t *testing.T) {
	w := newWorld(t)
	var all []*api.Deployment
	for i := range 20 {
		name := "bad-" + strconv.Itoa(i)
		text := "kind: [\n"
		if i%2 == 0 {
			text = "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + "}\nspec: {ports: [{port: 99999}]}\n"
		}
		all = append(all, w.service(name, map[string]string{"x.yaml": text}))
	}
	web := w.configMap("web", "one")
	w.hub.asks("", append(all, web)...)
	w.start()
	w.becomes(web, api.Phase_HEALTHY)
	for _, d := range all {
		w.becomes(d, api.Phase_FAILED)
	}
	for i := range 3 {
		value := "v" + strconv.Itoa(i)
		web = w.configMap("web", value)
		w.hub.asks("", append(all, web)...)
		w.becomes(web, api.Phase_HEALTHY)
		w.healed("web", value)
	}
}

// An object that moves from one service to another in one commit is never deleted in between.
func TestAnObjectMovesBetweenServicesUnharmed(t *testing.T) {
	w := newWorld(t)
	both := map[string]string{"own.yaml": manifest("own-a", "x"), "moved.yaml": manifest("moved", "x")}
	a := w.service("a", both)
	b := w.service("b", map[string]string{"own.yaml": manifest("own-b", "x")})
	w.hub.asks("", a, b)
	w.start()
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	before := w.uid("moved")
	a = w.service("a", map[string]string{"own.yaml": manifest("own-a", "x")})
	files := map[string]string{"own.yaml": manifest("own-b", "x"), "moved.yaml": manifest("moved", "two")}
	b = w.service("b", maps.Clone(files))
	w.hub.asks("", a, b)
	w.becomes(a, api.Phase_HEALTHY)
	w.becomes(b, api.Phase_HEALTHY)
	if w.uid("moved") != before || w.live("moved") != "two" {
		t.Errorf("moved is %q, uid %s, and was %s", w.live("moved"), w.uid("moved"), before)
	}
}

func (w *world) uid(name string) string {
	w.Helper()
	object, err := w.objects.Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return string(object.GetUID())
}

// A plugin renders like any other renderer: once for a key, and again when the program or what the cluster can do is another.
func TestAPluginRendersOnceForAProgram(t *testing.T) {
	w := newWorld(t)
	web := w.service("web", map[string]string{"x.txt": "x"}, func(d *api.Deployment) { d.Renderer = "printer" })
	w.hub.asks("", web)
	stop := w.start()
	if s := w.becomes(web, api.Phase_FAILED); !strings.Contains(s.GetMessage(), "printer") {
		t.Errorf("message = %q", s.GetMessage())
	}
	stop()
	w.plugins = t.TempDir()
	program := func(value string) {
		t.Helper()
		text := "#!/bin/sh\necho '{apiVersion: config.kubernetes.io/v1, kind: ResourceList, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {value: " + value + "}}]}'\n"
		if err := os.WriteFile(filepath.Join(w.plugins, "printer"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("one")
	stop = w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if got := w.live("web"); got != "one" {
		t.Errorf("value = %q", got)
	}
	w.passes(3) // and written down
	stop()
	renders := w.renders.Load()
	w.hub.set(func() { w.hub.reports = nil })
	stop = w.start()
	w.becomes(web, api.Phase_HEALTHY)
	if got := w.renders.Load() - renders; got != 0 {
		t.Errorf("%d renders by the same program", got)
	}
	stop()
	program("two")
	w.start()
	w.eventually("the new program has rendered", func() bool { return w.live("web") == "two" })
}
