package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	agentapi "github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
)

// events reads one stream.
type events struct {
	lines *bufio.Scanner
	id    string
	stop  context.CancelFunc
}

func (h *hub) open(t *testing.T, query, who, last string) (*events, *http.Response) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/stream?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+who)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return &events{lines: lines, stop: stop}, response
}

// next reads up to the end of an event; one without a name has only an id.
func (e *events) next(t *testing.T) v1.StreamEvent {
	t.Helper()
	var event v1.StreamEvent
	for e.lines.Scan() {
		name, value, _ := strings.Cut(e.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			event.Kind = v1.ChangeKind(value)
		case "data":
			event.Data = json.RawMessage(value)
		case "":
			return event
		}
	}
	t.Fatalf("the stream has ended: %v", e.lines.Err())
	return event
}

// until reads up to an event of a kind.
func (e *events) until(t *testing.T, kind v1.ChangeKind) v1.StreamEvent {
	t.Helper()
	for {
		if event := e.next(t); event.Kind == kind {
			return event
		}
	}
}

func TestStreamTellsWhatChangedSinceTheList(t *testing.T) {
	h := serve(t, 2, nil)
	_, page := ask[v1.List[v1.Deployment]](t, h, http.MethodGet, "/v1/deployments", "bob", "")
	h.says("c000", agentapi.Phase_DEGRADED) // between list and stream
	stream, response := h.open(t, "since="+page.Since+"&filter.deployments=health:degraded", "bob", "")
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%s, %s", response.Status, got)
	}
	seen := map[v1.ChangeKind]string{}
	for range 4 {
		event := stream.next(t)
		seen[event.Kind] = string(event.Data)
	}
	for kind, part := range map[v1.ChangeKind]string{
		v1.ChangedDeployments: `"service":"web","cluster":"c000","phase":"degraded"`, v1.ChangedClusters: `"name":"c000"`,
		v1.ChangedServices: `"name":"web"`, v1.ChangedSummary: `"degraded":1`,
	} {
		if !strings.Contains(seen[kind], part) {
			t.Errorf("%s: %s", kind, seen[kind])
		}
	}
	h.says("c000", agentapi.Phase_HEALTHY)
	h.view.Status()
	if got := string(stream.until(t, v1.ChangedDeployments).Data); got != `{"gone":["c000/web"]}` {
		t.Errorf("what fits no more: %s", got)
	}
}

func TestStreamGoesOnWhereItWasCut(t *testing.T) {
	h := serve(t, 2, nil)
	stream, _ := h.open(t, "kind=deployments", "bob", "")
	stream.next(t) // the place where it begins
	h.says("c000", agentapi.Phase_FAILED)
	h.view.Status()
	stream.until(t, v1.ChangedDeployments)
	stream.stop()
	h.says("c001", agentapi.Phase_FAILED)
	h.view.Status()
	again, _ := h.open(t, "kind=deployments&since=overruled", "bob", stream.id)
	if event := again.next(t); event.Kind != v1.ChangedDeployments || !strings.Contains(string(event.Data), "c001") || strings.Contains(string(event.Data), "c000") {
		t.Errorf("%s %s", event.Kind, event.Data)
	}
}

func TestStreamThatComesBackTooLateIsToldToList(t *testing.T) {
	h := serve(t, 1, nil)
	stream, _ := h.open(t, "", "bob", "AAAAAAAA-17")
	event := stream.next(t)
	var told v1.Error
	if err := json.Unmarshal(event.Data, &told); err != nil || event.Kind != v1.Reset || told.Message == "" || stream.id == "" {
		t.Errorf("%s %s, %v", event.Kind, event.Data, err)
	}
}

