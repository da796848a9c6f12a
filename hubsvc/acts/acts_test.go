package acts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// recording is a Recorder that writes acts down, while the function that it gives back has not been called.
func recording(t *testing.T) (h *Recorder, known *auth.People, token string, end func() []audit.Record) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	people, err := auth.NewPeople(auth.Options{File: file, Directory: func() *auth.Directory { return auth.NewDirectory(&fleet.Fleet{}) }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(audit.Options{Dir: filepath.Join(dir, "audit"), Wait: time.Millisecond, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	h = New(log, people.Person, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	return h, people, strings.TrimSpace(string(raw)), func() []audit.Record {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		return log.Recent(100, func(*audit.Record) bool { return true })
	}
}

func ask(t *testing.T, h http.Handler, method, path, token string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path+"?secret=1", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.RemoteAddr = "192.0.2.7:5000"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWhatPeopleHaveTheHubDoIsWrittenDown(t *testing.T) {
	h, _, token, end := recording(t)
	front := h.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/suspend") {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	ask(t, front, http.MethodGet, "/v1/services/web", token)
	ask(t, front, http.MethodPost, "/hooks/git", token)
	ask(t, front, http.MethodPost, "/v1/services/web/sync", "somebody else's, of some length")
	ask(t, front, http.MethodPost, "/v1/services/web/sync", token)
	ask(t, front, http.MethodPost, "/v1/services/web/suspend", token)
	records := end()
	if len(records) != 4 {
		t.Fatalf("%d records: %+v", len(records), records)
	}
	last, first := records[0], records[3]
	if first.Stage != audit.Start || first.Person != "operator" || first.Source != "192.0.2.7" || first.Path != "/v1/services/web/sync" {
		t.Errorf("first: %+v", first)
	}
	if records[2].Stage != audit.End || records[2].ID != first.ID || records[2].Status != http.StatusOK || records[2].Decision != audit.Allowed {
		t.Errorf("its end: %+v", records[2])
	}
	if last.Stage != audit.End || last.Status != http.StatusForbidden || last.Decision != denied {
		t.Errorf("last: %+v", last)
	}
}

func TestReadingTheRecordIsWrittenDown(t *testing.T) {
	h, _, token, end := recording(t)
	front := h.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/people") {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	for _, path := range []string{"/v1/audit", "/v1/%61udit/chain", "/v1/audit/people", "/v1/auditors", "/v1/clusters"} {
		ask(t, front, http.MethodGet, path, token)
	}
	var got []string
	for _, r := range end() {
		got = append([]string{strings.Join([]string{r.Stage, r.Verb, r.Path, r.Decision}, " ")}, got...)
	}
	want := []string{
		"start get /v1/audit allowed", "end get /v1/audit allowed", "start get /v1/audit/chain allowed", "end get /v1/audit/chain allowed",
		"start get /v1/audit/people allowed", "end get /v1/audit/people denied",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhoeverIsRefusedAllTheTimeWaits(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest} {
		h, _, token, end := recording(t)
		asked := 0
		front := h.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.WriteHeader(status)
		}))
		var last *httptest.ResponseRecorder
		for range 100 {
			last = ask(t, front, http.MethodPost, "/v1/services/web/suspend", token)
		}
		if last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" || asked > 40 {
			t.Errorf("%d: the last answer is %d, after %d that were looked at", status, last.Code, asked)
		}
		end()
	}
}

// The oldest records go when there are too many: nobody may have them go by what costs nothing.
func TestWhatOnePersonHasDoneDoesNotFillTheRecord(t *testing.T) {
	h, _, token, end := recording(t)
	h.limits = addrlimit.New(10, time.Hour, time.Now)
	front := h.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	why := fmt.Sprintf("you exceed %d audited requests per second", time.Second/eachAct)
	for n := range 30 {
		w := ask(t, front, http.MethodPost, "/v1/kube/token", token)
		if limited := w.Code == http.StatusTooManyRequests; limited != (n >= 10) || limited && w.Header().Get("Retry-After") == "" {
			t.Fatalf("act %d is answered %d", n, w.Code)
		} else if limited && !strings.Contains(w.Body.String(), why) {
			t.Fatalf("act %d is answered %s", n, w.Body)
		}
	}
	if records := end(); len(records) != 20 {
		t.Errorf("%d records", len(records))
	}
}

// away is a connection that breaks as soon as it is used.
type away struct{}

func (away) Name() string { return strings.ToLower(rand.Text()) }
func (away) Release()     {}
func (away) Open(context.Context) (tunnelapi.Cluster_ProxyClient, error) {
	return nil, errors.New("broken")
}

// asking has more said in a request than its record repeats. What a cluster says of its end is not theirs to choose.
func asking(t *testing.T, h *Recorder, people *auth.People, token, path string) {
	t.Helper()
	const cluster = "c23456789-123456789-123456789-123456789-123456789-123456789-123"
	kube := kubeapi.New(kubeapi.Options{
		Person: people.KubePerson, Sees: func(principal.Person, string) bool { return true },
		Allow: func(principal.Person, string, kubeaccess.Request) error { return nil },
		Reach: func(context.Context, string) (kubeapi.Backend, error) { return away{}, nil },
		Audit: func(ctx context.Context, r kubeapi.Record) error { return h.audit.Write(ctx, audit.Record(r)) },
		Now:   time.Now, Log: slog.New(slog.DiscardHandler),
	})
	front := http.NewServeMux()
	front.Handle("/v1/", h.HTTP(http.NotFoundHandler()))
	front.Handle(kubeapi.Prefix, kube)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, strings.Replace(path, "CLUSTER", cluster, 1), nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("User-Agent", strings.Repeat(`"`, 8<<10))
	r.Header.Set("X-Forwarded-For", strings.Repeat(`"`, 8<<10))
	r.Header.Set("X-Request-Id", strings.Repeat("a", 128))
	r.RemoteAddr = "[2001:db8:1111:2222:3333:4444:5555:6666]:5000"
	front.ServeHTTP(httptest.NewRecorder(), r)
}

func TestTheLongestRecordsOfOnePersonLeaveRoomForEverybodyElses(t *testing.T) {
	long := strings.Repeat("a", 1000)
	for _, path := range []string{
		"/v1/" + long,
		kubeapi.Prefix + "CLUSTER/apis/" + long + "/" + long + "/namespaces/" + long + "/" + long + "/" + long + "/" + long,
	} {
		h, people, token, end := recording(t)
		asking(t, h, people, token, path)
		records := end()
		if len(records) != 2 {
			t.Fatalf("%.20s: %d records", path, len(records))
		}
		lines, err := os.ReadFile(filepath.Join(h.audit.Dir, "audit.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(lines), `..."`) < 2*3 {
			t.Errorf("%.20s: more could be said: %s", path, lines)
		}
		const all = audit.FileBytes * audit.Files
		if once := actsAtOnce * len(lines); once > all/8 {
			t.Errorf("%.20s: what one person may have done at once takes %d of %d bytes, %d each", path, once, all, len(lines))
		}
		if filled := all / time.Duration(len(lines)) * eachAct; filled < 3*time.Hour {
			t.Errorf("%.20s: what one person may have done fills all files within %s, by %d bytes each", path, filled, len(lines))
		}
	}
}

func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	h, _, token, end := recording(t)
	end() // nothing is written any more
	done := false
	front := h.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done = true }))
	if w := ask(t, front, http.MethodPost, "/v1/services/web/sync", token); w.Code != http.StatusServiceUnavailable || done {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if w := ask(t, front, http.MethodGet, "/v1/services", token); w.Code != http.StatusOK || !done {
		t.Errorf("reading: %d", w.Code)
	}
}

func TestALoginToAnApplicationIsWrittenDownAlsoWhereItIsRefused(t *testing.T) {
	h, _, _, end := recording(t)
	ada := &principal.Person{
		Name: "ada", Groups: []string{"platform"}, Credential: "session-1", Session: &principal.Session{Provider: "corp", Subject: "00u1abc"},
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/oidc/authorize?state=canary", http.NoBody)
	r.RemoteAddr = "192.0.2.7:5000"
	for _, allowed := range []bool{true, false} {
		if err := h.Application(r, ada, "grafana", allowed); err != nil {
			t.Fatal(err)
		}
	}
	records := end()
	if len(records) != 2 {
		t.Fatalf("%+v", records)
	}
	for n, want := range []struct {
		decision string
		status   int
	}{{denied, http.StatusForbidden}, {audit.Allowed, http.StatusOK}} { // the newest first
		got := records[n]
		if got.Decision != want.decision || got.Status != want.status || got.Verb != "login" || got.Resource != "applications" || got.Name != "grafana" ||
			got.Person != "ada" || got.Credential != "session-1" || got.Source != "192.0.2.7" || got.Path != "/oidc/authorize" || got.Cause != "provider/corp says 00u1abc" {
			t.Errorf("%+v", got)
		}
	}
}

func TestWhoeverLogsInAllTheTimeIsWrittenDownNoMore(t *testing.T) {
	h, _, _, end := recording(t)
	h.limits = addrlimit.New(10, time.Hour, time.Now)
	ada := &principal.Person{Name: "ada"}
	refused := 0
	for range 30 {
		if h.Application(httptest.NewRequest(http.MethodGet, "/oidc/authorize", http.NoBody), ada, "grafana", true) != nil {
			refused++
		}
	}
	if records := end(); len(records) != 10 || refused != 20 {
		t.Errorf("%d records, %d refused", len(records), refused)
	}
}
