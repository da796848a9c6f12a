package client

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Two fleets on one machine: the one that is down lost its hub's port to the other, whose rows were shown as its own.
func TestAnAnswerOfAnotherRepositorysHubIsRefusedWhateverItSays(t *testing.T) {
	for name, tt := range map[string]struct {
		serves, wanted string
		status         int
		refused        bool
	}{
		"another's":                         {serves: "theirs", wanted: "ours", status: http.StatusOK, refused: true},
		"another's refusal":                 {serves: "theirs", wanted: "ours", status: http.StatusUnauthorized, refused: true},
		"another's that is out of order":    {serves: "theirs", wanted: "ours", status: http.StatusBadGateway, refused: true},
		"the repository's own":              {serves: "ours", wanted: "ours", status: http.StatusOK},
		"one that does not say":             {wanted: "ours", status: http.StatusOK},
		"one of which nothing is expected":  {serves: "theirs", status: http.StatusOK},
		"a refusal by the repository's own": {serves: "ours", wanted: "ours", status: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
				if tt.serves != "" {
					w.Header().Set(v1.RepositoryHeader, tt.serves)
				}
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(`{}`))
			})
			c.Expect(tt.wanted)
			_, listed := c.Status(t.Context())
			_, posted := c.SyncService(t.Context(), "web", nil)
			errs := map[string]error{"a list": listed, "an action": posted}
			if tt.refused { // otherwise the stream is followed for ever
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				errs["a stream"] = c.Follow(ctx, Following{}, func(v1.StreamEvent) error { return nil })
			}
			for what, err := range errs {
				var other *OtherRepository
				if errors.As(err, &other) != tt.refused {
					t.Errorf("%s: %v", what, err)
				} else if tt.refused && (other.Serves != "theirs" || other.Wanted != "ours" || other.Hub != c.Address()) {
					t.Errorf("%s names %+v", what, other)
				}
			}
		})
	}
}

// A hub that was frozen kept people before an empty screen for half a minute.
func TestAHubThatDoesNotAnswerIsToldAfterFiveSeconds(t *testing.T) {
	slow := make(chan time.Time, 1)
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/status" {
			select {
			case at := <-slow:
				slow <- at
			case <-r.Context().Done():
			}
		}
		_, _ = w.Write([]byte(`{}`))
	})
	c.WhenSlow(func(string) { slow <- time.Now() })
	if _, err := c.Hub(t.Context()); err != nil || len(slow) != 0 {
		t.Errorf("a hub that answers: %v, told %d times", err, len(slow))
	}
	begun := time.Now()
	if _, err := c.Status(t.Context()); err != nil || len(slow) != 1 {
		t.Fatalf("%v, told %d times", err, len(slow))
	}
	if after := (<-slow).Sub(begun); after < SlowAfter || after > 2*SlowAfter {
		t.Errorf("after %s", after)
	}
}

// The hub was blamed for a cluster whose API server was away.
func TestWhoIsSlowIsTheClusterWhereTheHubAsksOne(t *testing.T) {
	slow := make(chan string, 1)
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		select {
		case who := <-slow:
			slow <- who
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte(`{}`))
	})
	c.WhenSlow(func(cluster string) { slow <- cluster })
	if _, err := c.ServiceObjects(t.Context(), "edge-2", "web"); err != nil {
		t.Fatal(err)
	}
	if who := <-slow; who != "edge-2" {
		t.Errorf("it is %q that is waited for", who)
	}
	for path, want := range map[string]string{
		"/v1/status": "", "/v1/clusters/edge-2": "", "/v1/clusters/edge-2/connections": "", "/v1/clusters/edge-2/sync": "",
		"/v1/clusters/edge-2/objects": "edge-2", "/k8s/edge-2/api/v1/pods": "edge-2",
	} {
		if who := waitsFor(path); who != want {
			t.Errorf("%s: %q, want %q", path, who, want)
		}
	}
}