// U15
func TestOnePersonsStreamsAreBounded(t *testing.T) {
	h := serve(t, 1, nil)
	var first *events
	for i := range 16 {
		stream, response := h.open(t, "", "bob", "")
		if response.StatusCode != http.StatusOK {
			t.Fatalf("stream %d: %s", i, response.Status)
		}
		if first == nil {
			first = stream
		}
	}
	if _, response := h.open(t, "", "bob", ""); response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", response.Status)
	}
	if _, response := h.open(t, "", "carol", ""); response.StatusCode != http.StatusOK {
		t.Errorf("somebody else: %s", response.Status)
	}
	first.stop()
	for deadline := time.Now().Add(time.Minute); ; {
		if _, response := h.open(t, "", "bob", ""); response.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a stream that ended still counts")
		}
	}
}

// pipe is the reader of a stream inside the test's own time. It takes what it is given, until it is stopped.
type pipe struct {
	mu       sync.Mutex // guards what follows
	written  strings.Builder
	flushes  int
	deadline time.Time
	stopped  bool
}

func (*pipe) Header() http.Header             { return http.Header{} }
func (*pipe) WriteHeader(int)                 {}
func (*pipe) SetReadDeadline(time.Time) error { return nil }
func (p *pipe) SetWriteDeadline(at time.Time) error {
	p.deadline = at
	return nil
}

func (p *pipe) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flushes++
}

func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		time.Sleep(time.Until(p.deadline)) //nolint:forbidigo // as a connection would
		return 0, os.ErrDeadlineExceeded
	}
	return p.written.Write(b)
}

func (p *pipe) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.written.String()
}

// steady is a follower that always has one more change.
type steady struct{ kind v1.ChangeKind }

func (steady) Wait() <-chan struct{} {
	always := make(chan struct{})
	close(always)
	return always
}

func (s steady) Next() ([]v1.StreamEvent, string) {
	return []v1.StreamEvent{{Kind: s.kind, Data: json.RawMessage("{}")}}, "token"
}

// quiet is a follower that never has one.
type quiet struct{}

func (quiet) Wait() <-chan struct{}            { return nil }
func (quiet) Next() ([]v1.StreamEvent, string) { return nil, "token" }

// run serves one stream in a goroutine of its own, and gives what tells of its end.
func run(t *testing.T, h *hub, follower api.Follower, into *pipe) <-chan struct{} {
	t.Helper()
	h.options.Follow = func(string, []v1.ChangeKind, []string, func(v1.ChangeKind) string) (api.Follower, error) {
		return follower, nil
	}
	mux := http.NewServeMux()
	api.New(h.options).Routes(mux)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/stream", nil)
	request.Header.Set("Authorization", "Bearer bob")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		mux.ServeHTTP(into, request)
	}()
	return ended
}

func TestStreamSendsAtMostTenTimesASecond(t *testing.T) {
	h := serve(t, 0, nil)
	synctest.Test(t, func(t *testing.T) {
		into := new(pipe)
		run(t, h, steady{v1.ChangedClusters}, into)
		time.Sleep(time.Second) //nolint:forbidigo // the test's own time
		synctest.Wait()
		if n := strings.Count(into.text(), "event: clusters"); n < 9 || n > 11 || into.flushes != n {
			t.Errorf("%d events in a second, %d flushes", n, into.flushes)
		}
	})
}

func TestQuietStreamShowsThatItLives(t *testing.T) {
	h := serve(t, 0, nil)
	synctest.Test(t, func(t *testing.T) {
		into := new(pipe)
		run(t, h, quiet{}, into)
		time.Sleep(time.Minute + time.Second) //nolint:forbidigo // the test's own time
		synctest.Wait()
		if n := strings.Count(into.text(), "id: token\n\n"); n != 5 {
			t.Errorf("%d ids in a minute:\n%s", n, into.text())
		}
	})
}

func TestStreamEndsWithTheRightsOfItsReader(t *testing.T) {
	h := serve(t, 0, nil)
	synctest.Test(t, func(t *testing.T) {
		ended := run(t, h, quiet{}, new(pipe))
		time.Sleep(time.Minute) //nolint:forbidigo // the test's own time
		h.mu.Lock()
		h.gone = true
		h.mu.Unlock()
		began := time.Now()
		<-ended
		if passed := time.Since(began); passed > 5*time.Second {
			t.Errorf("it lasted for another %s", passed)
		}
	})
}

