package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/pluralsh/plural/api/v1"
)

// hintsArrive changes a ConfigMap twice. That all clusters asked by chance, so soon, both times, happens once in many lives.
func hintsArrive(t *testing.T, r *reached, _ *people) {
	values := r.configs("shop")
	for _, value := range []string{"two", "three"} {
		r.write(map[string]string{"apps/shop/config.yaml": configMap("shop", value)})
		began := time.Now()
		r.push("Change the shop to " + value)
		r.eventually("all clusters have "+value, timeout, func() bool { return values(value) })
		took := time.Since(began)
		t.Logf("three clusters had the commit after %v", took.Round(time.Millisecond))
		if took > rarely/2 {
			t.Errorf("the commit took %v, though agents ask every %v only", took, rarely)
		}
	}
}

// configs asks the clusters' API servers whether a ConfigMap has a value everywhere, each time it is called.
func (r *reached) configs(name string) func(value string) bool {
	r.t.Helper()
	var all []func() string
	for _, cluster := range clusters {
		of := r.kube(cluster).Resource(configMaps).Namespace(namespace)
		all = append(all, func() string {
			object, err := of.Get(context.Background(), name, metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			data, _ := object.Object["data"].(map[string]any)
			value, _ := data["value"].(string)
			return value
		})
	}
	return func(value string) bool {
		return !slices.ContainsFunc(all, func(is func() string) bool { return is() != value })
	}
}

// receiver is where a webhook's messages go.
type receiver struct {
	*httptest.Server
	key []byte

	mu       sync.Mutex
	messages []message
	problems []string
}

// message is what sinks are told.
type message struct {
	ID, Workspace, Service, Reason, Message string
	Warning                                 bool
	Clusters                                []string
	Count                                   int
}

func newReceiver(t *testing.T, key string) *receiver {
	t.Helper()
	r := &receiver{key: []byte(key)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		r.problems = append(r.problems, err.Error())
	}
	if signature := request.Header.Get("Plural-Signature"); err != nil || !r.signed(signature, body) {
		r.problems = append(r.problems, fmt.Sprintf("%q does not sign %s (%v)", signature, body, err))
	}
	r.messages = append(r.messages, m)
}

// signed computes the signature as docs/spec/notify.md says it.
func (r *receiver) signed(signature string, body []byte) bool {
	at, sum, ok := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	want := hmac.New(sha256.New, r.key)
	want.Write([]byte(at + "."))
	want.Write(body)
	got, err := hex.DecodeString(sum)
	return ok && err == nil && hmac.Equal(got, want.Sum(nil))
}

// heard are the messages with a reason.
func (r *receiver) heard(reason string) []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return with(reason, r.messages)
}

func with(reason string, all []message) (some []message) {
	for _, m := range all {
		if m.Reason == reason {
			some = append(some, m)
		}
	}
	return some
}

// filed are the messages in the file sink.
func (r *reached) filed(name string) (all []message) {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.data, "notifications", name))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err == nil { // the last line may still be written
			all = append(all, m)
		}
	}
	return all
}

// signingKey is what the webhook's messages are signed with; it is looked for later.
const signingKey = "a key to sign with 5f0c71e2b94d"

