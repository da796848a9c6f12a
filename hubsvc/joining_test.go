package hubsvc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"

	agentidentity "github.com/pluralsh/plural/agent/identity"
	agentjoin "github.com/pluralsh/plural/agent/join"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/test/support/fleetrepo"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/fleet"
)

// invited is a cluster's file that waits for a token.
func invited(name, raw string, until time.Time) string {
	return fleetrepo.Header + "kind: Cluster\nmetadata: {name: " + name + "} # theirs\nspec:\n  tags: {env: test}\n  join:\n    hash: \"" + fleet.HashToken(raw) +
		"\"\n    expires: \"" + until.UTC().Format(time.RFC3339) + "\"\n"
}

// joining is an agent that is to join: what it asks, and the proof that its key is its own.
type joining struct {
	api.JoinRequest
	keys  *crypto.AgentIdentity
	proof string
}

func newJoining(t *testing.T, cluster, raw string) *joining {
	t.Helper()
	keys, err := crypto.NewAgentIdentity()
	if err != nil {
		t.Fatal(err)
	}
	j := &joining{JoinRequest: api.JoinRequest{Cluster: cluster, Token: raw, Auth: keys.Public().Auth, Age: keys.Public().Age}, keys: keys}
	if j.proof, err = token.NewSigner(keys.Auth(), cluster, "https://hub.example.com", time.Now).Token(nil); err != nil {
		t.Fatal(err)
	}
	return j
}

func (r *running) join(j *joining) (int, string) {
	r.t.Helper()
	text, err := json.Marshal(j.JoinRequest)
	if err != nil {
		r.t.Fatal(err)
	}
	code, said := r.do(http.MethodPost, api.JoinPath, j.proof, text)
	return code, string(said)
}

// served waits until the hub serves the origin's newest commit.
func (r *running) served(o *fleetrepo.Origin) {
	r.t.Helper()
	fleetrepo.Until(r.t, "the newest commit is served", func() bool { return r.status().Commit.ID == o.Git(o.Bare, "rev-parse", "main") })
}

