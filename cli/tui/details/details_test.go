package details

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/adrg/xdg"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

var (
	onEdge  = pane.Subject{Kind: pane.KindDeployment, Cluster: "edge-1", Service: "web", Phase: v1.Degraded}
	theWeb  = pane.Subject{Kind: pane.KindService, Name: "web"}
	theEdge = pane.Subject{Kind: pane.KindCluster, Name: "edge-1"}
)

func deployment() v1.Deployment {
	return v1.Deployment{
		Service: "web", Cluster: "edge-1", Phase: v1.Degraded, Key: "k2", AppliedKey: "k1", Version: "1.3.0", AppliedVersion: "1.2.0",
		Objects: 4, Ready: 3, Message: "Deployment shop/web: 1 of 3 pods is not ready\x1b[2J",
		Problems: []v1.Problem{{Object: "Deployment shop/web", Reason: "NotReady", Message: "image cannot be pulled", File: "services/web.yaml", Line: 7, Fix: "mend the tag"}},
		Held:     &v1.Waiting{Token: "abc123", Count: 3, Names: []string{"ConfigMap shop/a", "ConfigMap shop/b"}, Message: "3 objects would be deleted"},
		Tests: []v1.Test{
			{Name: "smoke", Outcome: v1.TestFailed, Message: "answered 500", Log: "GET /\n500 oops\n", Tries: 3, Took: 1.5},
			{Name: "dns", Outcome: v1.TestPassed, Took: 0.25},
		},
		Notes: []string{"somebody else owns spec.replicas of Deployment shop/web, which is left to them"},
	}
}

func TestADeploymentIsDescribed(t *testing.T) {
	w, _ := world(t, map[string]any{"/v1/deployments/edge-1/web": deployment()})
	s := open(t, w, "describe", onEdge)
	if got := s.screen(80, 5); !strings.Contains(got, "asking cluster edge-1 ...") {
		t.Errorf("got %s", got)
	}
	s.play(nil)
	s.golden("describe-deployment")
}

func TestAClusterIsDescribed(t *testing.T) {
	w, _ := world(t, map[string]any{
		"/v1/clusters/edge-1": v1.ClusterDetail{
			Cluster: v1.Cluster{
				Name: "edge-1", Phase: v1.Stale, Tags: map[string]string{"env": "prod", "region": "eu"}, Services: 3, Ready: 1, KubernetesVersion: "v1.35.0",
				AgentVersion: "1.2.3", LastReport: ago(7 * time.Minute), Message: "its agent is silent",
			},
			Deployments: []v1.Deployment{deployment(), {Service: "db", Cluster: "edge-1", Phase: v1.Healthy}},
		},
		"/v1/clusters/edge-1/connections": v1.List[v1.Connection]{Items: []v1.Connection{{Name: "c1", Host: "agent-0", Replica: "hub-1", Since: *ago(time.Hour), Streams: 2}}},
	})
	s := open(t, w, "describe", theEdge)
	s.play(nil)
	s.golden("describe-cluster")
}

func TestALongNameEndsBeforeItsValue(t *testing.T) {
	f := &facts{}
	for _, name := range []string{"  hub-f1e6db", "  hub-f1e6dbae", "  hub-f1e6dbae7e"} {
		f.fact(name, "from vm")
		if got := f.lines[len(f.lines)-1]; !strings.HasPrefix(got[0].text, name+"  ") {
			t.Errorf("%q is followed by %q at once", got[0].text, got[1].text)
		}
	}
}

