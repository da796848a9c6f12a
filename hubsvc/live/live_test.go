package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/live"
)

const settings = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: value}}`

func TestAServicesTreeShowsWhatThePersonMaySee(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", web, settings)
	w.allows("alice", "apps", "replicasets", "list")
	w.allows("alice", "", "pods", "list")
	w.allows("bob", "", "pods", "list")
	own := []string{"ConfigMap settings", "Deployment web"}
	for who, want := range map[string][]string{
		"carol": own,
		"alice": append(slices.Clone(own), ".ReplicaSet", "..Pod"),
		"bob":   append(slices.Clone(own), "Pod"),
	} {
		var got []string
		w.eventually(who+"'s tree is whole", func() bool {
			got = names(w.list(who, "{at}/services/{service}/objects"))
			slices.SortFunc(got, func(a, b string) int { return slices.Index(want, a) - slices.Index(want, b) })
			return len(got) >= len(want)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", who, diff)
		}
	}
	inOrder := names(w.list("alice", "{at}/services/{service}/objects"))
	if diff := cmp.Diff([]string{"ConfigMap settings", "Deployment web", ".ReplicaSet", "..Pod"}, inOrder); diff != "" {
		t.Error(diff)
	}
	for who, says := range map[string]bool{"carol": false, "dora": true} {
		if who == "dora" {
			w.allows(who, "apps", "deployments", "list")
		}
		for _, o := range w.list(who, "{at}/services/{service}/objects").Items {
			if o.Kind == "Deployment" && (o.Message != "") != says {
				t.Errorf("%s is told by the deployment itself: %q", who, o.Message)
			}
		}
	}
	if got := w.list("alice", "{at}/services/{service}/objects?filter=kind:Deployment").Items; len(got) != 1 || got[0].Resource != "deployments" || got[0].Created == nil {
		t.Errorf("filtered: %v", got)
	}
}

func TestWhoMayNotLookIsToldAsLittleAsPossible(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name, who, target string
		code              int
		says              string
	}{
		{"nobody", "", "{at}/services/{service}/objects", http.StatusUnauthorized, "not logged in"},
		{"somebody without the right to view", "blind", "{at}/services/{service}/objects", http.StatusForbidden, "blind may not view the fleet"},
		{"a cluster that is not there", "alice", "/v1/clusters/edge-2/objects?resource=pods", http.StatusNotFound, `no cluster \"edge-2\"`},
		{"a cluster that is not hers", "stranger", "{at}/objects?resource=pods", http.StatusNotFound, `no cluster \"edge-1\"`},
		{"a service that is not there", "alice", "{at}/services/other/objects", http.StatusNotFound, `no service \"other\"`},
		{"a kind that she may not list", "alice", "{at}/objects?resource=secrets&namespace={ns}", http.StatusForbidden, "cannot list resource"},
		{"everything of a kind", "alice", "{at}/objects?resource=secrets", http.StatusForbidden, "cannot list resource"},
		{"a kind that is none", "alice", "{at}/objects?resource=" + "a%2Fb", http.StatusBadRequest, "is no name"},
		{"a namespace that leads elsewhere", "alice", "{at}/objects?resource=pods&namespace=..", http.StatusBadRequest, "is no name"},
		{"no kind", "alice", "{at}/objects", http.StatusBadRequest, "resource is not given"},
		{"the hub's log", "alice", "/v1/hub/logs", http.StatusForbidden, "may not admin"},
		{"another order", "alice", "{at}/services/{service}/objects?sort=secret", http.StatusBadRequest, "sort"},
		{"nonsense as filter", "alice", "{at}/services/{service}/objects?filter=health:purple", http.StatusBadRequest, "health"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, text := w.get(tt.who, tt.target)
			if code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s, want %d with %q", code, text, tt.code, tt.says)
			}
		})
	}
}

