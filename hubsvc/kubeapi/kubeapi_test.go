package kubeapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// told answers with what the cluster is told beside HTTP.
func told(w http.ResponseWriter, r *http.Request) {
	call, _ := httpstream.CallOf(r.Context())
	call.Identity.ExpiresUnixMs = 0
	json.NewEncoder(w).Encode(map[string]any{"id": call.ID, "class": call.Class.String(), "identity": call.Identity, "header": r.Header})
}

type toldCall struct {
	ID, Class string
	Identity  *tunnelapi.Identity
	Header    http.Header
}

func (w *world) told(r *http.Request) (call toldCall) {
	w.t.Helper()
	resp, body := w.do(r, 2)
	if err := json.Unmarshal([]byte(body), &call); err != nil {
		w.t.Fatalf("answer is %d %q", resp.StatusCode, body)
	}
	return call
}

func TestClusterIsToldWhoAsks(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(told))
	tests := map[string]struct {
		user   string
		groups []string
	}{
		"token-ana": {"plural:ana", []string{"plural:devs", "plural:oncall"}},
		"token-bob": {"plural:bob", nil},
		"token-hub": {"plural:operator", []string{"plural:operators"}},
	}
	for token, want := range tests {
		r := w.request(http.MethodGet, "/api/v1/pods", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		call := w.told(r)
		if call.Identity.User != want.user || !slices.Equal(call.Identity.Groups, want.groups) || call.Identity.Cluster != "edge" {
			t.Errorf("%s is %v", token, call.Identity)
		}
		extra := map[string][]string{}
		for _, e := range call.Identity.Extra {
			extra[e.Key] = e.Values
		}
		if len(extra) != 1 || len(extra["plural.sh/credential"]) != 1 {
			t.Errorf("extras of %s are %v", token, extra)
		}
		// the id joins our records with the cluster's own
		if last := w.last(); last.ID != call.ID || last.Connection != "conn-1" {
			t.Errorf("record is %+v, the cluster heard %s", last, call.ID)
		}
	}
}

func TestRequestsAreOfTheClassThatTheyCost(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(told))
	for target, want := range map[string]string{
		"/api/v1/pods": "UNARY", "/api/v1/pods?watch=true": "WATCH", "/api/v1/namespaces/a/pods/b/log?follow=true": "WATCH",
		"/api/v1/namespaces/a/pods/b/log": "UNARY",
	} {
		if call := w.told(w.request(http.MethodGet, target, nil)); call.Class != want {
			t.Errorf("%s is %s", target, call.Class)
		}
	}
}

// U1, CVE-2021-36776, capsule-proxy #188, CVE-2021-31999, CVE-2026-61682
func TestNobodyIsWhoTheirHeadersSay(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(told))
	headers := []string{
		"Impersonate-User", "impersonate-user", "IMPERSONATE-GROUP", "Impersonate-Uid", "Impersonate-Extra-Scopes", "Impersonate_User",
		"X-Remote-User", "x-remote-group", "X-Remote-Extra-Plural.sh%2frequest-Id", "X-Forwarded-For", "X-Forwarded-User", "Forwarded",
		"Via", "Cookie", "Plural-Person", "Proxy-Authorization",
	}
	for _, name := range headers {
		for _, version := range []int{1, 2} {
			r := w.request(http.MethodGet, "/api/v1/pods", nil)
			r.Header[name] = []string{"system:admin", ""}
			r.Header["Connection"] = []string{"Impersonate-User, Authorization, Audit-Id"}
			if version == 2 {
				r.Header.Del("Connection")
			}
			resp, body := w.do(r, version)
			var call toldCall
			if err := json.Unmarshal([]byte(body), &call); err != nil {
				t.Fatalf("%s is answered %d %q", name, resp.StatusCode, body)
			}
			for heard, values := range call.Header {
				if strings.EqualFold(strings.ReplaceAll(heard, "_", "-"), strings.ReplaceAll(name, "_", "-")) || heard == "Authorization" {
					t.Errorf("the cluster heard %s: %q", heard, values)
				}
			}
			if call.Identity.User != "plural:ana" {
				t.Errorf("with %s, ana is %s", name, call.Identity.User)
			}
			if strings.HasPrefix(strings.ToLower(name), "impersonate-") && resp.Header.Get("Warning") == "" {
				t.Errorf("nobody is told that %s does nothing", name)
			}
		}
	}
}