func TestOtherSubjectsAreDescribed(t *testing.T) {
	object := &v1.Object{UID: "u1", Version: "v1", Kind: "Pod", Resource: "pods", Namespace: "shop", Name: "web-0", Health: v1.ObjectDegraded, Message: "crash loop", Created: ago(time.Hour)}
	w, _ := world(t, map[string]any{
		"/v1/services/web":   v1.Service{Name: "web", Phase: v1.Degraded, Source: ".", Path: "apps/web", Renderer: "helm", Namespace: "shop", Clusters: 2, Ready: 1, Deployments: []v1.Deployment{deployment()}},
		"/v1/sources/_":      v1.Source{Name: ".", Kind: "git", URL: "https://git.example/fleet", Ref: "main", Commit: "abc", LastFetch: ago(time.Minute), Error: "cannot reach it", Refs: []v1.SourceRef{{Ref: "main", Commit: "abcdef0123", Rewound: "it left its history"}}},
		"/v1/upgrades":       v1.List[v1.Upgrade]{Items: []v1.Upgrade{{Installation: "cert", Package: "cert-manager", Catalog: "builtin", Version: "1.0", Newest: "2.0", State: v1.UpgradeBlocked, Reasons: []v1.UpgradeReason{{Message: "2.0 breaks things", Fix: "plural package upgrade cert"}}}}},
		"/v1/history/c0ffee": v1.Revision{Commit: v1.Commit{ID: "c0ffee", Subject: "Scale web", Author: "Ann", Time: ago(time.Hour)}, Files: []string{"services/web.yaml"}, Result: v1.ResultCurrent},
		"/v1/status":         v1.Status{Workspace: "acme", Commit: v1.Commit{ID: "a"}, Head: v1.Commit{ID: "b"}, Refused: []v1.Problem{{Message: "no such source", File: "services/x.yaml"}}, Clusters: v1.Counts{v1.Healthy: 3}},
		"/v1/kube/token":     v1.KubeToken{Token: "k", Expires: now.Add(time.Hour)},
		"/k8s/edge-1/api/v1/namespaces/shop/pods/web-0": pod(),
		"/v1/clusters/edge-1/services/web/events": v1.List[v1.ObjectEvent]{Items: []v1.ObjectEvent{
			{Time: *ago(time.Minute), Object: "u1", Kind: "Pod", Name: "web-0", Reason: "BackOff", Message: "restarting", Warning: true, Count: 4},
			{Time: *ago(time.Minute), Object: "u2", Kind: "Pod", Name: "web-1", Reason: "Other", Message: "not this one"},
		}},
	})
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	for _, tt := range []struct {
		about pane.Subject
		want  []string
	}{
		{theWeb, []string{"service       web", "apps/web", "1/2 healthy", "edge-1", "Deployment shop/web: 1 of 3"}},
		{pane.Subject{Kind: pane.KindSource, Name: "."}, []string{"https://git.example/fleet", "cannot reach it", "it left its history"}},
		{pane.Subject{Kind: pane.KindPackage, Name: "cert"}, []string{"cert-manager of catalog builtin", "2.0 breaks things", "plural package upgrade cert"}},
		{pane.Subject{Kind: pane.KindCommit, Name: "c0ffee"}, []string{"Scale web", "Ann", "services/web.yaml", "current"}},
		{pane.Subject{Kind: pane.KindFleet}, []string{"acme", "3 healthy", "no such source"}},
		{pane.Subject{Kind: pane.KindObject, Cluster: "edge-1", Service: "web", Object: object}, []string{
			"Pod /v1", "crash loop", "app: web", "example.com/web:1", "waiting CrashLoopBackOff", "5 restarts", "warning BackOff (4 times): restarting",
		}},
	} {
		s := open(t, w, "describe", tt.about)
		s.play(nil)
		s.says(tt.want...)
		if strings.Contains(s.screen(140, 60), "not this one") {
			t.Error("an event of another object is told")
		}
	}
}

func pod() map[string]any {
	var p map[string]any
	_ = json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","labels":{"app":"web"},
		"managedFields":[{"manager":"a"},{"manager":"b"}]},
		"spec":{"nodeName":"n1","containers":[{"name":"main","image":"example.com/web:1"}]},
		"status":{"phase":"Running","containerStatuses":[{"name":"main","ready":false,"restartCount":5,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}],
		"conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}]}}`), &p)
	return p
}