// TestNothingIsAnsweredFromMemoryBeforeThePersonWasLetThrough has one person fill the memory, and another ask for the same.
func TestNothingIsAnsweredFromMemoryBeforeThePersonWasLetThrough(t *testing.T) {
	w := newWorld(t)
	w.allows("alice", "", "configmaps", "list")
	target := "{at}/objects?resource=configmaps&namespace={ns}"
	stream := w.watch("alice", target+"&watch=1") // keeps it in memory
	stream.until("it is shown", stream.has("ConfigMap", "kube-root-ca.crt"))
	if code, text := w.get("bob", target); code != http.StatusForbidden {
		t.Errorf("bob: %d %s", code, text)
	}
	path := "/api/v1/namespaces/" + w.Namespace + "/configmaps"
	before := w.times(http.MethodGet, path)
	for range 5 {
		w.list("alice", target)
	}
	if got := w.times(http.MethodGet, path) - before; got != 0 {
		t.Errorf("the cluster was asked %d times for what is known for some seconds", got)
	}
	if got := w.events.Load(); got != 1 {
		t.Errorf("%d streams of one kind", got)
	}
}

func TestAKindIsListedInPages(t *testing.T) {
	w := newWorld(t)
	w.allows("alice", "", "configmaps", "list")
	for i := range 5 {
		w.create("configmaps", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}, data: {a: canary}}`, i))
	}
	target := "{at}/objects?resource=configmaps&namespace={ns}&limit=2&sort=-name&filter=name:c*"
	var got []string
	for next := ""; ; {
		page := w.list("alice", target+"&continue="+next)
		if page.Total != 5 || len(page.Items) > 2 {
			t.Fatalf("page %+v", page)
		}
		got = append(got, names(page)...)
		if next = page.Next; next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"ConfigMap c4", "ConfigMap c3", "ConfigMap c2", "ConfigMap c1", "ConfigMap c0"}, got); diff != "" {
		t.Error(diff)
	}
	if _, text := w.get("alice", target); strings.Contains(text, "canary") {
		t.Errorf("content is shown: %s", text)
	}
}

func TestAWatchTellsWhatChanges(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", web, settings)
	w.allows("alice", "apps", "replicasets", "list")
	w.allows("alice", "", "pods", "list")
	s := w.watch("alice", "{at}/services/{service}/objects?watch=1")
	for name := ""; name != "ready"; name, _ = s.next() {
	}
	if !s.has("Deployment", "web")() || !s.has("ConfigMap", "settings")() {
		t.Errorf("shown before it is ready: %v", s.shown)
	}
	filtered := w.watch("alice", "{at}/services/{service}/objects?watch=1&filter=kind:ConfigMap")
	filtered.until("one is shown", filtered.has("ConfigMap", "settings"))
	s.until("the deployment is healthy", func() bool {
		return slices.ContainsFunc(slices.Collect(values(s.shown)), func(o v1.Object) bool { return o.Kind == "Deployment" && o.Health == v1.ObjectHealthy })
	})
	w.apply("k2", web)
	s.until("what is deleted goes", func() bool { return !s.has("ConfigMap", "settings")() })
	filtered.until("it goes there too", func() bool { return len(filtered.shown) == 0 })
	for _, o := range filtered.shown {
		t.Errorf("%s is shown in spite of the filter", o.Kind)
	}
}

func values(m map[string]v1.Object) func(func(v1.Object) bool) {
	return func(yield func(v1.Object) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func TestAWatchOfARevokedPersonEndsInSeconds(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	s := w.watch("alice", "{at}/services/{service}/objects?watch=1")
	s.until("it is shown", s.has("ConfigMap", "settings"))
	w.revoke("alice")
	revoked := time.Now()
	for name := "objects"; name != ""; {
		var data string
		if name, data = s.next(); name == "reset" && !strings.Contains(data, "withdrawn") {
			t.Errorf("it ends with %s", data)
		}
	}
	if took := time.Since(revoked); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestAPersonHasAFewStreamsAndNoMore(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	for range 16 {
		w.watch("alice", "{at}/services/{service}/objects?watch=1")
	}
	if code, text := w.get("alice", "{at}/services/{service}/objects?watch=1"); code != http.StatusTooManyRequests {
		t.Errorf("%d %s", code, text)
	}
	w.watch("bob", "{at}/services/{service}/objects?watch=1")
	if got := w.events.Load(); got != 1 {
		t.Errorf("%d streams from the agent for 17 people who look at one thing", got)
	}
}

func TestWhatNobodyLooksAtIsNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	w.list("alice", "{at}/services/{service}/objects")
	w.eventually("the agent's stream ends", func() bool { return w.events.Load() == 0 })
}

func TestAWatchOutlivesTheReplacementOfAnAgentsConnection(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	s := w.watch("alice", "{at}/services/{service}/objects?watch=1")
	s.until("it is shown", s.has("ConfigMap", "settings"))
	w.eventually("the connection has held for a moment", func() bool { return time.Since(w.started()) > 50*time.Millisecond })
	w.leave(false)
	w.apply("k2", web)
	s.until("what changed meanwhile is shown", func() bool { return s.has("Deployment", "web")() && !s.has("ConfigMap", "settings")() })
}

func TestAnAbsentAgentIsSaidAtOnce(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	s := w.watch("alice", "{at}/services/{service}/objects?watch=1")
	s.until("it is shown", s.has("ConfigMap", "settings"))
	w.eventually("the connection has held for a moment", func() bool { return time.Since(w.started()) > 50*time.Millisecond })
	w.leave(true)
	name, data := s.next()
	for name == "ready" || name == "objects" {
		name, data = s.next()
	}
	if name != "reset" || !strings.Contains(data, "not connected") {
		t.Errorf("%s %s", name, data)
	}
	for _, target := range []string{"{at}/services/{service}/objects", "{at}/services/{service}/diff", "{at}/agent/logs"} {
		resp := w.send(t.Context(), "alice", http.MethodGet, target, "")
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d", target, resp.StatusCode)
		}
	}
	w.leave(false)
	if got := names(w.list("alice", "{at}/services/{service}/objects")); len(got) != 1 {
		t.Errorf("after its return: %v", got)
	}
}

func TestEventsAreThoseOfTheServicesObjects(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", settings)
	uid := string(w.live("configmaps", "settings").GetUID())
	event := func(name, uid, kind, reason, last string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: Event, metadata: {name: %s}, type: %s, reason: %s, message: said, count: 3, lastTimestamp: %q,
source: {component: tester}, involvedObject: {kind: ConfigMap, name: settings, namespace: %s, uid: %q}}`, name, kind, reason, last, w.Namespace, uid)
	}
	w.create("events", event("one", uid, "Normal", "First", "2026-01-01T00:00:00Z"))
	w.create("events", event("two", uid, "Warning", "Second", "2026-01-02T00:00:00Z"))
	w.create("events", event("three", "of-another", "Warning", "Third", "2026-01-03T00:00:00Z"))
	if code, text := w.get("alice", "{at}/services/{service}/events"); code != http.StatusForbidden || !strings.Contains(text, "cannot list resource") {
		t.Errorf("%d %s", code, text)
	}
	w.allows("alice", "", "events", "list")
	var got v1.List[v1.ObjectEvent]
	code, text := w.get("alice", "{at}/services/{service}/events")
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	want := []v1.ObjectEvent{
		{Time: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Count: 3, Warning: true, Reason: "Second", Message: "said", Object: uid, Kind: "ConfigMap", Namespace: w.Namespace, Name: "settings", From: "tester"},
		{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Count: 3, Reason: "First", Message: "said", Object: uid, Kind: "ConfigMap", Namespace: w.Namespace, Name: "settings", From: "tester"},
	}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Error(diff)
	}
	if _, text := w.get("alice", "{at}/services/{service}/events?filter=warning:false"); !strings.Contains(text, "First") || strings.Contains(text, "Second") {
		t.Errorf("filtered: %s", text)
	}
}

