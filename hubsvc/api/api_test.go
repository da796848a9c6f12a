package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	agentapi "github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// hub is an interface over a fleet of so many clusters, c000, c001 and so on, and one service, web, on all of them. Its people
// are named by their tokens: anybody may view, "alice" may do everything.
type hub struct {
	url     string
	view    *view.View
	options api.Options

	mu      sync.Mutex // guards what follows
	reports map[string]*agentapi.Report
	gone    bool // nobody is known any more
	synced  []string
	edits   []api.Edit
}

func serve(t *testing.T, clusters int, change func(*api.Options)) *hub {
	t.Helper()
	h := &hub{reports: map[string]*agentapi.Report{}}
	h.view = view.New(view.Options{
		Desired: fixed(desired(clusters)), Report: h.report, Now: time.Now, StaleAfter: time.Hour,
		Received: func(c string) (int64, bool) { r, ok := h.report(c); return r.GetReceivedUnixMs(), ok },
		Sources:  sources,
		Upgrades: func() []v1.Upgrade {
			return []v1.Upgrade{{
				Installation: "front", Package: "web", Catalog: "builtin", Version: "1.0.0", Newest: "1.1.0", Policy: "manual", State: v1.UpgradeAvailable,
				Reasons: []v1.UpgradeReason{{Code: v1.ReasonManual, Message: "its policy leaves upgrades to people", Fix: "plural package upgrade front --to 1.1.0"}},
			}}
		},
	})
	document, err := openapi.Document("v1.2.3", api.APIRoutes(), api.MeRoutes())
	if err != nil {
		t.Fatal(err)
	}
	h.options = api.Options{
		View: h.view, Sources: sources, Hub: func() *v1.Hub { return &v1.Hub{Version: "v1.2.3"} }, Document: document,
		Look: func(source string) bool { return source == "." || source == "charts" },
		Follow: func(since string, kinds []v1.ChangeKind, items []string, filters func(v1.ChangeKind) string) (api.Follower, error) {
			follower, err := h.view.Follow(since, kinds, filters)
			if err == nil && items != nil {
				follower.Only(items)
			}
			return follower, err
		},
		Allow: h.allow, Sync: h.sync, Edit: h.edit,
		Connections: func(_ context.Context, cluster string) ([]v1.Connection, error) {
			return []v1.Connection{{Cluster: cluster, Name: "x", Since: time.Now()}}, nil
		},
		History: func(_ context.Context, service string, q paging.Query) (*v1.List[v1.Revision], error) {
			if service != "" && service != "web" {
				return nil, &api.Refused{Status: http.StatusNotFound, Message: "no service " + service}
			}
			return &v1.List[v1.Revision]{Items: []v1.Revision{step()}, Total: 1, Next: q.Continue}, nil
		},
		Views: func() v1.ViewList {
			return v1.ViewList{
				Items:    []v1.View{{Key: 1, Name: "What fails", List: "fleet", Filter: "health:failed"}},
				Problems: []v1.Problem{{Message: "none"}},
			}
		},
		Revision: func(context.Context, string) (*v1.Revision, error) { s := step(); return &s, nil },
	}
	if change != nil {
		change(&h.options)
	}
	mux := http.NewServeMux()
	api.New(h.options).Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func step() v1.Revision {
	at := time.Now()
	return v1.Revision{
		Commit: v1.Commit{ID: "c1", Subject: "More of web", Author: "ada", Time: &at}, Email: "ada@example.com", Files: []string{"services/web.yaml"},
		LeftOut: 1, Merge: true, Reverts: "c0", RevertedBy: "c2", Result: v1.ResultCurrent,
	}
}

func sources() []v1.Source { return []v1.Source{{Name: "."}, {Name: "charts"}} }

func fixed[T any](value T) func() T { return func() T { return value } }

func desired(clusters int) *view.Desired {
	d := &view.Desired{Deployments: map[string][]*resolve.Deployment{}, Served: v1.Commit{ID: "c1"}, Head: v1.Commit{ID: "c1"}}
	d.Fleet.Workspace.Metadata.Name = "demo"
	d.Fleet.Services = []fleet.Service{{Metadata: fleet.Metadata{Name: "web"}}}
	for i := range clusters {
		c := fleet.Cluster{Metadata: fleet.Metadata{Name: fmt.Sprintf("c%03d", i)}}
		c.Spec.Agent.Auth, c.Spec.Tags = "ed25519:key", map[string]string{"env": "prod"}
		d.Fleet.Clusters = append(d.Fleet.Clusters, c)
		d.Deployments[c.Metadata.Name] = []*resolve.Deployment{{Service: "web", Key: "k1"}}
	}
	return d
}

func (h *hub) report(cluster string) (*agentapi.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, ok := h.reports[cluster]
	return r, ok
}

// says makes an agent report on web.
func (h *hub) says(cluster string, phase agentapi.Phase) {
	h.mu.Lock()
	h.reports[cluster] = &agentapi.Report{ReceivedUnixMs: time.Now().UnixMilli(), Services: []*agentapi.ServiceReport{{
		Service: "web", Key: "k1", AppliedKey: "k1", Phase: phase, Tests: []*agentapi.TestReport{{Name: "smoke", TookMs: 1500}},
		Problems: []*agentapi.ObjectReport{{Kind: "Pod", Name: "web", Message: "no image"}},
	}}}
	h.mu.Unlock()
	h.view.Reported(cluster, false)
}

func (h *hub) allow(r *http.Request, verb string) (principal.Person, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok || name == "wrong" || h.gone:
		return principal.Person{}, errors.New("no")
	case verb != api.VerbView && name != "alice":
		return principal.Person{}, &api.Refused{Status: http.StatusForbidden, Message: name + " may not " + verb, Fix: "ask"}
	}
	return principal.Person{Name: name}, nil
}