func TestWhatTheHubDoesNotSayIsToldInItsPlace(t *testing.T) {
	w, h := world(t, map[string]any{})
	s := open(t, w, "describe", onEdge)
	s.play(nil)
	s.says("error: there is no /v1/deployments/edge-1/web", "fix: look elsewhere")
	h.set("/v1/deployments/edge-1/web", deployment())
	s.press("r")
	s.play(nil)
	s.says("service       web", "as of 0s ago")
	h.set("/v1/deployments/edge-1/web", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	now := now.Add(3 * time.Minute)
	w.Now = func() time.Time { return now }
	s.press("r")
	s.play(nil)
	s.says("error: bad gateway", "service       web", "as of 3m ago, not answered since")
}

func TestAnObjectThatIsDeletedWhileItIsDescribedSaysSo(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	const path = "/k8s/edge-1/api/v1/namespaces/shop/pods/web-0"
	live := func(changes map[string]any) map[string]any {
		p := pod()
		for name, value := range changes {
			p["metadata"].(map[string]any)[name] = value
		}
		return p
	}
	refusal := func(status int, message string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v1.Error{Message: message})
		}
	}
	w, h := world(t, map[string]any{
		"/v1/kube/token": v1.KubeToken{Token: "k", Expires: now.Add(time.Hour)}, path: live(map[string]any{"uid": "u1"}),
		"/v1/clusters/edge-1/services/web/events": v1.List[v1.ObjectEvent]{},
	})
	clock := now
	w.Now = func() time.Time { return clock }
	about := pane.Subject{Kind: pane.KindObject, Cluster: "edge-1", Service: "web", Object: &v1.Object{
		UID: "u1", Version: "v1", Kind: "Pod", Resource: "pods", Namespace: "shop", Name: "web-0", Health: v1.ObjectHealthy,
	}}
	s := open(t, w, "describe", about)
	s.play(nil)
	s.says("healthy", "phase         Running", "as of 0s ago")
	later := func(answer any) string {
		t.Helper()
		h.set(path, answer)
		clock = clock.Add(2 * time.Second)
		if cmd := s.Update(pane.Tick{Now: clock}); cmd != nil {
			t.Error("it asks again after two seconds")
		}
		clock = clock.Add(time.Second)
		s.run(s.Update(pane.Tick{Now: clock}))
		if note := s.Pane.(pane.Noted).Note(); strings.Contains(note, "asking") {
			t.Errorf("says %q, although nobody asked", note)
		}
		s.play(nil)
		return s.screen(140, 60)
	}
	later(live(map[string]any{"uid": "u1", "deletionTimestamp": "2026-03-04T12:00:03Z"}))
	s.says("it is being deleted", "as of 0s ago")
	later(refusal(http.StatusServiceUnavailable, "its agent is not connected"))
	s.says("its agent is not connected", "phase         Running", "as of 3s ago") // what was known stays
	const gone = `pods "web-0" not found`
	screen := later(refusal(http.StatusNotFound, gone))
	fix := "fix: esc goes back to the list; plural service tree web shows what is there"
	s.says("health        deleted", "Pod web-0 is gone from cluster edge-1", gone, fix)
	for _, old := range []string{"healthy", "Running", "ready", "plural status"} {
		if strings.Contains(screen, old) {
			t.Errorf("%q is in\n%s", old, screen)
		}
	}
	yaml := open(t, w, "yaml", about)
	yaml.play(nil)
	yaml.says("error: Pod web-0 is gone from cluster edge-1", fix)
	later(live(map[string]any{"uid": "u2", "creationTimestamp": "2026-03-04T12:00:00Z"}))
	s.says("deleted; what follows is the one of its name that was made since", "created       12s ago", "phase         Running")
}

func TestWithoutAHubWhatWasSeenLastIsDescribed(t *testing.T) {
	w, _ := world(t, nil)
	w.Hub = nil
	for _, name := range []string{"describe", "yaml", "diff", "logs", "tree", "history", "happened"} {
		s := open(t, w, name, onEdge)
		s.play(nil)
		if !strings.Contains(s.screen(120, 20), "error: there is no") {
			t.Errorf("%s: got %s", name, s.screen(120, 20))
		}
	}
	seen := model.State{Link: model.Offline, Since: now, AsOf: *ago(2 * time.Hour)}
	w.Fleet.Apply(model.Batch{Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{deployment()}}, State: &seen})
	s := open(t, w, "describe", onEdge)
	s.play(nil)
	s.says("service       web", "error: there is no hub to ask", "as of 120m ago")
}

