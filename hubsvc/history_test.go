package hubsvc

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/test/support/fleetrepo"
)

// asTold is a page of a history, as people are told it: the subject and the result of each commit.
func asTold(list *v1.List[v1.Revision]) []string {
	var out []string
	for i := range list.Items {
		out = append(out, strings.TrimPrefix(list.Items[i].Subject, "change ")+": "+string(list.Items[i].Result))
	}
	return out
}

func TestTheHubTellsWhichCommitsMadeTheFleet(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	o.Push(map[string]string{"README.md": "1"})
	more := o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", "2")})
	opts := options(t, o)
	r := start(t, opts)
	r.ready()
	r.served(o)
	hub, err := client.New(r.url, r.token, "test")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(service string, q paging.Query) []string {
		t.Helper()
		var list *v1.List[v1.Revision]
		if service == "" {
			list, err = hub.History(t.Context(), q)
		} else {
			list, err = hub.ServiceHistory(t.Context(), service, q)
		}
		if err != nil {
			t.Fatal(err)
		}
		return asTold(list)
	}
	first := "apps/api/cm.yaml apps/web/cm.yaml clusters/a.yaml plural.yaml services/api.yaml services/web.yaml: "
	for _, tt := range []struct {
		service, filter string
		want            []string
	}{
		{"", "", []string{"apps/web/cm.yaml: current", first + "superseded"}},
		{"web", "", []string{"apps/web/cm.yaml: current", first + "superseded"}},
		{"api", "", []string{first + "current"}},
		{"", "result:superseded", []string{first + "superseded"}},
		{"", "file~services/api", []string{first + "superseded"}},
		{"", "author:ann commit:" + more, []string{"apps/web/cm.yaml: current"}},
		{"", "author:nobody", nil},
	} {
		if got := ask(tt.service, paging.Query{Filter: tt.filter}); !slices.Equal(got, tt.want) {
			t.Errorf("%q, filter %q: %q", tt.service, tt.filter, got)
		}
	}
	page, err := hub.History(t.Context(), paging.Query{Limit: 1})
	if err != nil || len(page.Items) != 1 || page.Total != 2 || page.Next == "" {
		t.Fatalf("a page of one: %+v, %v", page, err)
	}
	if rest := ask("", paging.Query{Limit: 1, Continue: page.Next}); len(rest) != 1 || !strings.HasSuffix(rest[0], "superseded") {
		t.Errorf("the second page: %q", rest)
	}

	// One that is refused, and what undoes it.
	bad := o.Push(map[string]string{"services/web.yaml": "kind: Nonsense\n"})
	fleetrepo.Until(t, "the commit is refused", func() bool { return len(r.status().Refused) > 0 })
	found, err := hub.Revision(t.Context(), bad)
	if err != nil || found.Result != v1.ResultRefused || found.Email != "ann@example.com" || !slices.Equal(found.Files, []string{"services/web.yaml"}) {
		t.Fatalf("%+v, %v", found, err)
	}
	if found.Refusal == nil || found.Refusal.File != "services/web.yaml" || !strings.Contains(found.Refusal.Message, "Nonsense") {
		t.Errorf("why it is refused: %+v", found.Refusal)
	}
	o.Git(o.Work, "revert", "--no-edit", bad)
	o.Git(o.Work, "push", "-q", "origin", "HEAD:main")
	r.served(o)
	found, err = hub.Revision(t.Context(), bad[:12])
	if err != nil || found.Result != v1.ResultSuperseded || found.RevertedBy == "" || found.Refusal == nil {
		t.Errorf("%+v, %v", found, err)
	}
	if got := ask("", paging.Query{Filter: "result:refused"}); !slices.Equal(got, []string{"services/web.yaml: superseded"}) {
		t.Errorf("what was refused: %q", got)
	}
	list, err := hub.ServiceHistory(t.Context(), "web", paging.Query{Limit: 1})
	if err != nil || list.Items[0].Reverts != bad || list.Items[0].Result != v1.ResultCurrent {
		t.Errorf("%+v, %v", list, err)
	}

	// What was read is told without the repository, and nothing is left of the reading.
	defer o.Away()()
	if got := ask("api", paging.Query{}); len(got) != 1 {
		t.Errorf("without the repository: %q", got)
	}
	if left, err := os.ReadDir(opts.Data + "/history"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWhoMayNotLookIsToldNoHistory(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	r := start(t, options(t, o))
	r.ready()
	for path, want := range map[string]int{
		"/v1/history": http.StatusOK, "/v1/history/0123456789": http.StatusNotFound, "/v1/history?filter=nonsense:1": http.StatusBadRequest,
		"/v1/services/nothing/history": http.StatusNotFound,
	} {
		if code, said := r.do(http.MethodGet, path, r.token, nil); code != want {
			t.Errorf("%s: %d %s", path, code, said)
		}
		if code, _ := r.do(http.MethodGet, path, "wrong", nil); code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
}

func TestARepositoryThatIsAwayHasNoHistoryYet(t *testing.T) {
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	r := start(t, options(t, o))
	r.ready()
	r.served(o)
	back := o.Away()
	code, said := r.do(http.MethodGet, "/v1/history", r.token, nil)
	var refused v1.Error
	if err := json.Unmarshal(said, &refused); err != nil || code != http.StatusServiceUnavailable || strings.Contains(refused.Message, o.Bare) {
		t.Errorf("%d %s", code, said)
	}
	back()
	fleetrepo.Until(t, "the history is read, once the repository is back", func() bool {
		code, _ := r.do(http.MethodGet, "/v1/history", r.token, nil)
		return code == http.StatusOK
	})
}