func (h *hub) sync(_ context.Context, cluster string, services []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cluster == "c001" {
		return errors.New("absent")
	}
	h.synced = append(h.synced, cluster+" "+strings.Join(services, ","))
	return nil
}

func (h *hub) edit(_ context.Context, by principal.Person, e api.Edit) (*v1.Edited, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.edits = append(h.edits, e)
	switch e.Token {
	case "unknown":
		return nil, &api.Refused{
			Status: http.StatusConflict, Message: "nothing waits for it", Fix: "look again", Problems: []v1.Problem{{File: "x", Message: "y"}},
		}
	case "broken":
		return nil, errors.New("push refused")
	}
	return &v1.Edited{Commit: "by-" + by.Name, DryRun: e.DryRun}, nil
}

func (h *hub) do(t *testing.T, method, path, who, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if who != "" {
		request.Header.Set("Authorization", "Bearer "+who)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// ask decodes the answer into a T, and checks what every answer must have.
func ask[T any](t *testing.T, h *hub, method, path, who, body string) (int, T) {
	t.Helper()
	response := h.do(t, method, path, who, body)
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s %s: %s is %q, want %q", method, path, name, got, want)
		}
	}
	var out T
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, out
}

func TestListIsReadPageByPage(t *testing.T) {
	h := serve(t, 450, nil)
	var names []string
	for next, pages := "", 0; pages < 10; pages++ {
		code, page := ask[v1.List[v1.Cluster]](t, h, http.MethodGet, "/v1/clusters?continue="+url.QueryEscape(next), "bob", "")
		if code != http.StatusOK || page.Total != 450 || page.Counts[v1.Pending] != 450 || page.Since == "" {
			t.Fatalf("%d, %+v", code, page)
		}
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	var want []string
	for i := range 450 {
		want = append(want, fmt.Sprintf("c%03d", i))
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestListIsBoundedAndFiltered(t *testing.T) {
	h := serve(t, 600, nil)
	tests := map[string]struct {
		query      string
		items, all int
		first      string
		more       bool
	}{
		"a default limit":            {"", 200, 600, "c000", true},
		"a limit":                    {"?limit=2", 2, 600, "c000", true},
		"the largest limit":          {"?limit=500", 500, 600, "c000", true},
		"a name that is not there":   {"?name=d", 0, 0, "", false},
		"a part of names":            {"?name=99", 6, 6, "c099", false},
		"exactly as many as allowed": {"?name=c00&limit=10", 10, 10, "c000", false},
		"a filter":                   {"?filter=env:prod+name:c1*&limit=10", 10, 100, "c100", true},
		"a filter and a part":        {"?filter=health:pending&name=599", 1, 1, "c599", false},
		"another order":              {"?sort=-name&limit=1", 1, 600, "c599", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, page := ask[v1.List[v1.Cluster]](t, h, http.MethodGet, "/v1/clusters"+test.query, "bob", "")
			if code != http.StatusOK || len(page.Items) != test.items || page.Total != test.all || (page.Next != "") != test.more || page.Items == nil {
				t.Errorf("%d: %d of %d, next %q", code, len(page.Items), page.Total, page.Next)
			}
			if len(page.Items) > 0 && page.Items[0].Name != test.first {
				t.Errorf("first is %s, want %s", page.Items[0].Name, test.first)
			}
		})
	}
}

func TestQueryThatIsWrongIsRefusedWithWhatWouldBeRight(t *testing.T) {
	h := serve(t, 1, nil)
	for _, kind := range []string{"clusters", "services", "deployments", "sources", "events"} {
		for _, query := range []string{"limit=0", "limit=501", "limit=x", "sort=colour", "continue=x", `filter="`, "filter=health:odd", "filter=" + strings.Repeat("x", 2000)} {
			if (kind == "sources" || kind == "events") && strings.Contains(query, "health") {
				query = "filter=health:healthy"
			}
			code, e := ask[v1.Error](t, h, http.MethodGet, "/v1/"+kind+"?"+query, "bob", "")
			if code != http.StatusBadRequest || e.Message == "" || e.Fix == "" {
				t.Errorf("%s, %.40s: %d %+v", kind, query, code, e)
			}
		}
	}
	for _, query := range []string{"kind=odd", "filter=env:prod", "filter=health:odd&kind=deployments"} {
		if code, e := ask[v1.Error](t, h, http.MethodGet, "/v1/stream?"+query, "bob", ""); code != http.StatusBadRequest || e.Fix == "" {
			t.Errorf("stream, %s: %d %+v", query, code, e)
		}
	}
}

func TestEveryPathButItsDescriptionWantsAPerson(t *testing.T) {
	h := serve(t, 1, nil)
	paths := append(openapi.Paths(api.APIRoutes()), "GET /v1/nowhere", "POST /v1/status", "DELETE /v1/clusters/c000")
	for _, each := range paths {
		method, path, _ := strings.Cut(each, " ")
		if path == "/v1/openapi.json" {
			continue
		}
		for _, who := range []string{"", "wrong"} {
			code, e := ask[v1.Error](t, h, method, strings.NewReplacer("{name}", "c000", "{cluster}", "c000", "{service}", "web").Replace(path), who, "")
			if code != http.StatusUnauthorized || e.Message == "" || e.Fix == "" {
				t.Errorf("%s with %q: %d %+v", each, who, code, e)
			}
		}
	}
	if response := h.do(t, http.MethodGet, "/v1/openapi.json", "", ""); response.StatusCode != http.StatusOK {
		t.Errorf("the description: %s", response.Status)
	}
}

func TestWhoMayOnlyViewChangesNothing(t *testing.T) {
	h := serve(t, 1, nil)
	for _, each := range openapi.Paths(api.APIRoutes()) {
		method, path, _ := strings.Cut(each, " ")
		if method == http.MethodGet {
			continue
		}
		path = strings.Replace(path, "{name}", "web", 1)
		if code, e := ask[v1.Error](t, h, method, path, "bob", ""); code != http.StatusForbidden || !strings.Contains(e.Message, "bob may not") {
			t.Errorf("%s: %d %+v", each, code, e)
		}
	}
	if len(h.synced)+len(h.edits) > 0 {
		t.Errorf("%v, %v", h.synced, h.edits)
	}
}

func TestOneItemIsFoundByName(t *testing.T) {
	h := serve(t, 1, nil)
	h.says("c000", agentapi.Phase_DEGRADED)
	if code, got := ask[v1.ClusterDetail](t, h, http.MethodGet, "/v1/clusters/c000", "bob", ""); code != http.StatusOK || got.Name != "c000" || len(got.Deployments) != 1 {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Service](t, h, http.MethodGet, "/v1/services/web", "bob", ""); code != http.StatusOK || got.Name != "web" || len(got.Deployments) != 1 {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Deployment](t, h, http.MethodGet, "/v1/deployments/c000/web", "bob", ""); code != http.StatusOK || len(got.Problems) != 1 || len(got.Tests) != 1 {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Source](t, h, http.MethodGet, "/v1/sources/charts", "bob", ""); code != http.StatusOK || got.Name != "charts" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Source](t, h, http.MethodGet, "/v1/sources/"+v1.OwnSource, "bob", ""); code != http.StatusOK || got.Name != "." {
		t.Errorf("the installation repo: %d %+v", code, got)
	}
	if code, got := ask[v1.Hub](t, h, http.MethodGet, "/v1/hub", "bob", ""); code != http.StatusOK || got.Version != "v1.2.3" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Status](t, h, http.MethodGet, "/v1/status", "bob", ""); code != http.StatusOK || got.Workspace != "demo" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Summary](t, h, http.MethodGet, "/v1/summary", "bob", ""); code != http.StatusOK || got.Deployments[v1.Degraded] != 1 {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.List[v1.Connection]](t, h, http.MethodGet, "/v1/clusters/c000/connections", "bob", ""); code != http.StatusOK || got.Total != 1 {
		t.Errorf("%d %+v", code, got)
	}
}