// The hub takes no bare token for what it cannot check, whether the page is fresh or remembered.
func TestWhatTheHubCannotCheckIsShownWithItsCluster(t *testing.T) {
	held := &v1.Waiting{Token: "3f2a9c0d11aa", Unchecked: true, Count: 60}
	row := v1.Deployment{Service: "web", Cluster: "edge-1", Phase: v1.Held, Held: held}
	for _, seen := range []bool{false, true} {
		w, _ := world(t, map[string]any{
			"/v1/deployments/edge-1/web": row,
			"/v1/clusters/edge-1":        v1.ClusterDetail{Cluster: v1.Cluster{Name: "edge-1", Held: held}},
		})
		if seen {
			w.Hub = nil
			w.Fleet.Apply(batch(row, v1.Cluster{Name: "edge-1", Held: held}))
		}
		s := open(t, w, "describe", onEdge)
		s.play(nil)
		s.says("token       3f2a9c0d11aa@edge-1", "deletes     60 objects", "plural service ack web --cluster edge-1")
		s = open(t, w, "describe", pane.Subject{Kind: pane.KindCluster, Name: "edge-1", Cluster: "edge-1"})
		s.play(nil)
		s.says("token       3f2a9c0d11aa@edge-1", "deletes     60 services", "plural service ack --cluster-removals edge-1")
	}
}

func batch(d v1.Deployment, c v1.Cluster) model.Batch {
	return model.Batch{
		Deployments: v1.Changes[v1.Deployment]{Items: []v1.Deployment{d}},
		Clusters:    v1.Changes[v1.Cluster]{Items: []v1.Cluster{c}},
	}
}

func TestAnAnswerToAnOlderQuestionIsPassedOver(t *testing.T) {
	w, _ := world(t, map[string]any{"/v1/deployments/edge-1/web": deployment()})
	p, err := newDescribe(w, onEdge)
	if err != nil {
		t.Fatal(err)
	}
	first := p.Init()
	second := p.Update(keyOf("r"))
	p.Update(first())
	if got := strings.Join(p.Draw(80, 5), "\n"); !strings.Contains(got, "asking") {
		t.Errorf("got %s", got)
	}
	p.Update(second())
	if got := strings.Join(p.Draw(80, 5), "\n"); strings.Contains(got, "asking") {
		t.Errorf("got %s", got)
	}
}

func TestALiveObjectIsShownAsYAMLWithoutSecrets(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	xdg.Reload()
	t.Cleanup(xdg.Reload)
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"password": "aHVudGVyMg=="}, "stringData": map[string]any{"other": "hunter2"},
		"metadata": map[string]any{"name": "db", "annotations": map[string]any{lastApplied: `{"data":{"password":"aHVudGVyMg=="}}`}, "managedFields": []any{1, 2}},
	}
	refusals := 0
	w, h := world(t, map[string]any{
		"/v1/kube/token": v1.KubeToken{Token: "k", Expires: now.Add(time.Hour)},
		"/k8s/edge-1/api/v1/namespaces/shop/secrets/db": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer k" {
				t.Errorf("got %q", r.Header.Get("Authorization"))
			}
			if refusals++; refusals == 1 {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_ = json.NewEncoder(w).Encode(secret)
		}),
	})
	about := pane.Subject{Kind: pane.KindObject, Cluster: "edge-1", Service: "web", Object: &v1.Object{Version: "v1", Kind: "Secret", Resource: "secrets", Namespace: "shop", Name: "db"}}
	for _, name := range []string{"yaml", "describe"} {
		s := open(t, w, name, about)
		s.play(nil)
		screen := s.screen(140, 60)
		if strings.Contains(screen, "hunter2") || strings.Contains(screen, "aHVudGVyMg") || strings.Contains(screen, "- 1") {
			t.Errorf("got %s", screen)
		}
		s.says("password")
		if name == "yaml" {
			s.says("# live on cluster edge-1", "managedFields of 2 managers are left out", `password: '***'`)
			s.golden("yaml-secret")
		}
	}
	tokens := 0
	for _, asked := range h.asked {
		if asked == "POST /v1/kube/token" {
			tokens++
		}
	}
	if tokens != 2 {
		t.Errorf("%d tokens were asked for: %q", tokens, h.asked)
	}
}