func TestNamesOfTheHubsOwnAreNotForPeople(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for _, p := range []principal.Person{{Name: "operator"}, {Name: "ana", Groups: []string{"operators"}}, {}} {
		w.set(func() { w.people["token-ana"] = p })
		if resp, body := w.get("/api/v1/pods"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%+v is answered %d %s", p, resp.StatusCode, body)
		}
	}
}

func TestWhoeverIsNotLoggedInLearnsNothing(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for _, target := range []string{"/k8s/edge/api/v1/pods", "/k8s/other/api/v1/pods", "/k8s/", "/k8s/edge", "/k8s/../x", "/k8s/edge/%2e%2e/"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+target, nil)
		resp, body := w.do(r, 1)
		wantStatus(t, resp, body, http.StatusUnauthorized, "Unauthorized", "not logged in to this hub: plural auth login")
		if !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("headers are %v", resp.Header)
		}
	}
	if len(w.ended()) > 0 {
		t.Error("strangers fill the record")
	}
}

// U10, A1: both are denied in the same words, and are on record.
func TestHiddenClusterIsLikeOneThatThereIsNot(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	answer := func(cluster, target string) (*http.Response, string) {
		r := w.request(http.MethodGet, "", nil)
		r.URL.Path, r.URL.RawPath = "/k8s/"+cluster+target, ""
		resp, body := w.do(r, 2)
		resp.Header.Del("Date")
		return resp, strings.ReplaceAll(body, cluster, "CLUSTER")
	}
	w.set(func() { w.hidden = true })
	for _, target := range []string{"/api/v1/pods", "/api/v1/pods/../x", "/api/v1/secrets", "/nothing"} {
		hidden, hiddenBody := answer("edge", target)
		none, noneBody := answer("none", target)
		if hidden.StatusCode != http.StatusNotFound || none.StatusCode != http.StatusNotFound || hiddenBody != noneBody || cmp.Diff(hidden.Header, none.Header) != "" {
			t.Errorf("%s: %d %s, but %d %s", target, hidden.StatusCode, hiddenBody, none.StatusCode, noneBody)
		}
	}
	for _, r := range w.ended() {
		if r.Decision != "denied" || r.Status != 404 || r.Stage != "end" {
			t.Errorf("record is %+v", r)
		}
	}
	if len(w.ended()) != 8 || w.reached > 0 {
		t.Errorf("%d records, %d requests passed on", len(w.ended()), w.reached)
	}
}

// U6: what opens a connection into a pod is a right of its own, whatever the method.
func TestEachVerbAndSubresourceIsJudgedByItself(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	tests := []struct{ method, target, denied string }{
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/exec?command=sh", "ana create pods/exec"},
		{http.MethodPost, "/api/v1/namespaces/a/pods/b/exec?command=sh", "ana create pods/exec"},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/attach", "ana create pods/attach"},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/portforward", "ana create pods/portforward"},
		{http.MethodGet, "/api/v1/namespaces/a/services/b/proxy/x", "ana create services/proxy"},
		{http.MethodGet, "/api/v1/nodes/b/proxy/run/x", "ana create nodes/proxy"},
		{http.MethodPatch, "/api/v1/namespaces/a/pods/b/ephemeralcontainers", "ana patch pods/ephemeralcontainers"},
		{http.MethodPost, "/api/v1/namespaces/a/serviceaccounts/b/token", "ana create serviceaccounts/token"},
		{http.MethodPost, "/api/v1/namespaces/a/pods/b/eviction", "ana create pods/eviction"},
		{http.MethodGet, "/api/v1/pods?watch=1", "ana watch pods"},
		{http.MethodGet, "/api/v1/watch/pods", "ana watch pods"},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/log?follow=true", "ana get pods/log"},
	}
	for _, test := range tests {
		w.set(func() { w.denied = map[string]bool{test.denied: true} })
		resp, body := w.do(w.request(test.method, test.target, nil), 2)
		verb, resource, _ := strings.Cut(strings.TrimPrefix(test.denied, "ana "), " ")
		wantStatus(t, resp, body, http.StatusForbidden, "Forbidden", "no role lets ana "+verb+" "+resource)
		if last := w.last(); last.Decision != "denied" || last.Verb != verb || last.Status != 403 {
			t.Errorf("record is %+v", last)
		}
	}
	if w.reached > 0 {
		t.Error("something was passed on")
	}
}