func TestSyncIsTakenInForSourcesThatThereAre(t *testing.T) {
	h := serve(t, 1, nil)
	for name, want := range map[string]int{"charts": http.StatusAccepted, v1.OwnSource: http.StatusAccepted, "x": http.StatusNotFound} {
		if response := h.do(t, http.MethodPost, "/v1/sources/"+name+"/sync", "alice", ""); response.StatusCode != want {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
}

func TestAgentsAreAskedForAPass(t *testing.T) {
	h := serve(t, 3, nil)
	code, got := ask[v1.Synced](t, h, http.MethodPost, "/v1/services/web/sync", "alice", "")
	if diff := cmp.Diff(v1.Synced{Asked: 3, Absent: 1, Names: []string{"c001"}}, got); code != http.StatusAccepted || diff != "" {
		t.Errorf("%d %s", code, diff)
	}
	code, got = ask[v1.Synced](t, h, http.MethodPost, "/v1/services/web/sync", "alice", `{"clusters": ["c002"]}`)
	if code != http.StatusAccepted || got.Asked != 1 || got.Absent != 0 {
		t.Errorf("%d %+v", code, got)
	}
	h.synced = nil
	code, got = ask[v1.Synced](t, h, http.MethodPost, "/v1/clusters/c000/sync", "alice", `{"services": ["web"]}`)
	if diff := cmp.Diff([]string{"c000 web"}, h.synced); code != http.StatusAccepted || got.Asked != 1 || diff != "" {
		t.Errorf("%d %+v %s", code, got, diff)
	}
	for path, body := range map[string]string{
		"services/db/sync": "", "clusters/c9/sync": "", "clusters/c000/sync": `{"services": ["db"]}`, "services/web/sync": `{"clusters": ["c9"]}`,
	} {
		if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/"+path, "alice", body); code != http.StatusNotFound || e.Fix == "" {
			t.Errorf("%s %s: %d %+v", path, body, code, e)
		}
	}
}

func TestEditBecomesACommit(t *testing.T) {
	h := serve(t, 1, nil)
	code, got := ask[v1.Edited](t, h, http.MethodPost, "/v1/services/web/ack", "alice", `{"token": "3f2a", "message": "yes"}`)
	if code != http.StatusOK || got.Commit != "by-alice" {
		t.Errorf("%d %+v", code, got)
	}
	if diff := cmp.Diff([]api.Edit{{Action: "ack", Name: "web", Token: "3f2a", Message: "yes"}}, h.edits); diff != "" {
		t.Error(diff)
	}
	for token, want := range map[string]int{"unknown": http.StatusConflict, "broken": http.StatusBadGateway} {
		if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/services/web/ack", "alice", `{"token": "`+token+`"}`); code != want || e.Fix == "" {
			t.Errorf("%s: %d %+v", token, code, e)
		}
	}
	if code, _ := ask[v1.Error](t, h, http.MethodPost, "/v1/services/db/suspend", "alice", ""); code != http.StatusNotFound {
		t.Errorf("a service that is not there: %d", code)
	}
	for _, body := range []string{"{", `{"tokn": "x"}`, "{}{}", "[1]", `{"token": "` + strings.Repeat("x", 70_000) + `"}`} {
		if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/services/web/suspend", "alice", body); code != http.StatusBadRequest || e.Fix == "" {
			t.Errorf("%.30s: %d %+v", body, code, e)
		}
	}
}