func sinksHear(t *testing.T, r *reached, _ *people) {
	hook := newReceiver(t, signingKey)
	route := func(sink string) string {
		return "---\napiVersion: plural.sh/v1alpha1\nkind: Route\nmetadata: {name: " + sink + "}\nspec:\n  sink: " + sink +
			"\n  services: {names: [fragile]}\n  reasons: [Failed, Recovered]\n  minSeverity: normal\n  every: 1h\n"
	}
	r.commit("Tell of the fragile service", map[string]string{
		"secrets/hub/ops.yaml": "key: " + signingKey + "\n",
		"notify/ops.yaml": "apiVersion: plural.sh/v1alpha1\nkind: Sink\nmetadata: {name: ops}\nspec:\n  webhook: {url: \"" + hook.URL +
			"/told\", secret: secrets/hub/ops.yaml}\n---\napiVersion: plural.sh/v1alpha1\nkind: Sink\nmetadata: {name: book}\nspec:\n  file: {path: told.jsonl}\n" +
			route("ops") + route("book"),
		"services/fragile.yaml": service("fragile", "apps/fragile"), "apps/fragile/config.yaml": configMap("fragile", "good"),
	})
	r.converged(r.git("rev-parse", "HEAD"), timeout)
	r.commit("Break the fragile service", map[string]string{
		"apps/fragile/config.yaml": strings.Replace(configMap("fragile", "bad"), "name: fragile", "name: fragile\n  labels: {a: 'no label'}", 1),
	})
	r.eventually("both sinks hear of the failure", timeout, func() bool {
		return len(hook.heard("Failed")) > 0 && len(with("Failed", r.filed("told.jsonl"))) > 0
	})
	r.commit("Mend the fragile service", map[string]string{"apps/fragile/config.yaml": configMap("fragile", "better")})
	r.eventually("both sinks hear of the recovery", timeout, func() bool {
		return len(hook.heard("Recovered")) > 0 && len(with("Recovered", r.filed("told.jsonl"))) > 0
	})
	for _, reason := range []string{"Failed", "Recovered"} {
		for sink, heard := range map[string][]message{"webhook": hook.heard(reason), "file": with(reason, r.filed("told.jsonl"))} {
			if len(heard) != 1 || heard[0].Service != "fragile" || heard[0].Count != 3 || len(heard[0].Clusters) != 3 || heard[0].Warning != (reason == "Failed") {
				t.Errorf("the %s heard of %s: %+v", sink, reason, heard)
			}
		}
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for _, problem := range hook.problems {
		t.Error(problem)
	}
}

func suspendedIsLeftAlone(t *testing.T, r *reached, _ *people) {
	on := r.kube("edge-1").Resource(configMaps).Namespace(namespace)
	change := func(name, value string) {
		t.Helper()
		_, err := on.Patch(context.Background(), name, types.MergePatchType, []byte(`{"data":{"value":"`+value+`"}}`), metav1.PatchOptions{FieldManager: "somebody"})
		if err != nil {
			t.Fatal(err)
		}
	}
	value := func(name string) string { return r.configValue("edge-1", name, "value") }
	healed := value("shop")
	r.run("service", "suspend", "shop")
	r.eventually("edge-1 knows that shop is suspended", timeout, func() bool {
		d := r.deployment("shop", "edge-1")
		return d != nil && d.Suspended
	})
	for _, again := range []string{"by hand", "by hand once more"} {
		change("shop", "changed "+again)
		change("twin", "changed "+again)
		r.eventually("the service beside it is healed", timeout, func() bool { return value("twin") == "one" })
		if got := value("shop"); got != "changed "+again {
			t.Errorf("the suspended service was healed: %q", got)
		}
	}
	r.run("service", "resume", "shop")
	r.eventually("the service is healed when it is resumed", timeout, func() bool { return value("shop") == healed })
}

// deployment is what the hub says of a service on a cluster; nil when it says nothing.
func (r *reached) deployment(name, cluster string) *v1.Deployment {
	r.t.Helper()
	var s v1.Service
	if !r.ask("/v1/services/"+name, &s) {
		return nil
	}
	for i := range s.Deployments {
		if s.Deployments[i].Cluster == cluster {
			return &s.Deployments[i]
		}
	}
	return nil
}

// follower reads GET /v1/stream, as curl would.
type follower struct {
	*open
	cancel context.CancelFunc
	events chan streamed // closed when the stream ends
}

// streamed is one event of a stream. ID is the token to go on from.
type streamed struct {
	ID, Kind string
	Data     []byte
	At       time.Time
}

// follow reads what changes of deployments, from where a token stood.
func (u *user) follow(since string) *follower {
	u.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	u.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.ingress.URL+"/v1/stream?kind=deployments&kind=events", nil)
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+u.token)
	if since != "" {
		request.Header.Set("Last-Event-ID", since)
	}
	response, err := u.ingress.Client().Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		u.t.Fatalf("%s follows: %v, %v", u.name, response, err)
	}
	f := &follower{&open{"the stream of " + u.name, make(chan error, 1)}, cancel, make(chan streamed, 1000)}
	go func() {
		defer response.Body.Close()
		defer close(f.events)
		var e streamed
		lines := bufio.NewScanner(response.Body)
		defer func() { f.ended <- lines.Err() }()
		for lines.Scan() {
			field, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
			switch string(field) {
			case "id":
				e.ID = string(value)
			case "event":
				e.Kind = string(value)
			case "data":
				e.Data = bytes.Clone(value)
			case "":
				e.At = time.Now()
				f.events <- e
				e = streamed{}
			}
		}
	}()
	return f
}

