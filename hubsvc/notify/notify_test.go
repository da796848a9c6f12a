package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inbox is a sink's server, which notes what it gets and answers what a test wants.
type inbox struct {
	*testing.T
	*httptest.Server
	mu      sync.Mutex // guards what follows
	bodies  []string
	headers []http.Header
	answer  func(n int, w http.ResponseWriter)
}

func newInbox(t *testing.T, answer func(n int, w http.ResponseWriter)) *inbox {
	t.Helper()
	in := &inbox{T: t, answer: answer}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		defer in.mu.Unlock()
		in.bodies, in.headers = append(in.bodies, string(body)), append(in.headers, r.Header)
		if in.answer != nil {
			in.answer(len(in.bodies), w)
		}
	}))
	t.Cleanup(in.Close)
	return in
}

// messages waits until there are n, and returns all that came.
func (in *inbox) messages(n int) []string {
	in.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		in.mu.Lock()
		got := append([]string(nil), in.bodies...)
		in.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(deadline) {
			in.Fatalf("%d messages, want %d: %q", len(got), n, got)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func all(*Event) bool { return true }

// telling runs a notifier that gathers for a moment; the clock stands still unless the test moves it.
func telling(t *testing.T, table *Table) (n *Notifier, move func(time.Duration)) {
	t.Helper()
	var mu sync.Mutex
	ahead := time.Duration(0)
	n = New(Options{
		Workspace: func() string { return "demo" }, Table: func() *Table { return table }, Gather: 20 * time.Millisecond,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(ahead)
		},
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, client := range n.courier.clients {
			client.CloseIdleConnections()
		}
	})
	return n, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		ahead += d
	}
}

func one(s Sink, routes ...Route) *Table {
	table := &Table{Sinks: map[string]Sink{s.Name: s}, Routes: routes}
	if len(routes) == 0 {
		table.Routes = []Route{{Name: "all", Sink: s.Name, Wants: all}}
	}
	return table
}

func decode(t *testing.T, body string) (m Message) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return m
}

func TestTheSameOnManyClustersIsOneMessage(t *testing.T) {
	in := newInbox(t, nil)
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	for i := range 60 {
		n.Note(Event{Cluster: fmt.Sprintf("edge-%02d", i), Service: "web", Reason: "Failed", Message: "no such image", Key: "k", Warning: true})
	}
	m := decode(t, in.messages(1)[0])
	if m.Count != 60 || len(m.Clusters) != maxClusters || m.Reason != "Failed" || m.Cluster != "" || m.Workspace != "demo" || !m.Warning {
		t.Errorf("%+v", m)
	}
}

func TestWhatWasToldIsToldAgainOnlyAfterThePause(t *testing.T) {
	in := newInbox(t, nil)
	n, move := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	event := Event{Cluster: "edge-1", Service: "web", Reason: "Failed"}
	n.Note(event)
	in.messages(1)
	for range 7 {
		n.Note(event)
	}
	other := event
	other.Key = "another deployment"
	n.Note(other)
	if got := decode(t, in.messages(2)[1]); got.Key != other.Key {
		t.Errorf("%+v", got)
	}
	move(DefaultEvery)
	n.Note(event)
	if got := decode(t, in.messages(3)[2]); got.Key != "" || got.Repeated != 7 {
		t.Errorf("%+v", got)
	}
}

// Whoever has one cluster said "Silent" of it every five minutes, and nobody heard when another fell silent.
func TestWhatOneClusterSaysKeepsNothingOfAnotherBack(t *testing.T) {
	in := newInbox(t, nil)
	n, move := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	silent := func(cluster string) Event {
		return Event{Cluster: cluster, Reason: "Silent", Warning: true, Message: "its agent does not report any more"}
	}
	n.Note(silent("dev"))
	in.messages(1)
	move(30 * time.Second)
	for range 3 {
		n.Note(silent("dev"))
	}
	n.Note(silent("prod"))
	if got := decode(t, in.messages(2)[1]); !slices.Equal(got.Clusters, []string{"prod"}) || got.Count != 1 {
		t.Errorf("%+v", got)
	}
	n.Note(silent("prod"))
	move(DefaultEvery)
	n.Note(silent("dev"))
	n.Note(silent("prod"))
	if got := decode(t, in.messages(3)[2]); len(got.Clusters) != 2 || got.Repeated != 4 {
		t.Errorf("%+v", got)
	}
}

func TestOneClusterDoesNotTakeTheRoomOfOthers(t *testing.T) {
	in := newInbox(t, nil)
	n, move := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	n.Gather = time.Hour
	flood := func(cluster string) {
		for i := range maxPending {
			n.Note(Event{Cluster: cluster, Service: fmt.Sprint("s", i), Reason: "Failed", Warning: true})
		}
	}
	pending := func() int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.pending)
	}
	flood("dev")
	n.Note(Event{Cluster: "prod", Service: "db", Reason: "Failed", Warning: true})
	if got := pending(); got != maxPendingOf+1 {
		t.Errorf("%d are gathered of two clusters", got)
	}
	move(2 * time.Hour)
	n.release()
	if got := pending(); got != 0 || len(n.begun) != 0 {
		t.Errorf("%d are gathered, of %v", got, n.begun)
	}
}