func TestHubThatCannotDoItNamesTheCommandThatCan(t *testing.T) {
	h := serve(t, 1, func(o *api.Options) { o.Edit, o.Sync, o.Connections = nil, nil, nil })
	code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/services/web/suspend", "alice", "")
	if code != http.StatusForbidden || !strings.Contains(e.Fix, "plural service suspend web") {
		t.Errorf("%d %+v", code, e)
	}
	if code, e := ask[v1.Error](t, h, http.MethodPost, "/v1/clusters/c000/sync", "alice", ""); code != http.StatusForbidden || e.Fix == "" {
		t.Errorf("%d %+v", code, e)
	}
	if code, got := ask[v1.List[v1.Connection]](t, h, http.MethodGet, "/v1/clusters/c000/connections", "bob", ""); code != http.StatusOK || got.Items == nil {
		t.Errorf("%d %+v", code, got)
	}
}

func TestWhatIsNotThereIsAnErrorWithAMessage(t *testing.T) {
	h := serve(t, 1, nil)
	tests := map[string]int{
		"GET /v1/clusters/c9": http.StatusNotFound, "GET /v1/services/db": http.StatusNotFound, "GET /v1/sources/x": http.StatusNotFound,
		"GET /v1/nowhere": http.StatusNotFound, "GET /v1/clusters/%1b%5b31m": http.StatusNotFound,
		"GET /v1/deployments/c000/db": http.StatusNotFound, "GET /v1/deployments/c9/web": http.StatusNotFound,
		"GET /v1/clusters/c9/connections": http.StatusNotFound,
		"POST /v1/status":                 http.StatusMethodNotAllowed, "DELETE /v1/clusters/c000": http.StatusMethodNotAllowed,
	}
	for request, want := range tests {
		t.Run(request, func(t *testing.T) {
			method, path, _ := strings.Cut(request, " ")
			if code, e := ask[v1.Error](t, h, method, path, "bob", ""); code != want || e.Message == "" {
				t.Errorf("%d %+v", code, e)
			}
		})
	}
}

// U15
func TestOnePersonsRequestsAreBounded(t *testing.T) {
	waiting, release := make(chan struct{}, 100), make(chan struct{})
	h := serve(t, 1, func(o *api.Options) {
		o.Hub = func() *v1.Hub { waiting <- struct{}{}; <-release; return new(v1.Hub) }
	})
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() { h.get("/v1/hub", "bob") })
	}
	for range 32 {
		<-waiting
	}
	response := h.do(t, http.MethodGet, "/v1/status", "bob", "")
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("%s", response.Status)
	}
	if response := h.do(t, http.MethodGet, "/v1/status", "carol", ""); response.StatusCode != http.StatusOK {
		t.Errorf("somebody else: %s", response.Status)
	}
	close(release)
	group.Wait()
	if response := h.do(t, http.MethodGet, "/v1/status", "bob", ""); response.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %s", response.Status)
	}
}

// get asks from a goroutine that may not end the test.
func (h *hub) get(path, who string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, h.url+path, nil)
	if err != nil {
		return
	}
	request.Header.Set("Authorization", "Bearer "+who)
	if response, err := http.DefaultClient.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
}
