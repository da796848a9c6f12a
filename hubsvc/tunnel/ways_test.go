package tunnel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	agenttunnel "github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// refusing is a proxy that lets no requests through of which refuses says so.
func refusing(refuses func(*http.Request) bool) func(*settings) {
	return func(s *settings) {
		s.before = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if refuses(r) {
					http.Error(w, "no such thing here", http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, r)
			})
		}
	}
}

func isOwnUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") == tunnelapi.Upgrade }

func TestAgentConnectsByWhatGetsThrough(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*settings)
		want   string
	}{
		"all does":                   {func(*settings) {}, "upgrade"},
		"plain HTTP on this machine": {func(s *settings) { s.plain = true }, "upgrade"},
		"nothing but websockets":     {refusing(isOwnUpgrade), "websocket"},
		"no upgrades":                {refusing(func(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }), "pipe"},
		"a proxy that drops the header": {func(s *settings) {
			s.before = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r.Header.Del("Upgrade")
					next.ServeHTTP(w, r)
				})
			}
		}, "pipe"},
		"a proxy that ends such connections": {func(s *settings) {
			s.before = func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if isOwnUpgrade(r) {
						panic(http.ErrAbortHandler)
					}
					next.ServeHTTP(w, r)
				})
			}
		}, "websocket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet()
			hub := f.hub(t, "hub-0", test.change)
			a := f.agent(t, "edge", []*replica{hub})
			hub.connected(1)
			if got := hub.Connections()[0]; got.Transport != test.want || got.Cluster != "edge" || got.Host != "agent-0" || got.AgentVersion != "1.0.0" {
				t.Errorf("%+v, want it by %s", got, test.want)
			}
			if got := hub.Connections()[0]; got.Bound != (hub.server.TLS != nil) {
				t.Errorf("that its proof is bound to TLS is said to be %v", got.Bound)
			}
			hub.answers("edge", a)
			transfers(t, hub)
			// The server's deadlines for requests are over.
			<-time.After(1500 * time.Millisecond)
			hub.answers("edge", a)
			if n := hub.arrived.Load(); n != 1 {
				t.Errorf("the agent connected %d times", n)
			}
		})
	}
}

// transfers checks that more goes through than fits any window.
func transfers(t *testing.T, hub *replica) {
	t.Helper()
	const many = 5000
	stream, err := hub.reach("edge").Objects(t.Context(), &tunnelapi.ObjectsRequest{Service: fmt.Sprint(many)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		event, err := stream.Recv()
		if err != nil || event.GetChanged()[0].GetUid() != fmt.Sprint(i) {
			t.Fatalf("event %d: %v, %v", i, event, err)
		}
	}
}

func TestRequestsGoOverTheChannel(t *testing.T) {
	j := join(t)
	j.agent(t, "edge", j.hubs[1:2], func(o *agenttunnel.Options) {
		o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			call, _ := httpstream.CallOf(r.Context())
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(w, "%s %s %s %s", call.Identity.GetUser(), r.Method, r.RequestURI, body)
		})
	})
	for _, hub := range j.hubs[:2] { // over another replica, and here
		route := hub.found("edge")
		client := &httpstream.Transport{Open: func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) { return route.Proxy(ctx) }}
		ctx := httpstream.WithCall(t.Context(), httpstream.Call{
			ID: "1", Class: tunnelapi.Class_UNARY,
			Identity: &tunnelapi.Identity{User: "plural:ann", Cluster: "edge", ExpiresUnixMs: time.Now().Add(time.Minute).UnixMilli()},
		})
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://edge/api/v1/namespaces?a=%2F", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || string(body) != "plural:ann POST /api/v1/namespaces?a=%2F hello" {
			t.Errorf("%s: %q, %v", hub.name, body, err)
		}
		_ = response.Body.Close()
	}
}
