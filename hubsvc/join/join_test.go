package join_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/workspace/fleet"
)

// door is one with a cluster that waits for a token, and a clock that stands still.
func door(t testing.TB, raw string) (http.Handler, *time.Time) {
	t.Helper()
	return doorThatLogs(t, raw, slog.New(slog.DiscardHandler))
}

func doorThatLogs(t testing.TB, raw string, log *slog.Logger) (http.Handler, *time.Time) {
	t.Helper()
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	c := &fleet.Cluster{Metadata: fleet.Metadata{Name: "edge"}}
	c.Spec.Join = &fleet.Join{Hash: fleet.HashToken(raw), Expires: now.Add(time.Hour).Format(time.RFC3339)}
	mux := http.NewServeMux()
	join.New(join.Options{
		Cluster: func(name string) (*fleet.Cluster, bool) { return c, name == "edge" },
		Place:   func() (join.HubAddress, error) { return join.HubAddress{HubURL: "https://hub"}, nil },
		Refused: func(string) error { return nil },
		Commit: func(context.Context, string, fleet.AgentKeys, string) error {
			t.Error("something is committed")
			return nil
		},
		Write: func(context.Context, join.Exchange, bool) error { return nil },
		Image: func(*fleet.Cluster) string { return "agent:1" }, Now: func() time.Time { return now }, Log: log,
	}).Routes(mux)
	return mux, &now
}

func ask(h http.Handler, method, path, from, body string) int {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

func TestEachAddressHasSoManyTries(t *testing.T) {
	h, now := door(t, "raw")
	try := func(from string) int { return ask(h, http.MethodGet, "/join/edge.yaml?token=guess", from, "") }
	for range 100 {
		if code := try("192.0.2.1:1"); code != http.StatusNotFound {
			t.Fatalf("%d", code)
		}
	}
	if code := try("192.0.2.1:2"); code != http.StatusTooManyRequests {
		t.Errorf("one more, by another port: %d", code)
	}
	if code := try("192.0.2.2:1"); code != http.StatusNotFound {
		t.Errorf("somebody else: %d", code)
	}
	*now = now.Add(time.Second)
	if code := try("192.0.2.1:3"); code != http.StatusNotFound {
		t.Errorf("a second later: %d", code)
	}
	for range 100 {
		try("[2001:db8::1]:1")
	}
	if code := try("[2001:db8::2]:1"); code != http.StatusTooManyRequests {
		t.Errorf("another address of the same network: %d", code)
	}
}

func TestSendersAreForgottenWhenThereAreTooMany(t *testing.T) {
	h, now := door(t, "raw")
	try := func(n int) int {
		return ask(h, http.MethodGet, "/join/edge.yaml", "10."+string(rune('0'+n/1000%10))+"."+string(rune('0'+n/100%10))+string(rune('0'+n/10%10))+"."+string(rune('0'+n%10))+":1", "")
	}
	limited := 0
	for n := range 9999 {
		if try(n) == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited == 0 {
		t.Error("as many as there are addresses are let through at once")
	}
	*now = now.Add(time.Hour)
	if code := try(1); code != http.StatusNotFound {
		t.Errorf("an hour later: %d", code)
	}
}

func TestAJoinTokenIsShownInAHeader(t *testing.T) {
	var log strings.Builder
	h, _ := doorThatLogs(t, "raw", slog.New(slog.NewTextHandler(&log, nil)))
	for name, test := range map[string]struct {
		query, header string
		status        int
		warned        bool
	}{
		"in the header":                          {"", "Bearer raw", http.StatusOK, false},
		"a wrong one, beside one in the URL":     {"?token=raw", "Bearer other", http.StatusNotFound, false},
		"in the URL, as an earlier release does": {"?token=raw", "", http.StatusOK, true},
	} {
		log.Reset()
		r := httptest.NewRequest(http.MethodGet, "/join/edge.yaml"+test.query, nil)
		if test.header != "" {
			r.Header.Set("Authorization", test.header)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != test.status || strings.Contains(log.String(), "in a URL") != test.warned || strings.Contains(log.String(), "raw") {
			t.Errorf("%s: %d, said %q", name, w.Code, log.String())
		}
	}
}

func FuzzExchange(f *testing.F) {
	f.Add(`{"cluster":"edge","token":"raw","auth":"ed25519:AAAA","age":"age1"}`)
	f.Add(`{"cluster":"edge"}{"cluster":"edge"}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		h, _ := door(t, "raw")
		if code := ask(h, http.MethodPost, api.JoinPath, "192.0.2.1:1", body); code != http.StatusNotFound {
			t.Errorf("%d for %q", code, body)
		}
	})
}
