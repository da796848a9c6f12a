package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
)

// fake is a hub whose answers a test decides on.
type fake struct {
	*httptest.Server
	streams chan *stream // those that were opened

	mu    sync.Mutex // guards what follows
	lists map[string]func(query string) any
	asked []string
	// token is the one that is taken; empty: any is.
	token string
}

// stream is one that a client reads.
type stream struct {
	since string
	send  chan string
	done  chan struct{}
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{streams: make(chan *stream, 8), lists: map[string]func(string) any{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	for _, path := range []string{"clusters", "services", "sources", "events", "upgrades", "deployments"} {
		f.answer(path, func(string) any { return v1.List[json.RawMessage]{Since: "e-1"} })
	}
	f.answer("summary", func(string) any { return v1.Summary{Commit: v1.Commit{ID: "c1"}} })
	f.answer("me", func(string) any { return v1.Me{Name: "ann"} })
	return f
}

func (f *fake) answer(path string, with func(query string) any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists["/v1/"+path] = with
}

// take has one token be good from now on, and all streams end.
func (f *fake) take(token string) {
	f.mu.Lock()
	f.token = token
	f.mu.Unlock()
	f.CloseClientConnections()
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	token := f.token
	f.mu.Unlock()
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/v1/stream" {
		f.stream(w, r)
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, r.URL.Path+"?"+r.URL.Query().Get("filter"))
	answer := f.lists[r.URL.Path]
	f.mu.Unlock()
	switch body := answer(r.URL.Query().Get("continue") + r.URL.Query().Get("filter")).(type) {
	case int:
		w.WriteHeader(body)
	default:
		_ = json.NewEncoder(w).Encode(body)
	}
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	s := &stream{r.URL.Query().Get("since"), make(chan string), make(chan struct{})}
	_ = http.NewResponseController(w).Flush()
	f.streams <- s
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-s.send:
			fmt.Fprint(w, text)
			_ = http.NewResponseController(w).Flush()
		case <-s.done:
			return
		}
	}
}

// say sends an event.
func (s *stream) say(kind v1.ChangeKind, data any) {
	raw, _ := json.Marshal(data)
	s.send <- fmt.Sprintf("event: %s\ndata: %s\nid: e-9\n\n", kind, raw)
}

// console is a fleet as a source fills it.
type console struct {
	*Fleet
	t       *testing.T
	batches chan Batch
	ended   chan error
}