// until reads on to an event, and to the token that stands behind it.
func (f *follower) until(t testing.TB, what string, is func(streamed) bool) (found streamed, token string) {
	t.Helper()
	deadline := time.After(timeout)
	for {
		select {
		case e, ok := <-f.events:
			if !ok {
				t.Fatalf("the stream ended before %s", what)
			}
			if e.ID != "" {
				token = e.ID
			}
			if found.Kind == "" && is(e) {
				found = e
			}
			if found.Kind != "" && token != "" {
				return found, token
			}
		case <-deadline:
			t.Fatalf("the stream does not tell of %s", what)
		}
	}
}

// phase says that an event tells a service's phase on a cluster.
func phase(name, cluster string, phases ...v1.Phase) func(streamed) bool {
	return func(e streamed) bool {
		var changes v1.Changes[v1.Deployment]
		if e.Kind != string(v1.ChangedDeployments) || json.Unmarshal(e.Data, &changes) != nil {
			return false
		}
		return slices.ContainsFunc(changes.Items, func(d v1.Deployment) bool {
			return d.Service == name && d.Cluster == cluster && slices.Contains(phases, d.Phase)
		})
	}
}

func streamShows(t *testing.T, r *reached, _ *people) {
	f := r.operator.follow("")
	bad := strings.Replace(configMap("twin", "bad"), "name: twin", "name: twin\n  labels: {a: 'no label'}", 1)
	r.commit("Break the twin", map[string]string{"apps/twin/config.yaml": bad})
	shown, token := f.until(t, "the failure", phase("twin", "edge-1", v1.Failed))
	f.cancel()
	failed := r.phaseChanged("edge-1", "twin", "FAILED")
	t.Logf("the stream showed the failure %v after the agent saw it", shown.At.Sub(failed).Round(time.Millisecond))
	if took := shown.At.Sub(failed); took > 20*time.Second {
		t.Errorf("the stream showed the failure %v after the agent saw it", took)
	}

	r.commit("Mend the twin while nobody looks", map[string]string{"apps/twin/config.yaml": configMap("twin", "one")})
	r.eventually("the twin is healthy", timeout, func() bool {
		d := r.deployment("twin", "edge-1")
		return d != nil && d.Phase == v1.Healthy
	})
	again := r.operator.follow(token)
	if first, _ := again.until(t, "what was missed", func(e streamed) bool {
		return e.Kind == string(v1.Reset) || phase("twin", "edge-1", v1.Healthy)(e)
	}); first.Kind == string(v1.Reset) {
		t.Error("a stream that was away for a moment has to list again")
	}

	r.killHub()
	r.startHub()
	r.reachable()
	after := r.operator.follow(token)
	e, token := after.until(t, "what was missed, or that it has to list again", func(e streamed) bool {
		return e.Kind == string(v1.Reset) || phase("twin", "edge-1", v1.Healthy)(e)
	})
	t.Logf("after the hub's restart a token of before gives %s", e.Kind)
	if token == "" {
		t.Error("it gives no new token")
	}
}

// phaseChanged is when an agent wrote that a service came to a phase, the last time.
func (r *reached) phaseChanged(cluster, service, phase string) (at time.Time) {
	r.t.Helper()
	text, err := os.ReadFile(r.parts()["agent-"+cluster].Log)
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var said struct {
			Time                time.Time
			Msg, Service, Phase string
		}
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "service changed phase" && said.Service == service && said.Phase == phase {
			at = said.Time
		}
	}
	if at.IsZero() {
		r.t.Fatalf("the agent of %s does not say that %s is %s", cluster, service, phase)
	}
	return at
}
