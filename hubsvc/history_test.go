package hubsvc

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/paging"
	commits "github.com/pluralsh/plural/workspace/history"
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
	o := newOrigin(t)
	o.push(twoServices(nil))
	o.push(map[string]string{"README.md": "1"})
	more := o.push(map[string]string{"apps/web/cm.yaml": configMap("web", "2")})
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
	bad := o.push(map[string]string{"services/web.yaml": "kind: Nonsense\n"})
	until(t, "the commit is refused", func() bool { return len(r.status().Refused) > 0 })
	found, err := hub.Revision(t.Context(), bad)
	if err != nil || found.Result != v1.ResultRefused || found.Email != "ann@example.com" || !slices.Equal(found.Files, []string{"services/web.yaml"}) {
		t.Fatalf("%+v, %v", found, err)
	}
	if found.Refusal == nil || found.Refusal.File != "services/web.yaml" || !strings.Contains(found.Refusal.Message, "Nonsense") {
		t.Errorf("why it is refused: %+v", found.Refusal)
	}
	o.git(o.work, "revert", "--no-edit", bad)
	o.git(o.work, "push", "-q", "origin", "HEAD:main")
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
	defer o.away()()
	if got := ask("api", paging.Query{}); len(got) != 1 {
		t.Errorf("without the repository: %q", got)
	}
	if left, err := os.ReadDir(opts.Data + "/history"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWhoMayNotLookIsToldNoHistory(t *testing.T) {
	o := newOrigin(t)
	o.push(twoServices(nil))
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
	o := newOrigin(t)
	o.push(twoServices(nil))
	r := start(t, options(t, o))
	r.ready()
	r.served(o)
	back := o.away()
	code, said := r.do(http.MethodGet, "/v1/history", r.token, nil)
	var refused v1.Error
	if err := json.Unmarshal(said, &refused); err != nil || code != http.StatusServiceUnavailable || strings.Contains(refused.Message, o.bare) {
		t.Errorf("%d %s", code, said)
	}
	back()
	until(t, "the history is read, once the repository is back", func() bool {
		code, _ := r.do(http.MethodGet, "/v1/history", r.token, nil)
		return code == http.StatusOK
	})
}

func TestTheRepositoryIsNotAskedAgainAndAgainForItsHistory(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	read := []commits.Revision{{ID: "c"}, {ID: "b"}, {ID: "a"}}
	for name, tt := range map[string]struct {
		// read is what came of the last reading, at head; then is what was known before it.
		then, read []commits.Revision
		head       string
		asked      string
		after      time.Duration
		enough     bool
	}{
		"up to the head":                        {nil, read, "c", "c", time.Hour, true},
		"a newer head":                          {nil, read, "c", "d", 0, false},
		"the head that was not there":           {nil, read, "d", "d", time.Second, true},
		"the head that was not there, later":    {nil, read, "d", "d", time.Minute, false},
		"steps that the hub has not seen":       {nil, read, "b", "b", 30 * time.Second, true},
		"the branch was moved back":             {nil, read, "b", "b", time.Hour, false},
		"it did not answer":                     {nil, nil, "c", "c", time.Second, true},
		"it did not answer, and the head moved": {nil, nil, "c", "d", time.Second, true},
		"it did not answer, later":              {nil, nil, "c", "c", time.Minute, false},
		"it did, and then did not answer":       {read, nil, "d", "d", time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChronicle("", "")
			if _, enough := c.known(tt.asked, now); enough {
				t.Error("enough before anything was read")
			}
			if tt.then != nil {
				c.keep(tt.then, tt.then[0].ID, now)
			}
			c.keep(tt.read, tt.head, now)
			steps, enough := c.known(tt.asked, now.Add(tt.after))
			if enough != tt.enough || len(steps) != max(len(tt.then), len(tt.read)) {
				t.Errorf("%d steps, enough %v", len(steps), enough)
			}
		})
	}
}

