package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
)

// fleet is a view of so many clusters, c000, c001 and so on, and one service.
type fleet int

func (n fleet) Status() *v1.Status { return &v1.Status{Workspace: "demo"} }

func (n fleet) Clusters() []v1.Cluster {
	list := make([]v1.Cluster, n)
	for i := range list {
		list[i].Name = fmt.Sprintf("c%03d", i)
	}
	return list
}

func (n fleet) Cluster(name string) (v1.ClusterDetail, bool) {
	for _, c := range n.Clusters() {
		if c.Name == name {
			return v1.ClusterDetail{Cluster: c}, true
		}
	}
	return v1.ClusterDetail{}, false
}

func (n fleet) Services() []v1.Service { return []v1.Service{{Name: "web"}} }

func (n fleet) Service(name string) (v1.Service, bool) { return v1.Service{Name: name}, name == "web" }

func serve(t *testing.T, n fleet) string {
	t.Helper()
	mux := http.NewServeMux()
	(&api.API{
		View:    n,
		Sources: func() []v1.Source { return []v1.Source{{Name: "."}, {Name: "charts"}} },
		Sync:    func(source string) bool { return source == "." || source == "charts" },
		Hub:     func() *v1.Hub { return &v1.Hub{Version: "v1.2.3"} },
		Check: func(r *http.Request) error {
			if r.Header.Get("Authorization") != "Bearer secret" {
				return errors.New("no")
			}
			return nil
		},
	}).Routes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// ask decodes the answer into a T, and checks what every answer must have.
func ask[T any](t *testing.T, method, address, authorization string) (int, T) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s %s: %s is %q, want %q", method, address, name, got, want)
		}
	}
	var out T
	decoder := json.NewDecoder(response.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return response.StatusCode, out
}

func TestListIsReadPageByPage(t *testing.T) {
	hub := serve(t, 450)
	var names []string
	for next, pages := "", 0; pages < 10; pages++ {
		code, page := ask[v1.List[v1.Cluster]](t, http.MethodGet, hub+"/v1/clusters?continue="+url.QueryEscape(next), "Bearer secret")
		if code != http.StatusOK || page.Total != 450 {
			t.Fatalf("%d, total %d", code, page.Total)
		}
		for _, c := range page.Items {
			names = append(names, c.Name)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	var want []string
	for _, c := range fleet(450).Clusters() {
		want = append(want, c.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestListIsBoundedAndFiltered(t *testing.T) {
	hub := serve(t, 600)
	tests := map[string]struct {
		query       string
		items, all  int
		first, next string
	}{
		"a default limit":            {"", 200, 600, "c000", "c199"},
		"a limit":                    {"?limit=2", 2, 600, "c000", "c001"},
		"the largest limit":          {"?limit=500", 500, 600, "c000", "c499"},
		"the last page has no next":  {"?limit=500&continue=c499", 100, 600, "c500", ""},
		"a name that is not there":   {"?name=d", 0, 0, "", ""},
		"a part of names":            {"?name=99", 6, 6, "c099", ""},
		"a part of names, paged":     {"?name=99&limit=4&continue=c099", 4, 6, "c199", "c499"},
		"going on after what left":   {"?continue=c5985&limit=5", 1, 600, "c599", ""},
		"exactly as many as allowed": {"?name=c00&limit=10", 10, 10, "c000", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, page := ask[v1.List[v1.Cluster]](t, http.MethodGet, hub+"/v1/clusters"+test.query, "Bearer secret")
			if code != http.StatusOK || len(page.Items) != test.items || page.Total != test.all || page.Next != test.next || page.Items == nil {
				t.Errorf("%d: %d of %d, next %q", code, len(page.Items), page.Total, page.Next)
			}
			if len(page.Items) > 0 && page.Items[0].Name != test.first {
				t.Errorf("first is %s, want %s", page.Items[0].Name, test.first)
			}
		})
	}
}

func TestLimitThatIsNoneIsRefused(t *testing.T) {
	hub := serve(t, 1)
	for _, limit := range []string{"0", "-1", "501", "x", "1e3", "99999999999999999999"} {
		for _, kind := range []string{"clusters", "services", "sources"} {
			if code, e := ask[v1.Error](t, http.MethodGet, hub+"/v1/"+kind+"?limit="+limit, "Bearer secret"); code != http.StatusBadRequest || e.Message == "" {
				t.Errorf("%s, limit %s: %d %+v", kind, limit, code, e)
			}
		}
	}
}

func TestEveryPathWantsTheToken(t *testing.T) {
	hub := serve(t, 1)
	for _, path := range []string{"status", "clusters", "clusters/c000", "services", "services/web", "sources", "sources/charts", "hub", "nowhere"} {
		for _, authorization := range []string{"", "Bearer wrong"} {
			code, e := ask[v1.Error](t, http.MethodGet, hub+"/v1/"+path, authorization)
			if code != http.StatusUnauthorized || e.Message == "" || e.Fix == "" {
				t.Errorf("%s with %q: %d %+v", path, authorization, code, e)
			}
		}
	}
}

func TestOneItemIsFoundByName(t *testing.T) {
	hub := serve(t, 1)
	if code, got := ask[v1.ClusterDetail](t, http.MethodGet, hub+"/v1/clusters/c000", "Bearer secret"); code != http.StatusOK || got.Name != "c000" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Service](t, http.MethodGet, hub+"/v1/services/web", "Bearer secret"); code != http.StatusOK || got.Name != "web" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Source](t, http.MethodGet, hub+"/v1/sources/charts", "Bearer secret"); code != http.StatusOK || got.Name != "charts" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Source](t, http.MethodGet, hub+"/v1/sources/"+v1.OwnSource, "Bearer secret"); code != http.StatusOK || got.Name != "." {
		t.Errorf("the installation repo: %d %+v", code, got)
	}
	if code, got := ask[v1.Hub](t, http.MethodGet, hub+"/v1/hub", "Bearer secret"); code != http.StatusOK || got.Version != "v1.2.3" {
		t.Errorf("%d %+v", code, got)
	}
	if code, got := ask[v1.Status](t, http.MethodGet, hub+"/v1/status", "Bearer secret"); code != http.StatusOK || got.Workspace != "demo" {
		t.Errorf("%d %+v", code, got)
	}
}

func TestSyncIsTakenInForSourcesThatThereAre(t *testing.T) {
	hub := serve(t, 1)
	for name, want := range map[string]int{"charts": http.StatusAccepted, v1.OwnSource: http.StatusAccepted, "x": http.StatusNotFound} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hub+"/v1/sources/"+name+"/sync", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer secret")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
}

func TestWhatIsNotThereIsAnErrorWithAMessage(t *testing.T) {
	hub := serve(t, 1)
	tests := map[string]int{
		"GET /v1/clusters/c9": http.StatusNotFound, "GET /v1/services/db": http.StatusNotFound, "GET /v1/sources/x": http.StatusNotFound,
		"GET /v1/nowhere": http.StatusNotFound, "GET /v1/clusters/%1b%5b31m": http.StatusNotFound,
		"POST /v1/status": http.StatusMethodNotAllowed, "DELETE /v1/clusters/c000": http.StatusMethodNotAllowed,
	}
	for request, want := range tests {
		t.Run(request, func(t *testing.T) {
			var method, path string
			if _, err := fmt.Sscan(request, &method, &path); err != nil {
				t.Fatal(err)
			}
			code, e := ask[v1.Error](t, method, hub+path, "Bearer secret")
			if code != want || e.Message == "" {
				t.Errorf("%d %+v", code, e)
			}
		})
	}
}
