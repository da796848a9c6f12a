package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

func TestStreamThatBreaksIsTakenUpWhereItWas(t *testing.T) {
	var asked []string
	c := newClient(t, "t0ken", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch len(asked) {
		case 1: // it ends within an event
			fmt.Fprint(w, "retry: 2000\nid: a-1\n\nid: a-2\nevent: clusters\ndata: {\"gone\":[\"x\"]}\n\nevent: services\ndata: {")
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			fmt.Fprint(w, ": a comment\n\nevent: reset\ndata: {\"message\":\ndata: \"missed\"}\n\n")
		}
	})
	var got []string
	var states []bool
	enough := errors.New("enough")
	err := c.Follow(t.Context(), Following{
		Since: "a-0", Kinds: []v1.ChangeKind{v1.ChangedClusters, v1.ChangedServices}, Filter: "x",
		Filters:   map[v1.ChangeKind]string{v1.ChangedClusters: "env:prod"},
		Connected: func(err error) { states = append(states, err == nil) },
	}, func(e v1.StreamEvent) error {
		got = append(got, string(e.Kind)+" "+string(e.Data))
		if e.Kind == v1.Reset {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff([]string{`clusters {"gone":["x"]}`, `reset {"message":"missed"}`}, got); diff != "" {
		t.Error(diff)
	}
	query := "filter=x&filter.clusters=env%3Aprod&kind=clusters&kind=services&since="
	if diff := cmp.Diff([]string{query + "a-0", query + "a-2", query + "a-2"}, asked); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{true, false, false, true}, states); diff != "" {
		t.Error(diff)
	}
}

func TestStreamThatIsRefusedIsNotAskedForAgain(t *testing.T) {
	var asked atomic.Int32
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message": "you may not view the fleet"}`)
	})
	err := c.Follow(t.Context(), Following{}, func(v1.StreamEvent) error { return nil })
	var refused *Error
	if !errors.As(err, &refused) || refused.Status != http.StatusForbidden || asked.Load() != 1 {
		t.Errorf("%v, after %d requests", err, asked.Load())
	}
}

func TestFollowingEndsWithItsContext(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: a\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	err := c.Follow(ctx, Following{Connected: func(error) { cancel(left) }}, func(v1.StreamEvent) error { return nil })
	if !errors.Is(err, left) {
		t.Errorf("got %v", err)
	}
}

func TestLineWithoutEndIsNotReadOn(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "data: "+strings.Repeat("x", maxEvent))
	})
	ctx, cancel := context.WithCancel(t.Context())
	var broken error
	_ = c.Follow(ctx, Following{Connected: func(err error) {
		if err != nil {
			broken = err
			cancel()
		}
	}}, func(v1.StreamEvent) error { return nil })
	if broken == nil || !strings.Contains(broken.Error(), "more than") {
		t.Errorf("got %v", broken)
	}
}

func TestAllGoesThroughThePages(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		page := v1.List[v1.Deployment]{Items: []v1.Deployment{{Cluster: "a"}}, Next: "n"}
		if r.URL.Query().Get("continue") == "n" {
			page = v1.List[v1.Deployment]{Items: []v1.Deployment{{Cluster: "b"}}}
		}
		if got := r.URL.Query(); got.Get("filter") != "env:prod" || got.Get("sort") != "-health" || got.Get("limit") != "1" {
			t.Errorf("got %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	var got []string
	for d, err := range All(t.Context(), c.DeploymentsPage, paging.Query{Filter: "env:prod", Sort: "-health", Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Cluster)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatOneAnswerHadNoRoomForIsAskedFor(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/services/web" {
			_ = json.NewEncoder(w).Encode(v1.Service{Name: "web", LeftOut: 2, Deployments: []v1.Deployment{{Cluster: "b", Service: "web", Message: "full"}}})
			return
		}
		if got := r.URL.Query().Get("filter"); r.URL.Path != "/v1/deployments" || got != `service:"web"` {
			t.Errorf("got %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(v1.List[v1.Deployment]{Items: []v1.Deployment{
			{Cluster: "a", Service: "web"}, {Cluster: "b", Service: "web"}, {Cluster: "c", Service: "web"},
		}})
	})
	got, err := c.Service(t.Context(), "web")
	want := &v1.Service{Name: "web", Deployments: []v1.Deployment{
		{Cluster: "a", Service: "web"}, {Cluster: "b", Service: "web", Message: "full"}, {Cluster: "c", Service: "web"},
	}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("id: 1\nevent: clusters\ndata: {}\n\n")
	f.Add("data\n\n:x\r\n\nevent:\x00\nid\n")
	f.Fuzz(func(t *testing.T, text string) {
		var following Following
		err := following.read(strings.NewReader(text), func() {}, func(e v1.StreamEvent) error {
			if e.Kind == "" || len(e.Data) > maxEvent {
				t.Errorf("%q", e)
			}
			return nil
		})
		if err == nil || !strings.Contains(text, following.Since) {
			t.Errorf("%v, at %q", err, following.Since)
		}
	})
}
