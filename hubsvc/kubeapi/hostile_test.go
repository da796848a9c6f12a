package kubeapi_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
)

// Clients try again by themselves what is answered with Retry-After, whatever the method. An agent that did what was asked, and whose
// answer was then too much for the channel, must not be asked again.
func TestAChangeThatMayHaveHappenedIsNotInvitedAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Unavailable, codes.DeadlineExceeded, codes.Internal} {
		w := newWorld(t, nil)
		done := 0
		client := connect(t, func(stream tunnelapi.Cluster_ProxyServer) error {
			if _, err := stream.Recv(); err != nil {
				return err
			}
			done++
			return &httpstream.Error{Code: code, Message: "too late"}
		})
		w.reach = append(w.reach, func() (kubeapi.Backend, error) { return &backend{w: w, client: client}, nil })
		for _, method := range []string{http.MethodPost, http.MethodDelete} {
			w.reach = append(w.reach, func() (kubeapi.Backend, error) { return &backend{w: w, client: client}, nil })
			resp, body := w.do(w.request(method, "/api/v1/namespaces/a/pods", strings.NewReader("{}")), 1)
			if resp.StatusCode < 400 || resp.Header.Get("Retry-After") != "" || strings.Contains(body, "retryAfterSeconds") {
				t.Errorf("%s, %v: %d, retry after %q, %s", method, code, resp.StatusCode, resp.Header.Get("Retry-After"), body)
			}
		}
		if done != 2 {
			t.Errorf("%v: the agent was asked %d times", code, done)
		}
		w.set(func() { w.reach = nil })
	}
}

// A timer runs by one clock, and an expiry stands on another: one that fires early must not be the last look.
func TestACredentialThatExpiresLateEndsItsStreamsAllTheSame(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{}\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	start := time.Now()
	expires := start.Add(60 * time.Millisecond)
	w.set(func() {
		ana := w.people["token-ana"]
		ana.Expires = expires
		w.people["token-ana"], w.now = ana, start // and there it stands still, for longer than the timer runs
	})
	resp, err := w.client(1).Do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	w.until("the timer has fired", func() bool { return time.Since(start) > 200*time.Millisecond })
	w.set(func() { w.now = expires.Add(time.Millisecond) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.ReadAll(resp.Body)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
}

// What a replica refuses before anything of it has gone to the agent may be asked again by the client, whatever it is.
func TestAChangeThatDidNotHappenIsInvitedAgain(t *testing.T) {
	w := newWorld(t, nil)
	client := connect(t, func(tunnelapi.Cluster_ProxyServer) error {
		return status.Error(tunnelapi.NotPassedOn, "it has just gone")
	})
	w.reach = append(w.reach, func() (kubeapi.Backend, error) { return &backend{w: w, client: client}, nil })
	resp, body := w.do(w.request(http.MethodPost, "/api/v1/namespaces/a/pods", strings.NewReader("{}")), 1)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || strings.Contains(body, "not known") {
		t.Errorf("%d, retry after %q, %s", resp.StatusCode, resp.Header.Get("Retry-After"), body)
	}
}
