package deploy

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/test/support/faultproxy"
)

// row is one fault: what was there before, what is asked for while it lasts, what is seen then, and what is asked for once
// it is over, which the service then has to become. Nothing that was there before may go while the fault lasts.
type row struct {
	name string
	// before was applied while all was well; wants is asked for under the fault, fixed after it, when they differ.
	// Empty is the usual: calm, changed, and what wants is.
	before, wants, fixed string
	// request changes what is asked for besides the objects; release changes it for the time after.
	request, release func(*apply.Request)
	// acknowledge agrees, after the fault, to the deletions that were held under it.
	acknowledge bool
	// restart has an engine meet the fault that knows nothing yet.
	restart bool
	timeout time.Duration
	// fault begins the fault, and gives what ends it.
	fault func(s *scene) (lift func())
	// expect is what one pass says under the fault, each a part of a line of it (see scene.lines).
	expect []string
	// goes names what may be gone or made anew under the fault.
	goes []string
	// anew names what is another object after the fault.
	anew []string
	// more is what is there at the end besides what was asked for.
	more []string
	// unmet faults need not be met: that nobody asks is as good.
	unmet bool
	// then looks at what came out.
	then func(s *scene)
}

// The usual service: a changes, b stays, c is new, and stale is no longer wanted.
const (
	calm    = cmA1 + "\n---\n" + cmB + "\n---\n" + cmStale
	changed = cmA2 + "\n---\n" + cmB + "\n---\n" + cmC

	cmA1    = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {value: '1'}}"
	cmA2    = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {value: '2'}}"
	cmB     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {value: '1'}}"
	cmC     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {value: '2'}}"
	cmStale = "{apiVersion: v1, kind: ConfigMap, metadata: {name: stale}, data: {value: '1'}}"
)

// TestEveryFaultHasItsStateAndNothingIsLost runs the rows, several at a time: most of a row's time is waiting.
func TestEveryFaultHasItsStateAndNothingIsLost(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(serverRows(), answerRows(), discoveryRows(), inventoryRows(), watchRows(), deletionRows(), bundleRows(), clusterRows(), orderRows(), storyRows())
	names := map[string]bool{}
	for _, r := range rows {
		if names[r.name] {
			t.Fatalf("two rows are %q", r.name)
		}
		names[r.name] = true
	}
	if len(rows) < 60 {
		t.Errorf("only %d rows", len(rows))
	}
	var group errgroup.Group
	group.SetLimit(12)
	for _, r := range rows {
		group.Go(func() error {
			t.Run(r.name, r.run)
			return nil
		})
	}
	_ = group.Wait() // none returns an error
}

func (r row) run(t *testing.T) {
	s := newScene(t, max(r.timeout, 0))
	before, wants := or(r.before, calm), or(r.wants, changed)
	if r.before != nothing {
		s.ask(before)
		s.becomes("before the fault")
	}
	there := s.live()
	for _, name := range r.goes {
		delete(there, name)
	}
	lift := func() {}
	if r.restart {
		s.stop()
		s.stop = func() {}
	}
	if r.fault != nil {
		lift = r.fault(s)
	}
	if r.restart {
		s.restart()
	}
	if r.request != nil {
		r.request(&s.request)
	}
	s.ask(wants)
	s.shows(r.expect...)
	if !slices.Contains(r.expect, "done") {
		s.stay("under the fault", there)
	}
	if s.proxy.Unmet() && !r.unmet {
		t.Error("no request has met the fault")
	}
	if r.acknowledge {
		s.request.Acknowledged = []string{s.result.Held.Token}
	}
	lift()
	if r.release != nil {
		r.release(&s.request)
	}
	if r.fixed != "" {
		s.ask(r.fixed)
	}
	s.becomes("after the fault")
	s.exactly(or(r.fixed, wants), r.more...)
	for _, name := range r.anew {
		delete(there, name)
	}
	s.stay("after the fault", wanted(there, s.names(or(r.fixed, wants))))
	if r.then != nil {
		r.then(s)
	}
}

// wanted is those of the objects that have one of the names.
func wanted(objects map[string]types.UID, names []string) map[string]types.UID {
	out := map[string]types.UID{}
	for _, name := range names {
		if uid, ok := objects[name]; ok {
			out[name] = uid
		}
	}
	return out
}

// nothing is a service that was not there before.
const nothing = "# nothing"

func or(text, usual string) string {
	if text == "" {
		return usual
	}
	return text
}