// CVE-2026-66794 and its like: a path that two programs may read as two is passed on to none.
func TestPathsThatCanBeReadInTwoWaysAreRefused(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for _, target := range []string{
		"/api/v1//pods", "/api/../secrets", "/api/v1/%2e%2e/secrets", "/api/v1/namespaces/a%2fb/pods", "/api/v1/pods;x=y", "/api/v1/%5cpods",
		"/api/v1/pods%00", "/..", "//evil.example.com/api", "/api/v1/pods%0d%0aX:y", "/./api",
	} {
		conn := w.dial()
		fmt.Fprintf(conn, "GET /k8s/edge%s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-ana\r\nConnection: close\r\n\r\n", target)
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
			t.Errorf("%s is answered %.60q", target, answer)
		}
	}
	if w.reached > 0 {
		t.Error("something was passed on")
	}
}

func TestMuxDoesNotCleanWhatIsInFrontOfIt(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	mux := http.NewServeMux()
	w.Routes(mux)
	front := func(w *world) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.Match(r) {
				w.ServeHTTP(rw, r)
				return
			}
			mux.ServeHTTP(rw, r)
		})
	}(w)
	tests := map[string]struct{ bare, front int }{
		"/k8s/edge/api/v1/pods":     {200, 200},
		"/k8s/edge/api/v1//pods":    {307, 400},
		"/k8s/edge/api/../../other": {307, 400},
		"/v1/status":                {404, 404},
	}
	for target, want := range tests {
		for handler, code := range map[http.Handler]int{mux: want.bare, nil: want.front} {
			if handler == nil {
				handler = front
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			r.Header.Set("Authorization", "Bearer token-ana")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r)
			if answer.Code != code {
				t.Errorf("%s is answered %d, want %d", target, answer.Code, code)
			}
		}
	}
	w.ended()
}

func TestClusterNameIsOnePlainSegment(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo), func(o *kubeapi.Options) {
		o.Sees = func(principal.Person, string) bool { return true }
	})
	for path, want := range map[string]int{
		"/k8s/edge": 200, "/k8s/edge?x=y": 200, "/k8s/edge/": 200, "/k8s/%65dge/api": 404, "/k8s/..%2fedge/api": 404, "/k8s//api": 404,
		"/k8s/EDGE/api": 404, "/k8s/.edge/api": 404, "/k8s/" + strings.Repeat("a", 300) + "/api": 404,
	} {
		conn := w.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer token-ana\r\nConnection: close\r\n\r\n", path)
		answer, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), fmt.Sprintf("HTTP/1.1 %d ", want)) {
			t.Errorf("%s is answered %.60q, want %d", path, answer, want)
		}
	}
}