func TestReaderThatStopsReadingIsCutOff(t *testing.T) {
	h := serve(t, 0, nil)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		<-run(t, h, steady{v1.ChangedClusters}, &pipe{stopped: true})
		if passed := time.Since(began); passed > 15*time.Second {
			t.Errorf("it was waited for for %s", passed)
		}
	})
}

func TestStreamEndsWhenTheHubLeaves(t *testing.T) {
	h := serve(t, 0, nil)
	synctest.Test(t, func(t *testing.T) {
		leaving := make(chan struct{})
		h.options.Leaving = leaving
		ended := run(t, h, quiet{}, new(pipe))
		synctest.Wait()
		close(leaving)
		<-ended
	})
}

func TestStreamOfCertainRowsSendsNoOthers(t *testing.T) {
	h := serve(t, 3, nil)
	_, page := ask[v1.List[v1.Deployment]](t, h, http.MethodGet, "/v1/deployments", "bob", "")
	for _, cluster := range []string{"c000", "c001", "c002"} {
		h.says(cluster, agentapi.Phase_DEGRADED)
	}
	stream, _ := h.open(t, "since="+page.Since+"&kind=deployments&kind=clusters&kind=summary&item=c001/web&item=c002", "bob", "")
	seen := map[v1.ChangeKind]string{}
	for range 3 {
		event := stream.next(t)
		seen[event.Kind] = string(event.Data)
	}
	for kind, others := range map[v1.ChangeKind][2]string{v1.ChangedDeployments: {"c001", "c00[02]"}, v1.ChangedClusters: {"c002", "c00[01]"}} {
		if !strings.Contains(seen[kind], others[0]) || regexp.MustCompile(others[1]).MatchString(seen[kind]) {
			t.Errorf("%s: %s", kind, seen[kind])
		}
	}
	if !strings.Contains(seen[v1.ChangedSummary], `"degraded":3`) {
		t.Errorf("figures of all: %s", seen[v1.ChangedSummary])
	}
	for name, query := range map[string]string{
		"too many": strings.Repeat("item=c001/web&", 301), "none": "item=", "too long": "item=" + strings.Repeat("a", 600), "of three": "item=a/b/c", "of half": "item=a/",
	} {
		if code, told := ask[v1.Error](t, h, http.MethodGet, "/v1/stream?"+query, "bob", ""); code != http.StatusBadRequest || told.Fix == "" {
			t.Errorf("%s: %d %+v", name, code, told)
		}
	}
}

func TestAListThatIsTheSameIsNotSentAgain(t *testing.T) {
	h := serve(t, 3, nil)
	get := func(path, tag string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer bob")
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	const path = "/v1/deployments?filter=cluster:c001"
	first, text := get(path, "")
	tag := first.Header.Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) || !strings.Contains(text, `"since":"`+first.Header.Get(v1.SinceHeader)+`"`) {
		t.Fatal(first.Header, text)
	}
	h.says("c000", agentapi.Phase_DEGRADED) // another row: since is another, the page is not
	for _, had := range []string{tag, `"old", ` + tag, strings.TrimPrefix(tag, "W/")} {
		again, text := get(path, had)
		if again.StatusCode != http.StatusNotModified || text != "" || again.Header.Get("ETag") != tag ||
			again.Header.Get(v1.SinceHeader) == first.Header.Get(v1.SinceHeader) || again.Header.Get(v1.SinceHeader) == "" {
			t.Errorf("%s: %s %v %s", had, again.Status, again.Header, text)
		}
	}
	h.says("c001", agentapi.Phase_DEGRADED)
	if changed, text := get(path, tag); changed.StatusCode != http.StatusOK || changed.Header.Get("ETag") == tag || !strings.Contains(text, "degraded") {
		t.Errorf("%s %v %s", changed.Status, changed.Header, text)
	}
	if other, _ := get("/v1/deployments?filter=cluster:c002", tag); other.StatusCode != http.StatusOK {
		t.Error("another page:", other.Status)
	}
}