// meeting is a fault of requests that fit, which is lifted by hand.
func meeting(method, path string, fault faultproxy.Fault) func(*scene) func() {
	return func(s *scene) func() { return s.meets(method, path, fault) }
}

// once is a fault that some requests meet, and no more after them.
func once(method, path string, times int, fault faultproxy.Fault) func(*scene) func() {
	return func(s *scene) func() {
		return s.proxy.Add(faultproxy.Rule{Method: method, Path: s.path(path), Times: times, Fault: fault})
	}
}

// serverRows are refusals of one object.
func serverRows() []row {
	refused := func(name, reason string, fault faultproxy.Fault) row {
		return row{name: name, fault: meeting(http.MethodPatch, onA, fault), expect: []string{reason + " ConfigMap/a", "created ConfigMap/c"}}
	}
	return []row{
		refused("400 bad request", "Invalid", refusal(400, metav1.StatusReasonBadRequest, "strict decoding error: unknown field")),
		refused("401 unauthorized", "Forbidden", refusal(401, metav1.StatusReasonUnauthorized, "Unauthorized")),
		refused("403 by RBAC", "Forbidden", refusal(403, metav1.StatusReasonForbidden, `configmaps "a" is forbidden: User "agent" cannot patch resource`)),
		refused("403 by a webhook", "Denied", refusal(403, metav1.StatusReasonForbidden, `admission webhook "policy.example.com" denied the request: no`)),
		refused("400 by a webhook", "Denied", refusal(400, "", `admission webhook "policy.example.com" denied the request: no`)),
		refused("403 by a quota", "Denied", refusal(403, metav1.StatusReasonForbidden, `configmaps "a" is forbidden: exceeded quota: small`)),
		refused("405 method not allowed", "Invalid", refusal(405, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method")),
		refused("409 conflict of two writers", "Busy", refusal(409, metav1.StatusReasonConflict, "the object has been modified")),
		refused("409 already exists", "Busy", refusal(409, metav1.StatusReasonAlreadyExists, `configmaps "a" already exists`)),
		refused("413 too large", "Invalid", refusal(413, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728")),
		refused("415 unsupported media type", "Unexpected", refusal(415, metav1.StatusReasonUnsupportedMediaType, "the body was in an unknown format")),
		refused("422 invalid", "Invalid", refusal(422, metav1.StatusReasonInvalid, `ConfigMap "a" is invalid`, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value", Field: "data"})),
		refused("422 immutable", "Immutable", refusal(422, metav1.StatusReasonInvalid, `ConfigMap "a" is invalid`, metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Message: "field is immutable", Field: "data"})),
		refused("429 without a word when", "TooManyRequests", refusal(429, metav1.StatusReasonTooManyRequests, "the server has received too many requests")),
		refused("429 with Retry-After", "TooManyRequests", slowDown(1)),
		refused("500 internal error", "Unavailable", refusal(500, metav1.StatusReasonInternalError, "Internal error occurred: etcdserver: leader changed")),
		refused("500 failed webhook", "Unavailable", refusal(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "x": connection refused`)),
		refused("503 unavailable", "Unavailable", refusal(503, metav1.StatusReasonServiceUnavailable, "the server is currently unable to handle the request")),
		refused("504 timeout", "Unavailable", refusal(504, metav1.StatusReasonTimeout, "Timeout: request did not complete within the allotted timeout")),
		refused("502 of a proxy in HTML", "Unavailable", faultproxy.Answer(502, "text/html", "<html><body>Bad Gateway</body></html>")),
		refused("404 of the namespace", "MissingNamespace", faultproxy.Refuse(metav1.Status{
			Code: 404, Reason: metav1.StatusReasonNotFound, Message: `namespaces "x" not found`, Details: &metav1.StatusDetails{Kind: "namespaces", Name: "x"},
		})),
		refused("403 namespace is terminating", "NamespaceTerminating", refusal(403, metav1.StatusReasonForbidden, "it is being terminated",
			metav1.StatusCause{Type: "NamespaceTerminating", Message: "namespace is being terminated", Field: "metadata.namespace"})),
	}
}

// answerRows are answers that break off, do not come, or are not what they should be.
func answerRows() []row {
	brief := 700 * time.Millisecond
	return []row{
		{name: "an apply hangs", timeout: brief, fault: meeting(http.MethodPatch, onA, faultproxy.Hang()), expect: []string{"Unavailable ConfigMap/a"}},
		{name: "an apply is reset", fault: meeting(http.MethodPatch, onA, faultproxy.Reset()), expect: []string{"Unavailable ConfigMap/a"}},
		{name: "two applies are reset", fault: once(http.MethodPatch, onA, 2, faultproxy.Reset()), expect: []string{"done"}},
		{name: "an answer breaks off", fault: once(http.MethodPatch, onA, 2, faultproxy.BreakAfter(50)), expect: []string{"done"}},
		{name: "every answer breaks off", fault: meeting(http.MethodPatch, onA, faultproxy.BreakAfter(50)), expect: []string{"ConfigMap/a"}},
		{name: "an answer is truncated", fault: meeting(http.MethodPatch, onA, faultproxy.Truncate(60)), expect: []string{"ConfigMap/a: "}},
		{name: "an answer is empty", fault: once(http.MethodPatch, onA, 1, faultproxy.Answer(200, "application/json", "")), expect: []string{"done"}},
		{name: "an answer is HTML", fault: once(http.MethodPatch, onA, 1, faultproxy.Answer(200, "text/html", "<html>login</html>")), expect: []string{"done"}},
		{name: "an answer is another object", fault: once(http.MethodPatch, onA, 1, faultproxy.Answer(200, "application/json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`)), expect: []string{"done"}},
		{name: "an answer trickles", fault: meeting(http.MethodPatch, onA, faultproxy.Trickle(10*time.Millisecond)), expect: []string{"done"}},
		{name: "the answers of successful applies are lost", fault: once(http.MethodPatch, `/namespaces/NS/configmaps/`, 2, faultproxy.Lose()), expect: []string{"done"}},
		{name: "the answer of a creation is lost each time", fault: meeting(http.MethodPatch, `/namespaces/NS/configmaps/c\?`, faultproxy.Lose()), expect: []string{"ConfigMap/c"}},
		{name: "all requests are reset", fault: meeting("", ``, faultproxy.Reset()), expect: []string{"error: "}},
		{name: "all requests are slow", fault: meeting("", ``, faultproxy.Delay(30*time.Millisecond)), expect: []string{"done"}},
		{name: "every third apply is reset", before: nothing, wants: manyMaps(30), fault: meeting(http.MethodPatch, `/namespaces/NS/configmaps/`, every(3, faultproxy.Reset())), expect: []string{"done"}},
	}
}

// every lets each nth request meet the fault.
func every(n int32, fault faultproxy.Fault) faultproxy.Fault {
	var count atomic.Int32
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if count.Add(1)%n == 0 {
			fault(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

func manyMaps(n int) string {
	documents := make([]string, n)
	for i := range n {
		documents[i] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: map-%03d}, data: {value: x}}", i)
	}
	return strings.Join(documents, "\n---\n")
}

// discoveryRows are failures to learn what the cluster serves.
func discoveryRows() []row {
	down := refusal(503, metav1.StatusReasonServiceUnavailable, "down")
	return []row{
		{name: "discovery is refused", restart: true, fault: meeting(http.MethodGet, `^/apis?(\?|$)`, down), expect: []string{"error: "}},
		{name: "discovery hangs", restart: true, timeout: time.Second, fault: meeting(http.MethodGet, `^/apis?(\?|$)`, faultproxy.Hang()), expect: []string{"error: "}},
		{name: "discovery breaks off", restart: true, fault: meeting(http.MethodGet, `^/apis?(\?|$)`, faultproxy.BreakAfter(500)), expect: []string{"error: "}},
		{name: "discovery is truncated", restart: true, fault: meeting(http.MethodGet, `^/apis?(\?|$)`, faultproxy.Truncate(500)), expect: []string{"error: "}},
		{
			name: "an aggregated API does not answer", restart: true, before: calm, wants: changed + "\n---\n" + metric,
			fixed: changed, fault: unavailableAPI, expect: []string{"ponens", "configured ConfigMap/a"},
		},
	}
}

const metric = "{apiVersion: NS.silent.example.com/v1, kind: Ponens, metadata: {name: ponens}}"

// unavailableAPI registers an API group that nobody serves.
func unavailableAPI(s *scene) func() {
	object := s.parse(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.NS.silent.example.com}
spec: {group: NS.silent.example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 10, service: {namespace: NS, name: nobody}}`)[0]
	client := s.cluster.Dynamic.Resource(apiServices)
	if _, err := client.Create(s.Context(), object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	return func() { _ = client.Delete(s.Context(), object.GetName(), metav1.DeleteOptions{}) }
}