func TestACommitThatIsServedAfterAllIsRefusedNoMore(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "refused.json")
	c, reason := newChronicle("", kept), []v1.Problem{{Message: "it cannot be read"}, {Message: "nor this"}}
	judge := func(head, served string, refused []v1.Problem) {
		t.Helper()
		if err := c.judged(head, served, refused); err != nil {
			t.Fatal(err)
		}
	}
	judge("b", "a", reason)
	judge("c", "a", reason)
	judge("c", "c", nil)
	judge("c", "c", reason) // what is served, and cannot be planned just now
	want := map[string]*v1.Problem{"b": &reason[0]}
	if diff := cmp.Diff(want, c.refusals()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, newChronicle("", kept).refusals()); diff != "" { // of a hub that starts anew
		t.Error(diff)
	}
	for i := range pastCommits {
		judge(strconv.Itoa(i), "c", reason)
	}
	if got := c.refusals(); len(got) != pastCommits || got["b"] != nil {
		t.Errorf("%d are kept", len(got))
	}
}

func TestAHistoryOfManyFilesIsCutShort(t *testing.T) {
	o := newOrigin(t)
	o.push(twoServices(nil))
	for i := range 3 {
		o.push(map[string]string{"apps/web/cm.yaml": configMap("web", strconv.Itoa(i)), "apps/api/cm.yaml": configMap("api", strconv.Itoa(i))})
	}
	g, err := git.PlainOpen(o.work)
	if err != nil {
		t.Fatal(err)
	}
	head, err := g.Head()
	if err != nil {
		t.Fatal(err)
	}
	for names, want := range map[int]int{1: 1, 2: 1, 3: 2, pastNames: 4} {
		steps, err := stepsBefore(t.Context(), commits.Of(g.Storer), head.Hash().String(), names)
		if err != nil || len(steps) != want {
			t.Errorf("%d names: %d steps, %v", names, len(steps), err)
		}
	}
}

func TestACommitOfMoreThanIsKnownByNameIsPartOfEveryHistory(t *testing.T) {
	past := []commits.Revision{
		{ID: "d", Files: []string{"README.md"}},
		{ID: "c", Incomplete: true},
		{ID: "b", Files: []string{"README.md"}, LeftOut: 1},
		{ID: "a", Files: []string{"services/web.yaml"}},
	}
	got := map[string]bool{}
	for _, s := range (&plan{}).steps(past, commits.Paths("services/web.yaml"), nil) {
		got[s.ID] = s.Incomplete
	}
	if diff := cmp.Diff(map[string]bool{"c": true, "b": true, "a": false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesThatAreNotKnownByNameAreCountedWhereEverythingIsTold(t *testing.T) {
	past := []commits.Revision{{ID: "a", Files: make([]string, shownFiles+1), LeftOut: 5}, {ID: "b", LeftOut: 5}}
	steps := (&plan{}).steps(past, commits.Scope{}, nil)
	if len(steps) != 2 || steps[0].LeftOut != 6 || steps[1].LeftOut != 5 || steps[0].Incomplete || steps[1].Incomplete {
		t.Errorf("%+v", steps)
	}
}

func TestACommitOfMoreThanIsKnownByNameMakesNoServiceThatNeverWas(t *testing.T) {
	h := &hub{planner: new(planner)}
	h.planner.current.Store(new(plan))
	h.reaching.past = newChronicle("", "")
	for _, tt := range []struct {
		files []string
		found bool
	}{{nil, false}, {[]string{"services/gone.yaml"}, true}} {
		h.reaching.past.keep([]commits.Revision{{Files: tt.files, LeftOut: 1}}, "", time.Now())
		list, err := h.history(t.Context(), "gone", paging.Query{})
		if refused := new(api.Refused); tt.found != (err == nil) || !tt.found &&
			(!errors.As(err, &refused) || refused.Status != http.StatusNotFound) {
			t.Errorf("%q: %+v, %v", tt.files, list, err)
		}
	}
}