func (w *world) live(resource, name string) *unstructured.Unstructured {
	w.Helper()
	obj, err := w.client(resource).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return obj
}

func TestADiffsFieldsAreForThoseWhoMayReadTheObjects(t *testing.T) {
	w := newWorld(t)
	w.diff = &tunnelapi.DiffReply{Objects: []*tunnelapi.ObjectDiff{
		{Kind: "ConfigMap", Version: "v1", Resource: "configmaps", Namespace: w.Namespace, Name: "a", Action: "changed", Fields: []*tunnelapi.FieldDiff{{Path: "data.a", Live: `"x"`, Desired: `"y"`}}},
		{Kind: "Secret", Version: "v1", Resource: "secrets", Namespace: w.Namespace, Name: "b", Action: "changed", Fields: []*tunnelapi.FieldDiff{{Path: "data.b", Live: `"***(1)"`, Desired: `"***(2)"`}}},
		{Kind: "Odd", Resource: "../odd", Namespace: w.Namespace, Name: "c", Action: "failed", Message: "refused", Fields: []*tunnelapi.FieldDiff{{Path: "x"}}},
	}}
	w.allows("alice", "", "configmaps", "list")
	code, text := w.get("alice", "{at}/services/{service}/diff")
	var got v1.Diff
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	want := v1.Diff{Objects: []v1.ObjectDiff{
		{Kind: "ConfigMap", Version: "v1", Resource: "configmaps", Namespace: w.Namespace, Name: "a", Action: v1.ObjectChanged, Fields: []v1.FieldDiff{{Path: "data.a", Live: `"x"`, Desired: `"y"`}}},
		{Kind: "Secret", Version: "v1", Resource: "secrets", Namespace: w.Namespace, Name: "b", Action: v1.ObjectChanged, Hidden: true},
		{Kind: "Odd", Resource: "../odd", Namespace: w.Namespace, Name: "c", Action: v1.ObjectFailed, Message: "refused", Hidden: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	big := &tunnelapi.DiffReply{More: 1}
	for i := range 400 {
		big.Objects = append(big.Objects, &tunnelapi.ObjectDiff{Kind: "ConfigMap", Name: strings.Repeat("n", 250), Action: "created", Message: strings.Repeat("m", 250), More: int32(i)})
	}
	w.diff = big
	if _, text = w.get("alice", "{at}/services/{service}/diff"); len(text) > 100_000 || json.Unmarshal([]byte(text), &got) != nil || got.More+len(got.Objects) < 400 {
		t.Errorf("%d bytes, %d objects and %d more", len(text), len(got.Objects), got.More)
	}
}

func TestAServiceIsRestartedByThePerson(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", web, free, settings)
	if code, text := w.ask("alice", http.MethodPost, "{at}/services/{service}/restart", ""); code != http.StatusForbidden || !strings.Contains(text, "cannot patch resource") {
		t.Errorf("%d %s", code, text)
	}
	w.allows("alice", "apps", "deployments", "patch")
	code, text := w.ask("alice", http.MethodPost, "{at}/services/{service}/restart", "")
	var acted v1.Acted
	if err := json.Unmarshal([]byte(text), &acted); err != nil || code != http.StatusOK || len(acted.Objects) != 2 || !acted.Objects[0].Done || !acted.Objects[1].Done {
		t.Fatalf("%d %s", code, text)
	}
	for _, name := range []string{"web", "free"} {
		at, _, _ := unstructured.NestedString(w.live("deployments", name).Object, "spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Errorf("%s was restarted at %q", name, at)
		}
	}
	if code, text := w.ask("alice", http.MethodPost, "{at}/objects/restart", `{"resource":"configmaps","namespace":"{ns}","name":"settings"}`); code != http.StatusBadRequest {
		t.Errorf("a ConfigMap: %d %s", code, text)
	}
}

func TestScalingSaysWhenTheFleetWillUndoIt(t *testing.T) {
	w := newWorld(t)
	w.apply("k1", web, free)
	w.allows("alice", "apps", "deployments/scale", "patch")
	w.allows("alice", "apps", "deployments", "get")
	for _, tt := range []struct {
		name   string
		healed bool
	}{{"web", true}, {"free", false}} {
		body := fmt.Sprintf(`{"group":"apps","resource":"deployments","namespace":%q,"name":%q,"replicas":3}`, w.Namespace, tt.name)
		code, text := w.ask("alice", http.MethodPost, "{at}/objects/scale", body)
		if code != http.StatusOK || strings.Contains(text, "sets them back") != tt.healed {
			t.Errorf("%s: %d %s", tt.name, code, text)
		}
		if got, _, _ := unstructured.NestedInt64(w.live("deployments", tt.name).Object, "spec", "replicas"); got != 3 {
			t.Errorf("%s has %d replicas", tt.name, got)
		}
	}
	for name, body := range map[string]string{
		"no replicas":      `{"group":"apps","resource":"deployments","name":"web"}`,
		"fewer than none":  `{"group":"apps","resource":"deployments","name":"web","replicas":-1}`,
		"an unknown field": `{"resource":"deployments","name":"web","replicas":1,"force":true}`,
		"a path":           `{"resource":"deployments","name":"../secrets","replicas":1}`,
		"two values":       `{"resource":"deployments","name":"web","replicas":1}{}`,
		"nothing":          ``,
	} {
		if code, text := w.ask("alice", http.MethodPost, "{at}/objects/scale", body); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
}

func TestOwnLogsAreReadByWhoMay(t *testing.T) {
	w := newWorld(t)
	w.logger(w.agent).Info("pass\x1b[31m", "service", "web")
	w.logger(w.agent).Info("pass", "service", "db")
	w.logger(w.own).Warn("hub", "n", 1)
	if code, text := w.get("alice", "{at}/agent/logs?service=web"); code != http.StatusOK || !strings.HasSuffix(text, ` info pass\x1b[31m service=web`+"\n") || strings.Contains(text, "db") {
		t.Errorf("%d %q", code, text)
	}
	if code, text := w.get("admin", "/v1/hub/logs"); code != http.StatusOK || !strings.HasSuffix(text, " warn hub n=1\n") {
		t.Errorf("%d %q", code, text)
	}
	for _, query := range []string{"tail=-1", "tail=9999", "follow=perhaps"} {
		if code, _ := w.get("admin", "/v1/hub/logs?"+query); code != http.StatusBadRequest {
			t.Errorf("%s: %d", query, code)
		}
	}
}

func TestALogIsFollowedUntilThePersonMayNotAnyMore(t *testing.T) {
	for _, target := range []string{"{at}/agent/logs?follow=1&tail=1", "/v1/hub/logs?follow=1&tail=1"} {
		t.Run(target, func(t *testing.T) {
			w := newWorld(t)
			ring := w.own
			if strings.HasPrefix(target, "{at}") {
				ring = w.agent
			}
			w.logger(ring).Info("before")
			resp := w.send(t.Context(), "admin", http.MethodGet, target, "")
			lines := lineReader(resp.Body)
			if got := lines(); !strings.HasSuffix(got, "before") {
				t.Fatal(got)
			}
			w.logger(ring).Info("after")
			if got := lines(); !strings.HasSuffix(got, "after") {
				t.Fatal(got)
			}
			w.revoke("admin")
			if got := lines(); got != "" {
				t.Errorf("after the end: %q", got)
			}
		})
	}
}

func TestEveryRouteIsDescribed(t *testing.T) {
	w := newWorld(t)
	document, err := openapi.Document("test", live.APIRoutes())
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(document) {
		t.Error("the document is no JSON")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, route := range live.APIRoutes() {
		target := strings.NewReplacer("{cluster}", "edge-1", "{service}", w.service, "{namespace}", "a", "{pod}", "b").Replace(route.Path)
		if resp := w.send(ctx, "", route.Method, target, ""); resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusUpgradeRequired {
			t.Errorf("%s %s: %d without a token", route.Method, route.Path, resp.StatusCode)
		}
	}
}