func TestRoutesPickWhatTheyWant(t *testing.T) {
	in := newInbox(t, nil)
	warnings := Route{Name: "warnings", Sink: "hook", Wants: func(e *Event) bool { return e.Warning }}
	web := Route{Name: "web", Sink: "hook", Wants: func(e *Event) bool { return e.Service == "web" && e.Reason != "Applied" }}
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}, warnings, web))
	n.Note(Event{Service: "web", Reason: "Applied"})
	n.Note(Event{Service: "web", Reason: "Failed", Warning: true})
	n.Note(Event{Service: "web", Reason: "Removed"})
	for i, body := range in.messages(2)[:2] {
		if got := decode(t, body); got.Reason != []string{"Failed", "Removed"}[i] {
			t.Errorf("message %d: %+v", i, got)
		}
	}
}

func TestAWebhookCanCheckWhoSentIt(t *testing.T) {
	in := newInbox(t, nil)
	secret := []byte("a secret of some length")
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL, Secret: secret}))
	n.Note(Event{Service: "web", Reason: "Applied"})
	body := in.messages(1)[0]
	in.mu.Lock()
	header := in.headers[0]
	in.mu.Unlock()
	seconds, signature, ok := strings.Cut(strings.TrimPrefix(header.Get(SignatureHeader), "t="), ",v1=")
	sum := hmac.New(sha256.New, secret)
	fmt.Fprintf(sum, "%s.%s", seconds, body)
	if !ok || signature != hex.EncodeToString(sum.Sum(nil)) {
		t.Errorf("signature %q", header.Get(SignatureHeader))
	}
	if strings.Contains(body, string(secret)) || header.Get("Plural-Message") != decode(t, body).ID {
		t.Errorf("%v\n%s", header, body)
	}
}

func TestSlackReadsNoMarkupOfOthers(t *testing.T) {
	in := newInbox(t, nil)
	n, _ := telling(t, one(Sink{Name: "chat", Kind: Slack, Target: in.URL}))
	n.Note(Event{Cluster: "edge-1", Service: "web", Reason: "Failed", Message: "<!channel> & <http://evil|click>\x1b[2J\u202e", Warning: true})
	var got struct{ Text string }
	if err := json.Unmarshal([]byte(in.messages(1)[0]), &got); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(got.Text, "<>\x1b\u202e") || !strings.Contains(got.Text, "[demo] warning: Failed web on edge-1: &lt;!channel&gt; &amp;") {
		t.Errorf("%q", got.Text)
	}
}

func TestAFileGetsALineEach(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	n, _ := telling(t, one(Sink{Name: "file", Kind: File, Target: file}))
	n.Note(Event{Service: "web", Reason: "Applied"})
	n.Note(Event{Service: "api", Reason: "Applied"})
	for deadline := time.Now().Add(time.Minute); ; {
		text, _ := os.ReadFile(file)
		if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); len(lines) == 2 {
			if decode(t, lines[0]).Service != "web" || decode(t, lines[1]).Service != "api" {
				t.Errorf("%s", text)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%q", text)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestAFileThatIsFullIsPutAside(t *testing.T) {
	dir := t.TempDir()
	to := &Sink{Name: "file", Kind: File, Target: filepath.Join(dir, "events.jsonl")}
	c := newCourier("hub-0", true)
	if c.full != 64<<20 {
		t.Errorf("a file is full at %d bytes", c.full)
	}
	c.full = 1 // after each line
	for n := range 7 {
		if err := c.bring(t.Context(), to, &Message{ID: strconv.Itoa(n)}); err != nil {
			t.Fatal(err)
		}
	}
	full, _ := filepath.Glob(filepath.Join(dir, "events-*.jsonl"))
	var ids []string
	for _, name := range append(full, to.Target) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, decode(t, strings.TrimSpace(string(text))).ID)
	}
	if !slices.Equal(ids, []string{"3", "4", "5", "6"}) {
		t.Errorf("messages %q are left", ids)
	}
}

func TestASinkThatIsAwayIsTriedAgainWithTheSameMessage(t *testing.T) {
	in := newInbox(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	n.Note(Event{Service: "web", Reason: "Failed"})
	got := in.messages(2)
	if first, second := decode(t, got[0]), decode(t, got[1]); first.ID != second.ID || first.ID == "" {
		t.Errorf("%q and %q", first.ID, second.ID)
	}
}

func TestASinkThatRefusesIsNotAskedAgain(t *testing.T) {
	in := newInbox(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusGone)
		}
	})
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	n.Note(Event{Service: "web", Reason: "Failed"})
	in.messages(1)
	n.Note(Event{Service: "api", Reason: "Failed"})
	if got := decode(t, in.messages(2)[1]); got.Service != "api" {
		t.Errorf("%+v", got)
	}
}

