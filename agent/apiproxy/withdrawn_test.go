package apiproxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// endless is an API server whose watches and upgraded connections do not end by themselves.
func endless(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		_, _ = io.WriteString(w, "first\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst\n")
	_, _ = io.Copy(io.Discard, buffered)
}

// begin sends a request of ana's, and reads the beginning of its answer.
func begin(t *testing.T, rt http.RoundTripper, target string, upgrade bool) (rest *bufio.Reader, closed io.Closer) {
	t.Helper()
	r := ask(t.Context(), t, ana(), http.MethodGet, target, "")
	if upgrade {
		r = upgrading(r, "websocket")
	}
	response, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	rest = bufio.NewReader(response.Body)
	if line, err := rest.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("%s: %d %q, %v", target, response.StatusCode, line, err)
	}
	return rest, response.Body
}

// TestWhatThePolicyTakesAwayEnds: the cluster's own policy is the last line against a hub that somebody took over, so it holds
// for what is under way as well.
func TestWhatThePolicyTakesAwayEnds(t *testing.T) {
	leavesNothing(t)
	o, policy := options(server(t, endless), apiproxy.Policy{})
	h := handler(t, o)
	rt := transport(hub(t, h))
	kept, _ := begin(t, rt, "/api/v1/namespaces/shop/pods?watch=1", false)
	watch, _ := begin(t, rt, "/api/v1/namespaces/bank/pods?watch=1", false)
	exec, _ := begin(t, rt, "/api/v1/namespaces/shop/pods/web/exec", true)
	policy.Store(&apiproxy.Policy{Mode: apiproxy.Full, Rules: []apiproxy.Rule{{
		Groups: []string{"plural:devs"}, Rule: kubeaccess.Rule{Verbs: []string{"watch"}, Resources: []string{"pods"}, Namespaces: []string{"shop"}},
	}}})
	h.Recheck()
	if text, err := io.ReadAll(watch); err == nil || len(text) > 0 {
		t.Errorf("the watch ends like a whole one: %q, %v", text, err)
	}
	if text, _ := io.ReadAll(exec); len(text) > 0 { // the end of a connection says nothing of what was on its way
		t.Errorf("the connection into a pod goes on: %q", text)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := kept.ReadByte()
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("what the rules still allow has ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	policy.Store(&apiproxy.Policy{Mode: apiproxy.Off})
	h.Recheck()
	if err := <-ended; err == nil {
		t.Error("off leaves a watch open")
	}
}

// TestAPolicyThatChangesWhileARequestIsJudgedIsNotMissed changes the policy, and has everything looked at again, between the
// judgement of a request and its way to the API server.
func TestAPolicyThatChangesWhileARequestIsJudgedIsNotMissed(t *testing.T) {
	o, _ := options(server(t, endless), apiproxy.Policy{})
	var h interface{ Recheck() }
	asked := 0
	o.Policy = func() apiproxy.Policy {
		if asked++; asked > 1 {
			return apiproxy.Policy{Mode: apiproxy.Off}
		}
		h.Recheck() // as when the policy changes the moment after this was read
		return apiproxy.Policy{}
	}
	made := handler(t, o)
	h = made
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	response, err := transport(hub(t, made)).RoundTrip(ask(ctx, t, ana(), http.MethodGet, "/api/v1/pods?watch=1", ""))
	if err == nil {
		_, err = io.ReadAll(response.Body)
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the watch goes on: %v", err)
	}
}

// TestTheAgentsOwnTroubleIsNotThePersons: a 401 would have a client throw its own credentials away.
func TestTheAgentsOwnTroubleIsNotThePersonsOnUpgradesEither(t *testing.T) {
	rt := through(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	got := do(t, rt, upgrading(ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/namespaces/x/pods/y/exec", ""), "websocket"))
	if got.Status != http.StatusServiceUnavailable {
		t.Errorf("answered %d %s", got.Status, got.Body)
	}
}

// TestAGroupIsNotTakenForKubernetesOwnByItsMiddle: whoever is in it would be refused altogether.
func TestAGroupIsNotTakenForKubernetesOwnByItsMiddle(t *testing.T) {
	rt := through(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	who := ana()
	who.Groups = append(who.Groups, "plural:ecosystem:core", "plural:team/system:x")
	if got := do(t, rt, ask(t.Context(), t, who, http.MethodGet, "/api/v1/pods", "")); got.Status != http.StatusTeapot {
		t.Errorf("answered %d %s", got.Status, got.Body)
	}
}

func TestAnAPIServerBelowAPathIsAskedBelowIt(t *testing.T) {
	for _, base := range []string{"/k8s/clusters/c-1", "/k8s/clusters/c-1/"} {
		asked := make(chan string, 1)
		kube := raw(t, func(conn net.Conn, r *http.Request) {
			asked <- r.RequestURI
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		kube.Host += base
		o, _ := options(kube, apiproxy.Policy{})
		do(t, transport(hub(t, handler(t, o))), ask(t.Context(), t, ana(), http.MethodGet, "/api/v1/pods/a%20b?x=%2F", ""))
		if got := <-asked; got != "/k8s/clusters/c-1/api/v1/pods/a%20b?x=%2F" || strings.Contains(got, "//") {
			t.Errorf("below %s: %s", base, got)
		}
	}
}

// TestWhatAPolicyShows is about what the hub asks for on its own account, to show it to people: of whom they are the agent knows
// nothing then.
func TestWhatAPolicyShows(t *testing.T) {
	shop := apiproxy.Rule{Users: []string{"plural:bob"}, Rule: kubeaccess.Rule{Verbs: []string{"list"}, Resources: []string{"pods"}, Namespaces: []string{"shop"}}}
	for name, tt := range map[string]struct {
		policy                     apiproxy.Policy
		group, resource, namespace string
		want                       bool
	}{
		"full":                 {apiproxy.Policy{Mode: apiproxy.Full}, "", "secrets", "", true},
		"read-only":            {apiproxy.Policy{Mode: apiproxy.ReadOnly}, "apps", "deployments", "shop", true},
		"off":                  {apiproxy.Policy{Mode: apiproxy.Off}, "", "pods", "shop", false},
		"nonsense":             {apiproxy.Policy{Mode: "on"}, "", "pods", "shop", false},
		"a rule for anybody":   {apiproxy.Policy{Mode: apiproxy.Full, Rules: []apiproxy.Rule{shop}}, "", "pods", "shop", true},
		"no rule":              {apiproxy.Policy{Mode: apiproxy.Full, Rules: []apiproxy.Rule{shop}}, "", "secrets", "shop", false},
		"a rule for elsewhere": {apiproxy.Policy{Mode: apiproxy.Full, Rules: []apiproxy.Rule{shop}}, "", "pods", "", false},
	} {
		if got := tt.policy.Shows(tt.group, tt.resource, tt.namespace); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
