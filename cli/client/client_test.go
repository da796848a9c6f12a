package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
)

func TestListPutsAllPagesTogether(t *testing.T) {
	pages := map[string]v1.List[v1.Cluster]{
		"":    {Items: []v1.Cluster{{Name: "a"}, {Name: "b"}}, Total: 3, Next: "b&c"},
		"b&c": {Items: []v1.Cluster{{Name: "c"}}, Total: 3},
	}
	c := newClient(t, "t0ken", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters" || r.Header.Get("Authorization") != "Bearer t0ken" {
			t.Errorf("got %s with %q", r.URL, r.Header.Get("Authorization"))
		}
		_ = json.NewEncoder(w).Encode(pages[r.URL.Query().Get("continue")])
	})
	got, err := c.Clusters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.List[v1.Cluster]{Items: []v1.Cluster{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Total: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListThatNeverEndsIsAnError(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[],"next":"x"}`))
	})
	if _, err := c.Services(t.Context()); err == nil || !strings.Contains(err.Error(), "pages") {
		t.Errorf("got %v", err)
	}
}

func TestNamesAreEscaped(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/sources/..%2Fx%3Fy" {
			t.Errorf("got %s", r.URL.EscapedPath())
		}
		_, _ = w.Write([]byte(`{}`))
	})
	if _, err := c.Source(t.Context(), "../x?y"); err != nil {
		t.Error(err)
	}
}

func TestRefusalsCarryTheHubsWords(t *testing.T) {
	tests := []struct {
		status int
		body   string
		want   Error
	}{
		{401, `{"message":"token expired","fix":"log in"}`, Error{Status: 401, Message: "token expired", Fix: "log in"}},
		{502, `<html>bad gateway</html>`, Error{Status: 502, Message: "bad gateway"}},
		{599, ``, Error{Status: 599, Message: "no reason given"}},
	}
	for _, tt := range tests {
		c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})
		_, err := c.Status(t.Context())
		tt.want.Hub = c.Address()
		var got *Error
		if !errors.As(err, &got) || *got != tt.want {
			t.Errorf("got %v, want %v", err, tt.want)
		}
	}
}

func TestARefusalNamesTheClusterThatWasMeantToAnswer(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	of := func(err error) string {
		var refused *Error
		if !errors.As(err, &refused) {
			t.Fatalf("got %v", err)
		}
		return refused.Cluster
	}
	_, live := c.ServiceObjects(t.Context(), "edge-1", "web")
	_, kube := c.Kube(t.Context(), "edge-1", v1.KubeToken{}, "/api", "application/json")
	_, hub := c.Cluster(t.Context(), "edge-1")
	if of(live) != "edge-1" || of(kube) != "edge-1" || of(hub) != "" {
		t.Errorf("got %q, %q and %q", of(live), of(kube), of(hub))
	}
}

func TestAnotherServersAnswerIsNotTakenForAHubs(t *testing.T) {
	for status, want := range map[int]bool{200: true, 404: true, 501: true, 502: false} {
		c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html;charset=utf-8")
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>"))
		})
		_, asked := c.Status(t.Context())
		_, sent := c.Restart(t.Context(), "edge-1", "web")
		if errors.As(asked, new(*NoHub)) != want || status != 200 && errors.As(sent, new(*NoHub)) != want {
			t.Errorf("%d: got %v and %v", status, asked, sent)
		}
	}
}

func TestAnswerThatIsNoJSONIsAnError(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("want an error")
	}
}

func TestAnswerIsBounded(t *testing.T) {
	c := newClient(t, "", func(w http.ResponseWriter, _ *http.Request) {
		junk := make([]byte, 1<<20)
		for range maxAnswer>>20 + 1 {
			_, _ = w.Write(junk)
		}
	})
	if _, err := c.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func TestNoHubIsUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	c, err := New(server.URL, "", "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Status(t.Context())
	var got *Unreachable
	if !errors.As(err, &got) || got.Hub != server.URL || strings.Contains(err.Error(), "/v1/status") {
		t.Errorf("got %v", err)
	}
}

func TestCallersDeadlineIsTheReason(t *testing.T) {
	asked := make(chan struct{})
	c := newClient(t, "", func(_ http.ResponseWriter, r *http.Request) { close(asked); <-r.Context().Done() })
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() { <-asked; cancel(why) }()
	if _, err := c.Status(ctx); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

func TestNewRefusesAddresses(t *testing.T) {
	for _, address := range []string{"", "hub", "ftp://hub", "https://", "https://user:secret@hub"} {
		if _, err := New(address, "", "test"); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}

func newClient(t *testing.T, token string, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(server.URL+"/", token, "test")
	if err != nil {
		t.Fatal(err)
	}
	c.http.Timeout = 10 * time.Second
	return c
}
