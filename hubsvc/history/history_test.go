package history

import (
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	commits "github.com/pluralsh/plural/workspace/history"
)

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
			c := New(Options{})
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
	c, reason := New(Options{Kept: kept}), []v1.Problem{{Message: "it cannot be read"}, {Message: "nor this"}}
	judge := func(head, served string, refused []v1.Problem) {
		t.Helper()
		if err := c.Judged(head, served, refused); err != nil {
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
	if diff := cmp.Diff(want, New(Options{Kept: kept}).refusals()); diff != "" { // of a hub that starts anew
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
	o := fleetrepo.New(t)
	o.Push(fleetrepo.TwoServices(nil))
	for i := range 3 {
		o.Push(map[string]string{"apps/web/cm.yaml": fleetrepo.ConfigMap("web", strconv.Itoa(i)), "apps/api/cm.yaml": fleetrepo.ConfigMap("api", strconv.Itoa(i))})
	}
	g, err := git.PlainOpen(o.Work)
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
	for _, s := range stepsOf(new(planner.Plan), past, commits.Paths("services/web.yaml"), nil) {
		got[s.ID] = s.Incomplete
	}
	if diff := cmp.Diff(map[string]bool{"c": true, "b": true, "a": false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesThatAreNotKnownByNameAreCountedWhereEverythingIsTold(t *testing.T) {
	past := []commits.Revision{{ID: "a", Files: make([]string, shownFiles+1), LeftOut: 5}, {ID: "b", LeftOut: 5}}
	steps := stepsOf(new(planner.Plan), past, commits.Scope{}, nil)
	if len(steps) != 2 || steps[0].LeftOut != 6 || steps[1].LeftOut != 5 || steps[0].Incomplete || steps[1].Incomplete {
		t.Errorf("%+v", steps)
	}
}

func TestACommitOfMoreThanIsKnownByNameMakesNoServiceThatNeverWas(t *testing.T) {
	h := New(Options{Plan: func() *planner.Plan { return new(planner.Plan) }})
	for _, tt := range []struct {
		files []string
		found bool
	}{{nil, false}, {[]string{"services/gone.yaml"}, true}} {
		h.keep([]commits.Revision{{Files: tt.files, LeftOut: 1}}, "", time.Now())
		list, err := h.List(t.Context(), "gone", paging.Query{})
		if refused := new(api.Refused); tt.found != (err == nil) || !tt.found &&
			(!errors.As(err, &refused) || refused.Status != http.StatusNotFound) {
			t.Errorf("%q: %+v, %v", tt.files, list, err)
		}
	}
}