// A11, CVE-2023-7045: what a cluster answers does not act on the hub's address.
func TestAnswersDoNotSpeakForTheHub(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{
			"Set-Cookie", "Refresh", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Link",
			"Access-Control-Allow-Origin", "Service-Worker-Allowed", "WWW-Authenticate", "Report-To",
		} {
			w.Header().Set(name, "x")
		}
		w.Header().Set("Content-Security-Policy", "default-src *")
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.Header().Set("Content-Location", r.URL.Query().Get("to"))
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		w.WriteHeader(http.StatusFound)
	}))
	resp, _ := w.get("/api/v1/namespaces/a/services/b/proxy/x?type=text/html&to=/api/v1/x")
	want := map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"Content-Security-Policy":      "default-src 'none'; sandbox; frame-ancestors 'none'",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Location":                     "/k8s/edge/api/v1/x",
		"Content-Location":             "/k8s/edge/api/v1/x",
		"Content-Type":                 "text/html",
		"Content-Disposition":          "attachment",
	}
	got := map[string]string{}
	for name := range resp.Header {
		if name != "Date" && name != "Content-Length" {
			got[name] = strings.Join(resp.Header[name], ", ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	for kind, attached := range map[string]bool{
		"application/json": false, "application/vnd.kubernetes.protobuf;stream=watch": false, "text/plain; charset=utf-8": false,
		"TEXT/HTML": true, "image/svg+xml": true, "application/xhtml+xml": true, "application/pdf": true, "text/html;;": true, "a b/c": true,
	} {
		r := w.request(http.MethodGet, "/api/v1/namespaces/a/services/b/proxy/x", nil)
		r.URL.RawQuery = "type=" + strings.NewReplacer(" ", "%20", ";", "%3B", "+", "%2B").Replace(kind)
		if resp, _ := w.do(r, 2); (resp.Header.Get("Content-Disposition") != "") != attached {
			t.Errorf("%s is sent with %v", kind, resp.Header)
		}
	}
	for _, to := range []string{
		"https://evil.example.com/", "//evil.example.com/", "javascript:alert(1)", "/%5C/evil.example.com", `/\evil.example.com`,
		"/../prod/api/v1/pods", "/%2e%2e/prod/api", "/..%2fprod/api", "/api/../../prod/api", "/./../prod/api", "/api/..",
		"/..;/prod/api", "/api\n/..",
	} {
		r := w.request(http.MethodGet, "/api/v1/namespaces/a/services/b/proxy/x", nil)
		r.URL.RawQuery = url.Values{"to": {to}}.Encode()
		if resp, _ := w.do(r, 2); resp.Header.Get("Location") != "" || resp.Header.Get("Content-Location") != "" {
			t.Errorf("%s leads to %s, %s", to, resp.Header.Get("Location"), resp.Header.Get("Content-Location"))
		}
	}
}

func TestWatchesEndCleanlyWhenTheHubGoes(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "{}\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		open := func(target string) io.ReadCloser {
			resp, err := w.client(version).Do(w.request(http.MethodGet, target, nil))
			if err != nil {
				t.Fatal(err)
			}
			return resp.Body
		}
		watch, log := open("/api/v1/pods?watch=1"), open("/api/v1/namespaces/a/pods/b/log?follow=true")
		defer watch.Close()
		defer log.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		w.Drain(ctx)
		if body, err := io.ReadAll(watch); string(body) != "{}\n" || err != nil {
			t.Errorf("watch ends with %q, %v", body, err)
		}
		if _, err := io.ReadAll(log); err == nil {
			t.Error("a log that was cut off looks whole")
		}
		if ctx.Err() != nil {
			t.Error("the hub waited for watches")
		}
	})
}