func TestYAMLIsColouredByLine(t *testing.T) {
	for text, want := range map[string]string{
		"# a comment":            "N[# a comment]",
		"a: b # c":               "k[a:]v[ b]N[ # c]",
		"  - name: x":            "p[  - ]k[name:]v[ x]",
		"- - x":                  "p[- - ]v[x]",
		`"a: b": "c # d" # e`:    `k["a: b":]v[ "c # d"]N[ # e]`,
		"key:":                   "k[key:]",
		"url: http://x:80/#y":    "k[url:]v[ http://x:80/#y]",
		"{a: b}":                 "v[{a: b}]",
		"---":                    "v[---]",
		"t: |\n  # text\n  a: b": "k[t:]v[ |]\nv[  # text]\nv[  a: b]",
		"t: >-\n\n  x\nb: c":     "k[t:]v[ >-]\nv[]\nv[  x]\nk[b:]v[ c]",
		"'it''s: x":              "v['it''s: x]",
	} {
		if got := plainOf(colored(text)); got != text {
			t.Errorf("%q became %q", text, got)
		}
		if got := styledOf(colored(text)); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func styledOf(lines []line) string {
	marks := map[paint.Style]string{paint.Plain: "p", paint.Name: "k", paint.Value: "v", paint.Note: "N"}
	var out []string
	for _, l := range lines {
		var b strings.Builder
		for _, s := range l {
			fmt.Fprintf(&b, "%s[%s]", marks[s.style], s.text)
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n")
}

func plainOf(lines []line) string {
	var out []string
	for _, l := range lines {
		var b strings.Builder
		for _, s := range l {
			b.WriteString(s.text)
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n")
}

func FuzzYAMLIsNeverRefused(f *testing.F) {
	f.Add("a: b # c\n- |\n x\n\t\"")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.NewReplacer("\r", "").Replace(text)
		want := strings.TrimRight(text, "\n")
		if got := plainOf(colored(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestWhatDiffersIsShownFieldByField(t *testing.T) {
	w, _ := world(t, map[string]any{
		"/v1/services/web": v1.Service{Name: "web", Deployments: []v1.Deployment{
			{Cluster: "edge-1", Service: "web", Phase: v1.Healthy}, {Cluster: "edge-2", Service: "web", Phase: v1.Failed},
		}},
		"/v1/clusters/edge-2/services/web/diff": v1.Diff{More: 2, Objects: []v1.ObjectDiff{
			{Kind: "Deployment", Group: "apps", Namespace: "shop", Name: "web", Action: v1.ObjectChanged, Fields: []v1.FieldDiff{
				{Path: "spec.replicas", Live: "2", Desired: "3"},
				{Path: "metadata.annotations.note", Live: `"a  b"`, Desired: `"a b"`},
				{Path: "spec.template.spec.volumes", Desired: `[{"name":"x"}]`},
				{Path: "data.text", Live: `"one\ntwo\nthree\n"`, Desired: `"one\n2\nthree\n"`},
			}},
			{Kind: "Secret", Namespace: "shop", Name: "db", Action: v1.ObjectChanged, Hidden: true},
			{Kind: "ConfigMap", Namespace: "shop", Name: "gone", Action: v1.ObjectDeleted},
			{Kind: "Job", Namespace: "shop", Name: "j", Action: v1.ObjectFailed, Message: "field is immutable"},
		}},
		"/v1/clusters/edge-1/services/web/diff": v1.Diff{},
	})
	s := open(t, w, "diff", theWeb)
	s.play(nil)
	s.golden("diff-service")
	if got := s.Title(); got != "diff web on edge-2" {
		t.Errorf("got %q: the worst cluster comes first", got)
	}
	s.press("n n")
	s.says("difference 2 of 7")
	s.press("N N")
	s.says("difference 7 of 7")
	s.press("w")
	s.says("6 differences", "1 place differs in blanks alone")
	s.press("tab")
	s.play(nil)
	s.says("diff web on edge-1", "nothing differs")
	s.press("shift+tab")
	s.play(nil)
	s.says("diff web on edge-2", "spec.replicas")
}

func TestADifferenceIsGoneTo(t *testing.T) {
	diff := v1.Diff{}
	for i := range 20 {
		diff.Objects = append(diff.Objects, v1.ObjectDiff{Kind: "ConfigMap", Name: fmt.Sprintf("c%d", i), Action: v1.ObjectChanged, Fields: []v1.FieldDiff{{Path: fmt.Sprintf("data.k%d", i), Live: "1", Desired: "2"}}})
	}
	w, _ := world(t, map[string]any{"/v1/clusters/edge-1/services/web/diff": diff})
	s := open(t, w, "diff", onEdge)
	s.play(nil)
	s.screen(80, 10)
	s.press("n n n")
	if lines := strings.Split(s.screen(80, 10), "\n"); lines[1] != "  data.k2" {
		t.Errorf("got %q", lines)
	}
}

func TestHistoryOpensWhatACommitChanged(t *testing.T) {
	w, _ := world(t, map[string]any{"/v1/services/web/history": v1.List[v1.Revision]{Items: []v1.Revision{
		{Commit: v1.Commit{ID: "aaaaaaaaaa", Subject: "Scale web to 3", Author: "Ann", Time: ago(time.Minute)}, Files: []string{"services/web.yaml"}, Result: v1.ResultWaiting},
		{Commit: v1.Commit{ID: "bbbbbbbbbb", Subject: "Scale web \x1b[31mdown", Author: "Bob \u202e", Time: ago(time.Hour)}, Files: []string{"services/web.yaml"}, LeftOut: 3, Result: v1.ResultCurrent},
		{Commit: v1.Commit{ID: "cccccccccc", Subject: "Add web", Author: "Ann", Time: ago(24 * time.Hour)}, Merge: true, RevertedBy: "dd", Result: v1.ResultSuperseded},
	}}})
	s := open(t, w, "history", theWeb)
	s.play(nil)
	s.golden("history-service")
	s.press("j enter")
	s.play(nil)
	want := pane.Open{Pane: "diff", About: pane.Subject{Kind: pane.KindCommit, Name: "bbbbbbbbbb", Service: "web"}}
	if len(s.asked) != 1 || s.asked[0] != want {
		t.Errorf("got %v", s.asked)
	}
}

func TestEventsOfHubAndKubernetesAreOneList(t *testing.T) {
	w, h := world(t, map[string]any{
		"/v1/events": v1.List[v1.Event]{Items: []v1.Event{{Time: *ago(time.Minute), Cluster: "edge-1", Service: "web", Reason: "Degraded", Warning: true, Message: "1 of 3"}}},
		"/v1/clusters/edge-1/services/web/events": v1.List[v1.ObjectEvent]{Items: []v1.ObjectEvent{
			{Time: *ago(2 * time.Minute), Kind: "Pod", Name: "web-0", Reason: "BackOff", Warning: true, Count: 7, Message: "restarting failed container\n\x07"},
			{Time: *ago(time.Second), Kind: "Pod", Name: "web-1", Reason: "Started", Message: "started"},
		}},
	})
	s := open(t, w, "happened", onEdge)
	s.play(nil)
	s.golden("events-deployment")
	if diff := cmp.Diff("GET /v1/events?filter=cluster%3A%22edge-1%22+service%3A%22web%22+", h.asked[0]); diff != "" {
		t.Error(diff)
	}
}

func TestATextIsLookedForInAPage(t *testing.T) {
	w, _ := world(t, map[string]any{"/v1/deployments/edge-1/web": deployment()})
	s := open(t, w, "yaml", onEdge)
	s.play(nil)
	page := s.Pane.(*searched[*document])
	page.lines = nil
	for i := range 100 {
		page.lines = append(page.lines, line{{paint.Name, "image"}, {paint.Value, fmt.Sprintf(": web:%d", i)}})
	}
	s.screen(80, 10)
	if err := page.SetFilter("IMAGE: web:4"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ press, top, note string }{
		{"", "image: web:4", "found 1 of 11"},
		{"n", "image: web:40", "found 2 of 11"},
		{"N", "image: web:4", "found 1 of 11"},
		{"N", "image: web:49", "found 11 of 11"},
		{"n", "image: web:4", "found 1 of 11"},
	} {
		s.press(step.press)
		lines := strings.Split(s.screen(80, 10), "\n")
		if !strings.Contains(lines[0], step.note) || lines[1] != step.top {
			t.Errorf("%q: %q\n%q", step.press, lines[0], lines[1])
		}
	}
	if got, want := page.Draw(80, 2)[0], w.Look.Paint(paint.Found, "image"); !strings.Contains(got, want) {
		t.Errorf("%q has no %q", got, want)
	}
	if _ = page.SetFilter("none such"); !strings.Contains(page.Note(), "not found") {
		t.Errorf("says %q", page.Note())
	}
}
