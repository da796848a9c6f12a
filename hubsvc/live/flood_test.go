package live

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/principal"
)

// slowAgent takes its time for each comparison, and counts them.
type slowAgent struct {
	tunnelapi.ClusterClient
	mu          sync.Mutex
	under, most int
}

func (a *slowAgent) Diff(ctx context.Context, _ *tunnelapi.DiffRequest, _ ...grpc.CallOption) (*tunnelapi.DiffReply, error) {
	a.mu.Lock()
	a.under++
	a.most = max(a.most, a.under)
	a.mu.Unlock()
	<-ctx.Done()
	a.mu.Lock()
	a.under--
	a.mu.Unlock()
	return nil, ctx.Err()
}

func (*slowAgent) Release() {}

// A connection of an agent carries 1024 streams for everybody: who may only look must not take all of them.
func TestAPersonAsksAFewThingsAtATimeAndNoMore(t *testing.T) {
	agent := &slowAgent{}
	a := New(Options{
		Person: func(r *http.Request) (principal.Person, error) {
			return principal.Person{Name: r.Header.Get("X-Who"), Credential: r.Header.Get("X-Who")}, nil
		},
		Allow: func(principal.Person, string) error { return nil }, Sees: func(principal.Person, string) bool { return true },
		Runs:  func(string, string) bool { return true },
		Reach: func(context.Context, string) (Agent, error) { return agent, nil },
	})
	mux := http.NewServeMux()
	a.Routes(mux)
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for range 1100 {
		asking.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/clusters/edge/services/web/diff", nil)
			r.Header.Set("X-Who", "ana")
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			mu.Lock()
			defer mu.Unlock()
			codes[w.Code]++
		})
	}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline) && wait(ctx, time.Millisecond) == nil; {
		mu.Lock()
		turnedAway := codes[http.StatusTooManyRequests]
		mu.Unlock()
		if turnedAway >= 1100-32 {
			break
		}
	}
	cancel()
	asking.Wait()
	if agent.most > 32 || codes[http.StatusTooManyRequests] != 1100-32 {
		t.Errorf("%d comparisons at a time, answers %v", agent.most, codes)
	}
	for i := range 32 {
		if _, ok := a.requests.Take(t.Context(), principal.Person{Name: "ana"}); !ok {
			t.Fatalf("%d places were given back", i)
		}
	}
}