func TestStreamsEndWithThePersonOrTheirAccess(t *testing.T) {
	tests := map[string]struct {
		change func(*world)
		stays  bool
	}{
		"nothing changed": {func(*world) {}, true},
		"another group": {func(w *world) {
			w.people["token-ana"] = principal.Person{Name: "ana", Credential: "ana/laptop", Groups: []string{"devs", "more", "oncall"}}
		}, true},
		"the token is gone": {func(w *world) { delete(w.people, "token-ana") }, false},
		"a group is gone": {func(w *world) {
			w.people["token-ana"] = principal.Person{Name: "ana", Credential: "ana/laptop", Groups: []string{"devs"}}
		}, false},
		"the role is gone":      {func(w *world) { w.denied["ana watch pods"] = true }, false},
		"another role is gone":  {func(w *world) { w.denied["ana watch nodes"] = true }, true},
		"the cluster is hidden": {func(w *world) { w.hidden = true }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}))
			resp, err := w.client(2).Do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			w.set(func() { test.change(w) })
			w.Recheck()
			if test.stays {
				if w.Streams() != 1 {
					t.Error("the watch has ended")
				}
				return
			}
			if _, err := io.ReadAll(resp.Body); err != nil {
				t.Errorf("the watch ends with %v", err)
			}
			if last := w.last(); last.Cause != "access was withdrawn" {
				t.Errorf("record is %+v", last)
			}
		})
	}
}

// A token of ten minutes does not end what was begun with it, while whoever got it may still have another.
func TestStreamOutlivesItsTokenOnlyWhileThePersonWouldGetAnother(t *testing.T) {
	for name, renewed := range map[string]bool{"renewed": true, "not renewed": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}))
			start := time.Now()
			ana := w.people["token-ana"]
			ana.Expires = start.Add(100 * time.Millisecond)
			w.people["token-ana"], w.now = ana, start // where the clock stands until the watch has begun
			resp, err := w.client(2).Do(w.request(http.MethodGet, "/api/v1/pods?watch=1", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			looks := 0
			w.set(func() {
				w.now, looks = ana.Expires.Add(time.Millisecond), w.looks
				if renewed {
					ana.Expires = time.Time{}
					w.people["token-ana"] = ana
				}
			})
			if renewed {
				w.until("the watch was looked at again", func() (again bool) {
					w.set(func() { again = w.looks > looks })
					return again
				})
				if w.Streams() != 1 {
					t.Error("the watch has ended")
				}
				return
			}
			io.Copy(io.Discard, resp.Body)
			if last := w.last(); last.Cause != "access was withdrawn" {
				t.Errorf("record is %+v", last)
			}
		})
	}
}

func TestAccessThatIsWithdrawnWhileARequestBeginsIsNotMissed(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	allow := 0
	w.Proxy.Allow = func(p principal.Person, cluster string, q kubeaccess.Request) error {
		if allow++; allow > 1 { // the rule goes between the question and the registry
			return errors.New("no")
		}
		return nil
	}
	if resp, _ := w.get("/api/v1/pods?watch=1"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("answer is %d", resp.StatusCode)
	}
	if last := w.last(); last.Status != http.StatusForbidden || last.Cause != "access was withdrawn" || w.reached > 0 {
		t.Errorf("record is %+v", last)
	}
}

func TestWhatChangesSomethingNeedsItsRecord(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.audit = func(r kubeapi.Record) error {
		if r.Must {
			return errors.New("disk full")
		}
		return nil
	}
	tests := []struct {
		method, target string
		want           int
	}{
		{http.MethodGet, "/api/v1/pods", 200},
		{http.MethodGet, "/api/v1/pods?watch=1", 200},
		{http.MethodGet, "/api/v1/namespaces/a/secrets/b", 503},
		{http.MethodPost, "/api/v1/namespaces/a/pods", 503},
		{http.MethodPatch, "/api/v1/namespaces/a/pods/b", 503},
		{http.MethodDelete, "/api/v1/namespaces/a/pods/b", 503},
		{http.MethodGet, "/api/v1/namespaces/a/pods/b/exec", 503},
	}
	for _, test := range tests {
		before := w.reached
		resp, body := w.do(w.request(test.method, test.target, nil), 2)
		if resp.StatusCode != test.want || (w.reached > before) != (test.want == 200) {
			t.Errorf("%s %s is answered %d %s", test.method, test.target, resp.StatusCode, body)
		}
	}
}

