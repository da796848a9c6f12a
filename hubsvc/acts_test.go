package hubsvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/internal/addrlimit"
	"github.com/pluralsh/plural/internal/person"
)

// recording is a hub that writes acts down, while the function that it gives back has not been called.
func recording(t *testing.T) (h *hub, token string, end func() []audit.Record) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	people, err := auth.NewPeople(auth.Options{File: file, Users: func(string) (person.Person, bool) { return person.Person{}, false }, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
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
	h = &hub{Options: Options{Log: slog.New(slog.DiscardHandler)}, people: people}
	h.reaching.audit, h.reaching.acts = log, addrlimit.New(actsAtOnce, eachAct, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }()
	return h, strings.TrimSpace(string(raw)), func() []audit.Record {
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
	h, token, end := recording(t)
	front := h.recorded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	if records[2].Stage != audit.End || records[2].ID != first.ID || records[2].Status != http.StatusOK || records[2].Decision != allowed {
		t.Errorf("its end: %+v", records[2])
	}
	if last.Stage != audit.End || last.Status != http.StatusForbidden || last.Decision != denied {
		t.Errorf("last: %+v", last)
	}
}

func TestWhoeverIsRefusedAllTheTimeWaits(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest} {
		h, token, end := recording(t)
		asked := 0
		front := h.recorded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	h, token, end := recording(t)
	h.reaching.acts = addrlimit.New(10, time.Hour, time.Now)
	front := h.recorded(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
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

func TestTheLongestRecordsOfOnePersonLeaveRoomForEverybodyElses(t *testing.T) {
	h, token, end := recording(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/"+strings.Repeat("a", 8<<10), nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("User-Agent", strings.Repeat(`"`, 8<<10))
	r.Header.Set("X-Forwarded-For", strings.Repeat(`"`, 8<<10))
	h.recorded(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	longest := 0
	for _, record := range end() {
		line, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, len(line))
	}
	if once := 2 * actsAtOnce * longest; longest < 3*maxSaid || once > audit.FileBytes*audit.Files/8 {
		t.Errorf("records of %d bytes: what one person may have done at once takes %d of %d", longest, once, audit.FileBytes*audit.Files)
	}
	if filled := time.Duration(audit.FileBytes*audit.Files/(2*longest)) * eachAct; filled < 3*time.Hour {
		t.Errorf("records of %d bytes: what one person may have done fills all files within %s", longest, filled)
	}
}

func TestWhatCannotBeWrittenDownIsNotDone(t *testing.T) {
	h, token, end := recording(t)
	end() // nothing is written any more
	done := false
	front := h.recorded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { done = true }))
	if w := ask(t, front, http.MethodPost, "/v1/services/web/sync", token); w.Code != http.StatusServiceUnavailable || done {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if w := ask(t, front, http.MethodGet, "/v1/services", token); w.Code != http.StatusOK || !done {
		t.Errorf("reading: %d", w.Code)
	}
}