func TestATokenRegistersItsClusterOnce(t *testing.T) {
	hub, o, opts := editing(t, nil)
	raw := fleet.NewJoinToken()
	o.Push(map[string]string{"clusters/edge.yaml": invited("edge", raw, time.Now().Add(time.Minute))})
	hub.served(o)
	first := newJoining(t, "edge", raw)
	code, said := hub.join(first)
	var answer api.JoinAnswer
	if err := json.Unmarshal([]byte(said), &answer); err != nil || code != http.StatusOK || answer.Cluster != "edge" || answer.HubURL != "https://hub.example.com" {
		t.Fatalf("%d %s", code, said)
	}
	file := o.Git(o.Bare, "show", "main:clusters/edge.yaml")
	if !strings.Contains(file, first.Auth) || !strings.Contains(file, first.Age) || strings.Contains(file, "join") || !strings.Contains(file, "# theirs") {
		t.Errorf("file:\n%s", file)
	}
	if got := o.Git(o.Bare, "log", "-1", "--format=%an %s", "main"); got != "cluster/edge Register cluster edge" {
		t.Errorf("log: %s", got)
	}
	if code, said := hub.join(newJoining(t, "edge", raw)); code != http.StatusNotFound {
		t.Errorf("a second agent with the same token: %d %s", code, said)
	}
	hub.served(o)
	if code, said := hub.join(newJoining(t, "edge", raw)); code != http.StatusNotFound {
		t.Errorf("the same once the commit is served: %d %s", code, said)
	}
	if code, _ := hub.do(http.MethodGet, api.PollPath, first.proof, nil); code != http.StatusOK {
		t.Errorf("the agent that joined polls: %d", code)
	}
	// The answer to the first may have been lost.
	fleetrepo.Until(t, "who has joined is told so again", func() bool { code, _ := hub.join(first); return code == http.StatusOK })
	stolen := newJoining(t, "edge", raw)
	stolen.Auth, stolen.Age = first.Auth, first.Age
	if code, said := hub.join(stolen); code != http.StatusNotFound {
		t.Errorf("somebody who knows the public keys alone: %d %s", code, said)
	}
	logs, err := filepath.Glob(filepath.Join(opts.Data, "audit", "*"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("audit: %v, %v", logs, err)
	}
	written := ""
	for _, name := range logs {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		written += string(text)
	}
	if strings.Count(written, `"person":"cluster/edge"`) != 2 || strings.Contains(written, raw) {
		t.Errorf("audit:\n%s", written)
	}
}

// Everything that is wrong with a cluster or a token has one answer, so that nobody learns which clusters there are.
func TestWhoeverHasNoGoodTokenLearnsNothing(t *testing.T) {
	hub, o, _ := editing(t, nil)
	good, late, other := fleet.NewJoinToken(), fleet.NewJoinToken(), fleet.NewJoinToken()
	o.Push(map[string]string{
		"clusters/edge.yaml":  invited("edge", good, time.Now().Add(time.Minute)),
		"clusters/late.yaml":  invited("late", late, time.Now().Add(-time.Second)),
		"clusters/other.yaml": invited("other", other, time.Now().Add(time.Minute)),
	})
	hub.served(o)
	before := o.Git(o.Bare, "rev-parse", "main")
	tests := map[string]*joining{
		"another cluster's token": newJoining(t, "edge", other), "after its time": newJoining(t, "late", late), "no token": newJoining(t, "edge", ""),
		"a cluster that is not there": newJoining(t, "nowhere", good), "one that waits for nobody": newJoining(t, "a", good),
		"a path for a name": newJoining(t, "../clusters/edge", good), "the hash": newJoining(t, "edge", fleet.HashToken(good)),
	}
	unsigned, foreign, noAge := newJoining(t, "edge", good), newJoining(t, "edge", good), newJoining(t, "edge", good)
	unsigned.proof, foreign.proof, noAge.Age = "", newJoining(t, "edge", good).proof, "age1"
	elsewhere := newJoining(t, "other", good)
	elsewhere.Cluster = "edge"
	tests["no proof"], tests["another's proof"], tests["no age key"], tests["proof for another cluster"] = unsigned, foreign, noAge, elsewhere
	answers := map[string]bool{}
	for name, j := range tests {
		code, said := hub.join(j)
		if answers[said] = true; code != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
	for _, shown := range []struct{ path, token string }{
		{"/join/edge.yaml", ""},
		{"/join/edge.yaml", other},
		{"/join/late.yaml", late},
		{"/join/nowhere.yaml", good},
		{"/join/edge", good},
		{"/join/edge.yaml?token=" + good, other},
	} {
		code, said := hub.do(http.MethodGet, shown.path, shown.token, nil)
		if answers[string(said)] = true; code != http.StatusNotFound {
			t.Errorf("%s: %d %s", shown.path, code, said)
		}
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
	if code, _ := hub.do(http.MethodPost, api.JoinPath, "x", []byte(strings.Repeat("[", 1<<20))); code != http.StatusNotFound {
		t.Errorf("nonsense: %d", code)
	}
	if got := o.Git(o.Bare, "rev-parse", "main"); got != before {
		t.Error("something was committed")
	}
}

// The fleet refuses two clusters with one key, so committing them would keep every later commit from being served.
func TestNoClusterJoinsWithTheKeyOfAnother(t *testing.T) {
	hub, o, _ := editing(t, nil)
	raw, again := fleet.NewJoinToken(), fleet.NewJoinToken()
	until := time.Now().Add(time.Minute)
	o.Push(map[string]string{"clusters/edge.yaml": invited("edge", raw, until), "clusters/other.yaml": invited("other", again, until)})
	hub.served(o)
	first := newJoining(t, "edge", raw)
	if code, said := hub.join(first); code != http.StatusOK {
		t.Fatalf("%d %s", code, said)
	}
	hub.served(o)
	before := o.Git(o.Bare, "rev-parse", "main")
	second := newJoining(t, "other", again)
	second.Auth = first.Auth // with a proof by the key itself, as whoever has taken over the first agent can give
	var err error
	if second.proof, err = token.NewSigner(first.keys.Auth(), "other", "https://hub.example.com", time.Now).Token(nil); err != nil {
		t.Fatal(err)
	}
	if code, said := hub.join(second); code != http.StatusNotFound {
		t.Errorf("%d %s", code, said)
	}
	if now := o.Git(o.Bare, "rev-parse", "main"); now != before {
		t.Errorf("committed:\n%s", o.Git(o.Bare, "show", "main"))
	}
	if code, said := hub.join(newJoining(t, "other", again)); code != http.StatusOK {
		t.Errorf("the same cluster with a key of its own: %d %s", code, said)
	}
}

func TestOfFiftyExchangesAtATimeOneWins(t *testing.T) {
	hub, o, _ := editing(t, nil)
	raw := fleet.NewJoinToken()
	o.Push(map[string]string{"clusters/edge.yaml": invited("edge", raw, time.Now().Add(time.Minute))})
	hub.served(o)
	var all sync.WaitGroup
	codes, winner := make(chan int, 50), make(chan *joining, 50)
	for range 50 {
		j := newJoining(t, "edge", raw)
		all.Go(func() {
			code, _ := hub.join(j)
			if codes <- code; code == http.StatusOK {
				winner <- j
			}
		})
	}
	all.Wait()
	close(codes)
	count := map[int]int{}
	for code := range codes {
		count[code]++
	}
	if count[http.StatusOK] != 1 || count[http.StatusNotFound] != 49 {
		t.Fatalf("answers: %v", count)
	}
	if file := o.Git(o.Bare, "show", "main:clusters/edge.yaml"); !strings.Contains(file, (<-winner).Auth) {
		t.Errorf("file:\n%s", file)
	}
	if got := o.Git(o.Bare, "log", "--format=%s", "main"); strings.Count(got, "Register cluster edge") != 1 {
		t.Errorf("log:\n%s", got)
	}
}

func TestAHubThatOnlyReadsSaysHowAClusterJoinsInstead(t *testing.T) {
	hub, o, _ := editing(t, func(o *Options) { o.Edits = nil })
	raw := fleet.NewJoinToken()
	o.Push(map[string]string{"clusters/edge.yaml": invited("edge", raw, time.Now().Add(time.Minute))})
	hub.served(o)
	for name, ask := range map[string]func() (int, string){
		"exchange": func() (int, string) { return hub.join(newJoining(t, "edge", raw)) },
		"manifests": func() (int, string) {
			c, b := hub.do(http.MethodGet, "/join/edge.yaml", raw, nil)
			return c, string(b)
		},
	} {
		code, said := ask()
		var refused v1.Error
		if err := json.Unmarshal([]byte(said), &refused); err != nil || code != http.StatusForbidden || !strings.Contains(refused.Fix, "plural cluster register edge") {
			t.Errorf("%s: %d %s", name, code, said)
		}
	}
}

// The whole way between a hub, git and a cluster: what the hub hands out is applied, the agent makes keys and exchanges the token,
// the hub commits, and knows the agent from then on.
func TestAnAgentJoinsByWhatTheHubHandsOut(t *testing.T) {
	kube := kubetest.Start(t)
	hub, o, _ := editing(t, nil)
	raw := fleet.NewJoinToken()
	o.Push(map[string]string{
		"plural.yaml":        strings.Replace(fleetrepo.Workspace(""), "https://hub.example.com", hub.url, 1),
		"clusters/edge.yaml": invited("edge", raw, time.Now().Add(time.Minute)),
	})
	hub.served(o)
	code, text := hub.do(http.MethodGet, "/join/edge.yaml", raw, nil)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	secrets := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(agentidentity.Namespace)
	namespaces := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	for decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		switch options := (metav1.ApplyOptions{FieldManager: "plural", Force: true}); obj.GetKind() {
		case "Namespace":
			_, err = namespaces.Apply(t.Context(), obj.GetName(), obj, options)
		case "Secret":
			_, err = secrets.Apply(t.Context(), obj.GetName(), obj, options)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	joined, err := agentjoin.Registration(t.Context(), agentjoin.Options{
		Client: kube.Dynamic, UserAgent: "plural-agent/test", Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil || joined.Cluster != "edge" || joined.HubURL != hub.url {
		t.Fatalf("%s at %s: %v", joined.Cluster, joined.HubURL, err)
	}
	bearer, err := token.NewSigner(joined.Identity.Auth(), "edge", hub.url, time.Now).Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	fleetrepo.Until(t, "the hub knows the agent", func() bool {
		code, _ := hub.do(http.MethodGet, api.PollPath, bearer, nil)
		return code == http.StatusOK
	})
	if _, err := secrets.Get(t.Context(), agentjoin.SecretName, metav1.GetOptions{}); err == nil {
		t.Error("the token is still in the cluster")
	}
}

func TestAClusterThatJoinsStartsFromTheImageOfTheFleetsAgents(t *testing.T) {
	hub, o, _ := editing(t, nil)
	raw := fleet.NewJoinToken()
	installed := func(image, clusters string) map[string]string {
		return map[string]string{
			"clusters/edge.yaml":          invited("edge", raw, time.Now().Add(time.Minute)),
			"packages/agent/package.yaml": fleetrepo.Header + "kind: Installation\nmetadata: {name: agent}\n",
			"packages/agent/services.yaml": fleetrepo.Header + "kind: Service\nmetadata: {name: agent}\nspec:\n  source: {path: apps/api}\n" +
				"  helm: {values: {image: " + image + "}}\n  clusters: " + clusters + "\n",
			"apps/api/Chart.yaml": "apiVersion: v2\nname: api\nversion: 0.1.0\n",
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, tt := range []struct{ image, clusters, want string }{
		{"{repository: registry.example.com/agent, tag: dev-1, digest: \"\"}", "{names: [edge]}", "registry.example.com/agent:dev-1"},
		{"{repository: registry.example.com/agent, tag: dev-1, digest: \"" + digest + "\"}", "{names: [edge]}", "registry.example.com/agent@" + digest},
		{"{repository: registry.example.com/agent, tag: dev-1}", "{matchLabels: {env: prod}}", "ghcr.io/pluralsh/plural-agent:"},
	} {
		o.Push(installed(tt.image, tt.clusters))
		hub.served(o)
		code, text := hub.do(http.MethodGet, "/join/edge.yaml", raw, nil)
		if code != http.StatusOK || !strings.Contains(string(text), "image: "+tt.want) {
			t.Errorf("%s on %s: %d, want %s in\n%s", tt.image, tt.clusters, code, tt.want, text)
		}
	}
}