// Every client asks what its person may do, and may ask in a loop.
func TestAskingWhatOneselfMayDoChangesNothing(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for _, target := range []string{
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
		"/apis/authentication.k8s.io/v1/selfsubjectreviews",
	} {
		if resp, body := w.do(w.request(http.MethodPost, target, strings.NewReader("{}")), 2); resp.StatusCode != http.StatusOK {
			t.Errorf("%s is answered %d %s", target, resp.StatusCode, body)
		}
	}
	for _, r := range w.ended() {
		if r.Must || r.Stage != "end" {
			t.Errorf("record is %+v", r)
		}
	}
	w.do(w.request(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", strings.NewReader("{}")), 2)
	if last := w.last(); !last.Must {
		t.Errorf("record of a question about somebody else is %+v", last)
	}
}

// The oldest records go when there are too many: nobody may have them go by what they may ask as often as they like.
func TestWhatOnePersonAsksDoesNotFillTheRecord(t *testing.T) {
	var taken atomic.Int32
	w := newWorld(t, http.HandlerFunc(echo), func(o *kubeapi.Options) {
		o.Pace = func(p principal.Person) bool { return p.Name != "ana" || taken.Add(1) <= 3 }
	})
	allowed := 0
	for n := range 6 {
		resp, body := w.get("/api/v1/pods")
		want := http.StatusOK
		if n >= 3 {
			want = http.StatusTooManyRequests
		}
		if resp.StatusCode != want || (resp.Header.Get("Retry-After") != "") != (n >= 3) {
			t.Errorf("request %d is answered %d %s", n, resp.StatusCode, body)
		}
		const why = "you exceed 20 audited requests per second (kubectl and /v1 together): try again later"
		if n >= 3 && !strings.Contains(body, why) {
			t.Errorf("request %d is answered %s", n, body)
		}
	}
	for _, r := range w.ended() {
		if r.Decision == "allowed" {
			allowed++
		}
	}
	if w.reached != 3 || allowed != 3 {
		t.Errorf("the cluster was reached %d times, %d are on record", w.reached, allowed)
	}
	r := w.request(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer token-bob")
	if resp, _ := w.do(r, 2); resp.StatusCode != http.StatusOK {
		t.Errorf("somebody else is answered %d", resp.StatusCode)
	}
}

func TestRecordSaysWhoDidWhat(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	r := w.request(http.MethodPatch, "/apis/apps/v1/namespaces/web/deployments/front/scale?fieldManager=secret", strings.NewReader("12345"))
	r.Header.Set("User-Agent", "kubectl/v1.37")
	r.Header.Set("X-Request-Id", "ticket-42")
	r.Header.Set("X-Forwarded-For", "192.0.2.7")
	_, body := w.do(r, 2)
	records := w.ended()
	if len(records) != 2 {
		t.Fatalf("records are %+v", records)
	}
	start, end := records[0], records[1]
	want := kubeapi.Record{AuditRecord: v1.AuditRecord{
		ID: start.ID, Time: start.Time, Stage: "end", Person: "ana", Groups: []string{"devs", "oncall"}, Credential: "ana/laptop",
		Source: "127.0.0.1", Forwarded: "192.0.2.7", UserAgent: "kubectl/v1.37", ClientID: "ticket-42", Cluster: "edge", Connection: "conn-1",
		Verb: "patch", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "web", Name: "front",
		Path: "/apis/apps/v1/namespaces/web/deployments/front/scale", Decision: "allowed", Status: 200,
		BytesIn: 5, BytesOut: int64(len(body)), Duration: end.Duration, Cause: "done",
	}, Must: true}
	if diff := cmp.Diff(want, end); diff != "" {
		t.Errorf("end (-want +got):\n%s", diff)
	}
	want.Stage, want.Status, want.BytesIn, want.BytesOut, want.Duration, want.Cause, want.Connection = "start", 0, 0, 0, 0, "", ""
	if diff := cmp.Diff(want, start); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprintf("%+v", records)+w.logged.String(), "token-ana") {
		t.Error("a token is on record")
	}
}

func TestClientsNamesOfRequestsAreOnlyNames(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(told))
	for _, id := range []string{"a b", `x","person":"root`, strings.Repeat("a", 200), "ünicode", "-x", "a%0ab"} {
		r := w.request(http.MethodGet, "/api/v1/pods", nil)
		r.Header.Set("X-Request-Id", id)
		call := w.told(r)
		if last := w.last(); last.ClientID != "" || call.ID == id {
			t.Errorf("%q is on record as %q, id %q", id, last.ClientID, call.ID)
		}
	}
}

func TestEachBoundIsKept(t *testing.T) {
	release := make(chan struct{})
	waiting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "beginning")
		http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	other := func(r *http.Request) { r.Header.Set("Authorization", "Bearer token-bob") }
	none := func(*http.Request) {}
	tests := map[string]struct {
		limits kubeapi.Limits
		target string
		change func(*http.Request)
		want   int
	}{
		"a person's requests":                  {kubeapi.Limits{PersonUnary: 2}, "/api/v1/pods", none, 429},
		"another person's requests":            {kubeapi.Limits{PersonUnary: 2}, "/api/v1/pods", other, 200},
		"a person's watches":                   {kubeapi.Limits{PersonWatches: 2}, "/api/v1/pods?watch=1", none, 429},
		"a cluster's watches":                  {kubeapi.Limits{ClusterWatches: 2}, "/api/v1/pods?watch=1", other, 429},
		"a cluster's requests":                 {kubeapi.Limits{ClusterStreams: 2}, "/api/v1/pods", other, 429},
		"a cluster's requests in one second":   {kubeapi.Limits{OpenRate: 2}, "/api/v1/pods", other, 429},
		"watches leave room for what is short": {kubeapi.Limits{ClusterWatches: 2}, "/api/v1/pods", none, 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			w := newWorld(t, waiting, func(o *kubeapi.Options) {
				o.Limits, o.Limits.Wait, o.Metrics = test.limits, 20*time.Millisecond, registry
			})
			held := test.target
			if strings.HasPrefix(name, "watches leave") {
				held += "?watch=1"
			}
			client := w.client(2)
			for range 2 {
				resp, err := client.Do(w.request(http.MethodGet, held, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
			}
			r := w.request(http.MethodGet, test.target, nil)
			test.change(r)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != test.want {
				t.Fatalf("answer is %d, want %d", resp.StatusCode, test.want)
			}
			if test.want != 429 {
				return
			}
			body, _ := io.ReadAll(resp.Body)
			if resp.Header.Get("Retry-After") != "1" || !strings.Contains(string(body), `"reason":"TooManyRequests"`) {
				t.Errorf("answer is %v %s", resp.Header, body)
			}
			w.until("it is on record", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return slices.ContainsFunc(w.records, func(r kubeapi.Record) bool { return r.Decision == "limited" && r.Status == 429 })
			})
		})
	}
}

