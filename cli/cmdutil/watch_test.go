package cmdutil

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

// hub answers with clusters, and streams what it is told.
type hub struct {
	mu       sync.Mutex
	clusters []v1.Cluster
	asked    []string
	// stream has what to send; closing it ends the stream. nil: the hub has none.
	stream chan string
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.URL.RequestURI())
	list := v1.List[v1.Cluster]{Items: h.clusters, Total: len(h.clusters)}
	h.mu.Unlock()
	switch {
	case r.URL.Path == "/v1/clusters":
		_ = json.NewEncoder(w).Encode(list)
	case r.URL.Path != "/v1/stream" || h.stream == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		fmt.Fprint(w, ": hello\n\n")
		w.(http.Flusher).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case text, open := <-h.stream:
				if !open {
					return
				}
				fmt.Fprint(w, text)
				w.(http.Flusher).Flush()
			}
		}
	}
}

func (h *hub) set(clusters ...v1.Cluster) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clusters = clusters
}

// asking is a factory whose commands ask the hub at an address.
func asking(address string) (*Factory, *bytes.Buffer, *bytes.Buffer) {
	var out, errOut bytes.Buffer
	return &Factory{
		Globals: Globals{Hub: address}, IO: &ui.Streams{Out: &out, ErrOut: &errOut}, Now: time.Now,
		Getenv: func(name string) string { return map[string]string{"PLURAL_CONFIG_DIR": "/nowhere"}[name] },
	}, &out, &errOut
}

const changed = "event: clusters\nid: 1\ndata: {}\n\n"

func TestWatchLooksAgainWhenTheHubSaysThatSomethingChanged(t *testing.T) {
	t.Parallel()
	h := &hub{stream: make(chan string)}
	h.set(v1.Cluster{Name: "a", Phase: v1.Healthy})
	server := httptest.NewServer(h)
	defer server.Close()
	f, out, _ := asking(server.URL)
	f.Output = "json"
	looks := 0
	watching := Watching{On: true, Kinds: []v1.ChangeKind{v1.ChangedClusters}, Filter: "env:prod"}
	err := f.Show(t.Context(), watching, func(ctx context.Context, c *client.Client, _ *ui.Printer) (ui.View, error) {
		list, err := c.Clusters(ctx)
		if err != nil {
			return ui.View{}, err
		}
		var enough error
		if looks++; len(list.Items) == 2 {
			enough = ErrEnough
		} else if looks == 2 { // the stream is there now, and nothing came of it yet
			h.set(list.Items[0], v1.Cluster{Name: "b", Phase: v1.Stale})
			go func() { h.stream <- changed }()
		}
		return ui.View{Value: list, Names: namesOf(list.Items)}, enough
	})
	want := "{\"items\":[{\"name\":\"a\",\"phase\":\"healthy\",\"services\":0,\"ready\":0}],\"total\":1}\n" +
		"{\"items\":[{\"name\":\"b\",\"phase\":\"stale\",\"services\":0,\"ready\":0}]}\n"
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if all := strings.Join(h.asked, " "); !strings.Contains(all, "/v1/stream?filter=env%3Aprod&kind=clusters") {
		t.Error(all)
	}
}

// namesOf are the names of clusters.
func namesOf(list []v1.Cluster) []string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.Name
	}
	return names
}

func TestWatchAsksAHubThatHasNoStreamEveryOnceInAWhile(t *testing.T) {
	t.Parallel()
	h := &hub{}
	server := httptest.NewServer(h)
	defer server.Close()
	f, _, _ := asking(server.URL)
	looks := 0
	if err := f.Watch(t.Context(), Watching{Kinds: []v1.ChangeKind{v1.ChangedClusters}}, func(context.Context) error {
		if looks++; looks == 3 {
			return ErrEnough
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestWatchWaitsForAHubThatIsAwayAndSaysSoOnce(t *testing.T) {
	t.Parallel()
	h := &hub{stream: make(chan string)}
	server := httptest.NewServer(h)
	defer server.Close()
	f, _, errOut := asking(server.URL)
	looks := 0
	if err := f.Watch(t.Context(), Watching{Kinds: []v1.ChangeKind{v1.ChangedClusters}}, func(context.Context) error {
		if looks++; looks < 3 {
			go func() { h.stream <- changed }()
			return &client.Unreachable{Hub: "HUB", Err: errors.New("no route")}
		}
		return ErrEnough
	}); err != nil || strings.Count(errOut.String(), "error: cannot reach the hub at HUB\n") != 1 {
		t.Error(err, errOut.String())
	}
}

func TestWatchEndsWithItsContextAndWithWhatTheHubRefuses(t *testing.T) {
	t.Parallel()
	forbid := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	server := httptest.NewServer(http.HandlerFunc(forbid))
	defer server.Close()
	f, _, _ := asking(server.URL)
	var refused *client.Error
	still := func(context.Context) error { return nil }
	if err := f.Watch(t.Context(), Watching{Kinds: []v1.ChangeKind{v1.ChangedClusters}}, still); !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := f.Watch(ctx, Watching{}, func(context.Context) error { cancel(late); return nil }); !errors.Is(err, late) {
		t.Errorf("%v", err)
	}
}