func watch(t *testing.T, s Source) *console {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &console{New(time.Now), t, make(chan Batch), make(chan error, 1)}
	go func() {
		c.ended <- s.Run(ctx, func(b Batch) {
			select {
			case c.batches <- b:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-c.ended
	})
	return c
}

// until takes batches in until it is so.
func (c *console) until(what string, so func() bool) {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for !so() {
		select {
		case b := <-c.batches:
			c.Apply(b)
		case <-deadline:
			c.t.Fatalf("never: %s; state %+v, rows %v", what, c.State, c.rows())
		}
	}
}

func (c *console) rows() []string {
	v := c.Deployments.View()
	defer v.Close()
	rows := []string{}
	for i := range v.Len() {
		rows = append(rows, v.ID(i)+" "+string(v.At(i).Phase))
	}
	return rows
}

func (c *console) shows(want ...string) bool { return gocmp.Equal(want, c.rows()) }

func pages(all ...[]v1.Deployment) func(string) any {
	return func(token string) any {
		at := 0
		for i := range all {
			if token == fmt.Sprintf("p%d", i) {
				at = i
			}
		}
		total := 0
		for _, page := range all {
			total += len(page)
		}
		page := v1.List[v1.Deployment]{Items: all[at], Total: total, Since: "e-1"}
		if at+1 < len(all) {
			page.Next = fmt.Sprintf("p%d", at+1)
		}
		return page
	}
}

func row(cluster string, phase v1.Phase) v1.Deployment {
	return v1.Deployment{Cluster: cluster, Service: "web", Phase: phase}
}

func (f *fake) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(f.URL, "t0ken", "test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clock(c *client.Client) (*client.Client, Options) { return c, Options{Now: time.Now} }

func TestFirstRowsAreThereBeforeTheRest(t *testing.T) {
	f := newFake(t)
	rest := make(chan struct{})
	listing := pages([]v1.Deployment{row("a", v1.Healthy)}, []v1.Deployment{row("b", v1.Failed)})
	f.answer("deployments", func(token string) any {
		if token != "" {
			<-rest
		}
		return listing(token)
	})
	c := watch(t, FromHub(clock(f.client(t))))
	c.until("the first row", func() bool { return c.shows("a/web healthy") && c.Summary != nil && c.Me != nil })
	if known, all := c.Deployments.View().Total(); known != 1 || all != 2 || c.Deployments.Whole() {
		t.Errorf("%d of %d", known, all)
	}
	close(rest)
	c.until("all rows", func() bool {
		return c.Deployments.Whole() && c.shows("a/web healthy", "b/web failed") && c.State.Link == Live
	})
	if s := <-f.streams; s.since != "e-1" {
		t.Errorf("the stream is read from %q", s.since)
	}
}

func TestWhatTheStreamSaidCountsMoreThanAPageAskedForBefore(t *testing.T) {
	f := newFake(t)
	asked, rest := make(chan struct{}), make(chan struct{})
	listing := pages([]v1.Deployment{row("a", v1.Healthy)}, []v1.Deployment{row("b", v1.Failed), row("c", v1.Failed), row("d", v1.Failed)})
	f.answer("deployments", func(token string) any {
		if token != "" {
			close(asked)
			<-rest
		}
		return listing(token)
	})
	c := watch(t, FromHub(clock(f.client(t))))
	s := c.opened(f)
	after(c, asked)
	go s.say(v1.ChangedDeployments, v1.Changes[v1.Deployment]{Items: []v1.Deployment{row("b", v1.Healthy)}, Gone: []string{"c/web"}})
	c.until("what the stream says", func() bool { return c.shows("a/web healthy", "b/web healthy") })
	close(rest)
	c.until("all rows", func() bool { return c.Deployments.Whole() })
	if !c.shows("a/web healthy", "b/web healthy", "d/web failed") {
		t.Errorf("got %v", c.rows())
	}
}

// opened is the next stream.
func (c *console) opened(f *fake) *stream { return after(c, f.streams) }

// after takes batches in until something comes.
func after[T any](c *console, comes <-chan T) (thing T) {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case b := <-c.batches:
			c.Apply(b)
		case thing = <-comes:
			return thing
		case <-deadline:
			c.t.Fatalf("it does not come; state %+v", c.State)
		}
	}
}

func TestMissedChangesAreListedAgainWithoutAnEmptyScreen(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", pages([]v1.Deployment{row("a", v1.Healthy), row("b", v1.Healthy)}))
	c := watch(t, FromHub(clock(f.client(t))))
	s := c.opened(f)
	c.until("all rows", func() bool { return c.Upgrades.Whole() && c.Deployments.Whole() })
	f.answer("deployments", pages([]v1.Deployment{row("b", v1.Failed), row("c", v1.Healthy)}))
	go s.say(v1.Reset, v1.Error{Message: "missed"})
	fewest := 9
	c.until("the new rows", func() bool {
		fewest = min(fewest, c.Deployments.Len())
		return c.Deployments.Whole() && c.shows("b/web failed", "c/web healthy")
	})
	if fewest < 2 {
		t.Errorf("at a time there were %d rows", fewest)
	}
}

func TestHubThatGoesAwayLeavesItsRowsAndSaysSinceWhen(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", pages([]v1.Deployment{row("a", v1.Healthy)}))
	c := watch(t, FromHub(clock(f.client(t))))
	s := c.opened(f)
	c.until("it is live", func() bool { return c.State.Link == Live && c.Upgrades.Whole() })
	close(s.done)
	c.until("it is broken", func() bool { return c.State.Link == Broken })
	since := c.State.Since
	if c.State.Why == "" || !c.shows("a/web healthy") || since.IsZero() {
		t.Errorf("%+v, %v", c.State, c.rows())
	}
	c.until("it is live again", func() bool { return c.State.Link == Live })
}

func TestHubThatRefusesIsNotAskedAgain(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", func(string) any { return http.StatusForbidden })
	s := FromHub(clock(f.client(t)))
	fleet := New(time.Now)
	err := s.Run(t.Context(), fleet.Apply)
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || fleet.State.Link != Broken || fleet.State.Why == "" {
		t.Errorf("%v, %+v", err, fleet.State)
	}
}

func TestPersonWhoIsLoggedOutIsToldSoAndLogsInElsewhere(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", pages([]v1.Deployment{row("a", v1.Healthy), row("b", v1.Healthy)}))
	var kept atomic.Value
	kept.Store("t0ken")
	c := watch(t, FromHub(f.client(t), Options{Now: time.Now, Token: func() (string, error) { return kept.Load().(string), nil }}))
	c.opened(f)
	c.until("all is listed", func() bool { return c.Upgrades.Whole() && c.State.Link == Live })

	f.take("another")
	c.until("they are logged out", func() bool { return c.State.LoggedOut && c.State.Link == Broken })
	if !c.shows("a/web healthy", "b/web healthy") || c.AsOf().IsZero() || !strings.Contains(c.State.Why, "401") {
		t.Errorf("%+v, as of %s, %v", c.State, c.AsOf(), c.rows())
	}
	f.answer("deployments", pages([]v1.Deployment{row("a", v1.Failed)}))
	f.answer("me", func(string) any { return v1.Me{Name: "bob"} })
	fewest := 9
	kept.Store("another")
	c.until("what was missed is there, and who they are now", func() bool {
		fewest = min(fewest, c.Deployments.Len())
		return c.State.Link == Live && !c.State.LoggedOut && c.shows("a/web failed") && c.Me != nil && c.Me.Name == "bob"
	})
	if fewest == 0 {
		t.Error("the screen was empty in between")
	}
}

func TestPersonWhoIsLoggedOutAtFirstLogsIn(t *testing.T) {
	f := newFake(t)
	f.answer("deployments", pages([]v1.Deployment{row("hub", v1.Healthy)}))
	f.take("another")
	var kept atomic.Value
	kept.Store("")
	hub := FromBoth(f.client(t), find(t, clone(t)), nil, Options{
		Now: time.Now, Patience: time.Hour, Token: func() (string, error) { return kept.Load().(string), nil },
	})
	c := watch(t, hub)
	c.until("the repo, at once", func() bool { return c.State.LoggedOut && c.State.Link == Offline && c.Deployments.Len() == 3 })
	kept.Store("another")
	c.until("the hub", func() bool { return c.State.Link == Live && !c.State.LoggedOut && c.shows("hub/web healthy") })
}

func TestRowsThatSomebodyLooksForComeFirst(t *testing.T) {
	f := newFake(t)
	rest := make(chan struct{})
	t.Cleanup(func() { close(rest) })
	f.answer("deployments", func(token string) any {
		switch token {
		case "":
			return v1.List[v1.Deployment]{Items: []v1.Deployment{row("a", v1.Healthy)}, Next: "p1", Total: 3}
		case "p1":
			<-rest
		case "env:prod":
			return v1.List[v1.Deployment]{Items: []v1.Deployment{row("z", v1.Healthy)}, Total: 1}
		}
		return v1.List[v1.Deployment]{}
	})
	s := FromHub(clock(f.client(t)))
	c := watch(t, s)
	c.until("the first row", func() bool { return c.shows("a/web healthy") })
	for _, text := range []string{"e", "env:", "env:prod"} {
		s.Seek(v1.ChangedDeployments, text)
	}
	c.until("the row that is looked for", func() bool { return c.shows("a/web healthy", "z/web healthy") })
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.asked, func(q string) bool { return strings.HasSuffix(q, "?e") || strings.HasSuffix(q, "?env:") }) {
		t.Errorf("each key asks the hub: %v", f.asked)
	}
}