func TestARequestWithoutAPlaceCostsNothingOfOnesRecord(t *testing.T) {
	var paced atomic.Int32
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "beginning")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}), func(o *kubeapi.Options) {
		o.Limits.PersonUnary, o.Limits.Wait = 1, 20*time.Millisecond
		o.Pace = func(principal.Person) bool { return paced.Add(1) > 0 }
	})
	held, err := w.client(2).Do(w.request(http.MethodGet, "/api/v1/pods", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Body.Close()
	if resp, body := w.get("/api/v1/pods"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("answer is %d %s", resp.StatusCode, body)
	}
	if n := paced.Load(); n != 1 {
		t.Errorf("one request that found a place, and one that did not, cost %d", n)
	}
}

func TestWhoIsOverTheirPaceTakesNobodysPlaceOrTurn(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo), func(o *kubeapi.Options) {
		o.Limits = kubeapi.Limits{ClusterStreams: 1, OpenRate: 1, Wait: 20 * time.Millisecond}
		o.Pace = func(p principal.Person) bool { return p.Name != "ana" }
	})
	for range 3 {
		resp, body := w.get("/api/v1/pods")
		if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(body, kubeapi.OverPace) {
			t.Errorf("answer is %d %s", resp.StatusCode, body)
		}
	}
	r := w.request(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer token-bob")
	if resp, body := w.do(r, 2); resp.StatusCode != http.StatusOK {
		t.Errorf("somebody else is answered %d %s", resp.StatusCode, body)
	}
}