func TestAStormReachesASinkAtItsPaceAndSaysWhatWasLost(t *testing.T) {
	hold := make(chan struct{})
	in := newInbox(t, func(n int, _ http.ResponseWriter) {
		if n == 1 {
			<-hold
		}
	})
	n, _ := telling(t, one(Sink{Name: "hook", Kind: Webhook, Target: in.URL}))
	n.Note(Event{Service: "first", Reason: "Failed"})
	for n.queued("hook") != 0 { // until it is under way
		<-time.After(time.Millisecond)
	}
	for i := range maxQueued + 100 {
		n.Note(Event{Service: fmt.Sprintf("s%04d", i), Reason: "Failed"})
	}
	for n.lost("hook") != 100 {
		<-time.After(time.Millisecond)
	}
	close(hold)
	got := in.messages(burst)
	if len(got) > burst+2 {
		t.Errorf("%d messages at once", len(got))
	}
	if m := decode(t, got[1]); m.Dropped != 100 || m.Service != "s0100" {
		t.Errorf("%+v", m)
	}
}

// lost is how many messages of a sink made room for others.
func (n *Notifier) lost(sink string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.queues[sink]
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// queued is how many messages wait for a sink, -1 for one that was never told anything.
func (n *Notifier) queued(sink string) int {
	n.mu.Lock()
	q := n.queues[sink]
	n.mu.Unlock()
	if q == nil {
		return -1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func TestWhatIsRememberedIsBounded(t *testing.T) {
	n := New(Options{
		Workspace: func() string { return "demo" }, Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Table: func() *Table { return one(Sink{Name: "hook", Kind: File, Target: "/dev/null"}) },
	})
	for i := range 3 * maxKnown {
		n.Note(Event{Service: fmt.Sprint(i), Reason: "Failed"})
	}
	if len(n.pending) > maxPending || len(n.told) > maxKnown {
		t.Errorf("%d pending, %d told", len(n.pending), len(n.told))
	}
}

func TestASinkIsNotOnTheHubsOwnMachineUnlessThatIsAllowed(t *testing.T) {
	in := newInbox(t, nil)
	local := strings.Replace(in.URL, "127.0.0.1", "localhost", 1) + "/s3cret"
	for _, target := range []string{in.URL, local} {
		sink := &Sink{Name: "hook", Kind: Webhook, Target: target}
		err := newCourier("hub-0", true).bring(t.Context(), sink, &Message{})
		if err == nil || !strings.Contains(err.Error(), "--allow-loopback") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", target, err)
		}
		if err := newCourier("hub-0", false).bring(t.Context(), sink, &Message{}); err != nil {
			t.Errorf("%s where it is allowed: %v", target, err)
		}
	}
	server := &Sink{Name: "syslog", Kind: Syslog, Target: strings.Replace(in.URL, "http:", "tcp:", 1)}
	if err := newCourier("hub-0", true).bring(t.Context(), server, &Message{}); err == nil || !strings.Contains(err.Error(), "--allow-loopback") {
		t.Errorf("a syslog server: %v", err)
	}
}

func TestNoErrorNamesTheAddressOfASink(t *testing.T) {
	in := newInbox(t, nil)
	in.Close()
	for _, target := range []string{in.URL + "/services/T0/B0/s3cret", "http://example.com/s3cret", "::s3cret"} {
		err := newCourier("hub-0", false).bring(t.Context(), &Sink{Name: "chat", Kind: Slack, Target: target}, &Message{})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestAClusterThatFloodsASinkDoesNotDrownTheOthers: agents are not trusted, and what one makes up must cost only its own messages.
func TestAClusterThatFloodsASinkDoesNotDrownTheOthers(t *testing.T) {
	n, _ := telling(t, &Table{})
	q := newQueue(n, "ops")
	message := func(cluster, text string) *Message {
		return &Message{Event: Event{Reason: "Failed", Message: text}, Clusters: []string{cluster}, Count: 1}
	}
	q.put(message("good", "first"))
	for i := range 3 * maxQueued {
		q.put(message("evil", fmt.Sprint(i)))
		if i == maxQueued {
			q.put(message("good", "second"))
		}
	}
	var order []string
	for m := q.take(); m != nil; m = q.take() {
		order = append(order, m.Clusters[0]+" "+m.Message)
	}
	if len(order) != maxQueued || order[0] != "good first" || order[2] != "good second" || order[1] != fmt.Sprintf("evil %d", 2*maxQueued+2) {
		t.Errorf("%d messages, beginning with %q", len(order), order[:min(len(order), 4)])
	}
}