func TestWhoeverSeeksDoesNotWaitForWhoeverTakesBatches(t *testing.T) {
	s := FromHub(clock(newFake(t).client(t)))
	ctx, cancel := context.WithCancel(t.Context())
	blocked, free, ended := make(chan struct{}, 64), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Run(ctx, func(Batch) {
			blocked <- struct{}{}
			<-free
		})
	}()
	<-blocked
	s.Seek(v1.ChangedDeployments, "env:prod") // on the goroutine that would take the batch
	cancel()
	close(free)
	<-ended
}

func TestHubWithoutAListOfPackagesIsFine(t *testing.T) {
	f := newFake(t)
	f.answer("upgrades", func(string) any { return http.StatusNotFound })
	c := watch(t, FromHub(clock(f.client(t))))
	c.until("all is listed", func() bool { return c.Upgrades.Whole() && c.State.Link == Live })
}

func TestStreamTellsOfEverything(t *testing.T) {
	f := newFake(t)
	c := watch(t, FromHub(clock(f.client(t))))
	s := c.opened(f)
	c.until("all is listed", func() bool { return c.Upgrades.Whole() && c.Deployments.Whole() })
	go func() {
		s.say(v1.ChangedClusters, v1.Changes[v1.Cluster]{Items: []v1.Cluster{{Name: "a", Tags: map[string]string{"env": "prod"}}}})
		s.say(v1.ChangedServices, v1.Changes[v1.Service]{Items: []v1.Service{{Name: "web", Namespace: "front"}}})
		s.say(v1.ChangedDeployments, v1.Changes[v1.Deployment]{Items: []v1.Deployment{row("a", v1.Healthy)}})
		s.say(v1.ChangedSources, v1.Changes[v1.Source]{Items: []v1.Source{{Name: "."}}})
		s.say(v1.ChangedUpgrades, v1.Changes[v1.Upgrade]{Items: []v1.Upgrade{{Installation: "db"}}})
		s.say(v1.Happened, v1.Changes[v1.Event]{Items: []v1.Event{{Reason: "Applied", Time: start}}})
		s.say("weather", "a newer hub's")
		s.send <- "event: clusters\ndata: {\n\n"
		s.say(v1.ChangedSummary, v1.Summary{Commit: v1.Commit{ID: "c2"}})
	}()
	c.until("the summary", func() bool {
		return c.Summary != nil && c.Summary.Commit.ID == "c2" && c.Upgrades.Whole() && c.Deployments.Whole()
	})
	d := c.Deployments.Get("a/web")
	if d == nil || d.Tags["env"] != "prod" || d.Namespace != "front" || c.Sources.Len() != 1 || c.Upgrades.Len() != 1 || c.Events.Len() != 1 {
		t.Errorf("%+v, %d, %d, %d", d, c.Sources.Len(), c.Upgrades.Len(), c.Events.Len())
	}
}