func TestPlaceIsWaitedFor(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "beginning")
		http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), func(o *kubeapi.Options) { o.Limits.PersonUnary, o.Limits.Wait = 1, 10*time.Second })
	client := w.client(2)
	first, err := client.Do(w.request(http.MethodGet, "/api/v1/pods", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	second := make(chan error, 1)
	go func() {
		resp, err := client.Do(w.request(http.MethodGet, "/api/v1/pods", nil))
		if err == nil {
			err = resp.Body.Close()
		}
		second <- err
	}()
	close(release)
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestPlacesAreFreeAgainAfterEveryEnd(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo), func(o *kubeapi.Options) {
		o.Limits = kubeapi.Limits{ClusterStreams: 1, PersonUnary: 1, ClusterWatches: 1, PersonWatches: 1, Wait: 5 * time.Second}
	})
	for range 5 {
		w.set(func() {
			w.reach = append(w.reach, func() (kubeapi.Backend, error) { return nil, errors.New("absent") })
			w.denied = map[string]bool{"ana list nodes": true}
		})
		for target, want := range map[string]int{"/api/v1/nodes": 403} {
			if resp, _ := w.get(target); resp.StatusCode != want {
				t.Errorf("%s is answered %d", target, resp.StatusCode)
			}
		}
		for _, want := range []int{503, 200} {
			if resp, body := w.get("/api/v1/pods"); resp.StatusCode != want {
				t.Errorf("answer is %d %s", resp.StatusCode, body)
			}
		}
	}
}

func TestDoGoesTheSameWay(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(told))
	ana := w.people["token-ana"]
	request := func(method, target string, body io.Reader) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), method, target, body)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	resp, err := w.Do(t.Context(), ana, "edge", request(http.MethodGet, "/api/v1/pods?limit=1", nil))
	if err != nil {
		t.Fatal(err)
	}
	var call toldCall
	if err := json.NewDecoder(resp.Body).Decode(&call); err != nil || call.Identity.User != "plural:ana" {
		t.Errorf("the cluster heard %+v, %v", call, err)
	}
	if w.Streams() != 1 {
		t.Error("nothing is under way while the body is open")
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	resp.Body.Close()
	if last := w.last(); last.Cause != "done" || last.Status != 200 || last.Verb != "list" {
		t.Errorf("record is %+v", last)
	}

	w.set(func() { w.denied["ana create pods"] = true })
	if _, err := w.Do(t.Context(), ana, "edge", request(http.MethodPost, "/api/v1/namespaces/a/pods", strings.NewReader("{}"))); !apierrors.IsForbidden(err) {
		t.Errorf("error is %v", err)
	}
	if _, err := w.Do(t.Context(), ana, "other", request(http.MethodGet, "/api/v1/pods", nil)); !apierrors.IsNotFound(err) {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	resp, err = w.Do(ctx, ana, "edge", request(http.MethodGet, "/api/v1/pods", nil))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	if last := w.last(); last.Cause != "the client went away" {
		t.Errorf("record is %+v", last)
	}
}

func BenchmarkGet(b *testing.B) {
	answer := []byte(strings.Repeat("x", 2<<10))
	w := newWorld(b, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(answer) }),
		func(o *kubeapi.Options) {
			o.Limits.OpenRate = 1 << 30
			o.Audit = func(context.Context, kubeapi.Record) error { return nil }
		})
	client := w.client(1)
	r := w.request(http.MethodGet, "/api/v1/namespaces/a/configmaps/b", nil)
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
