package join_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/agent/join"
	door "github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/fleet"
)

const repository = "3f0c0123456789abcdef0123456789ab"

// hub is a hub's door over one cluster's file.
type hub struct {
	*testing.T
	url string

	mu      sync.Mutex // guards what follows
	cluster fleet.Cluster
	commits int
	// lose has the next answer get lost on its way.
	lose bool
}

func newHub(t *testing.T, raw string) *hub {
	t.Helper()
	h := &hub{T: t}
	h.cluster.Metadata.Name = "edge"
	h.invite(raw)
	mux := http.NewServeMux()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, r)
		h.mu.Lock()
		lost := h.lose && r.Method == http.MethodPost
		h.lose = h.lose && !lost
		h.mu.Unlock()
		if lost {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	door.New(door.Options{
		Cluster: func(name string) (*fleet.Cluster, bool) {
			h.mu.Lock()
			defer h.mu.Unlock()
			c := h.cluster
			return &c, name == "edge"
		},
		Place:   func() (door.HubAddress, error) { return door.HubAddress{HubURL: h.url, Repository: repository}, nil },
		Refused: func(string) error { return nil },
		Commit: func(_ context.Context, _ string, keys fleet.AgentKeys, hash string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !door.Good(&h.cluster, hash, time.Now()) {
				return door.ErrNotGood
			}
			h.cluster.Spec.Agent, h.cluster.Spec.Join = keys, nil
			h.commits++
			return nil
		},
		Write: func(context.Context, door.Exchange, bool) error { return nil },
		Image: func(*fleet.Cluster) string { return "ghcr.io/pluralsh/plural-agent:1.2.3" }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}).Routes(mux)
	return h
}

func (h *hub) invite(raw string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cluster.Spec.Join = &fleet.Join{Hash: fleet.HashToken(raw), Expires: time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}
}

func (h *hub) registered() (fleet.AgentKeys, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cluster.Spec.Agent, h.commits
}

// place is a cluster to which the hub's manifests were applied, all but the agent itself and what makes it an administrator.
type place struct {
	*kubetest.Cluster
	t *testing.T
	// agent is the cluster as the agent's account reaches it.
	agent *rest.Config
}

func resource(kind string) schema.GroupVersionResource {
	group, version := "", "v1"
	switch {
	case strings.HasPrefix(kind, "Role") || strings.HasPrefix(kind, "ClusterRole"):
		group = "rbac.authorization.k8s.io"
	case kind == "Deployment":
		group = "apps"
	}
	return schema.GroupVersionResource{Group: group, Version: version, Resource: strings.ToLower(kind) + "s"}
}

func newPlace(t *testing.T, h *hub, raw string) *place {
	t.Helper()
	p := &place{Cluster: kubetest.Start(t), t: t}
	p.agent = rest.CopyConfig(p.RESTConfig)
	p.agent.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:plural-system:plural-agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:plural-system", "system:authenticated"},
	}
	for _, name := range []string{identity.SecretName, join.SecretName} { // other tests share the API server
		if err := p.secrets().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	p.apply(h, raw)
	return p
}

func (p *place) secrets() dynamic.ResourceInterface {
	return p.Dynamic.Resource(resource("Secret")).Namespace(identity.Namespace)
}

// apply is the one line that an administrator pastes.
func (p *place) apply(h *hub, raw string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, h.url+"/join/edge.yaml", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+raw)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.t.Fatalf("%d %v %s", response.StatusCode, err, text)
	}
	for decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			p.t.Fatal(err)
		}
		if obj.GetKind() == "Deployment" || obj.GetName() == "plural-agent-admin" {
			continue
		}
		objects := dynamic.ResourceInterface(p.Dynamic.Resource(resource(obj.GetKind())))
		if obj.GetNamespace() != "" {
			objects = p.Dynamic.Resource(resource(obj.GetKind())).Namespace(obj.GetNamespace())
		}
		if _, err := objects.Apply(p.t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "plural", Force: true}); err != nil {
			p.t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}

// options are an agent's whose first request of a kind, if any, breaks off: it was killed there.
func (p *place) options(broken func(*http.Request) bool) join.Options {
	p.t.Helper()
	config := rest.CopyConfig(p.agent)
	dead := false
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if dead = dead || broken != nil && broken(r); dead {
				return nil, errKilled
			}
			return next.RoundTrip(r)
		})
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		p.t.Fatal(err)
	}
	return join.Options{Client: client, UserAgent: "plural-agent/test", Now: time.Now, Log: slog.New(slog.DiscardHandler)}
}

var errKilled = errors.New("killed")

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// until asks again as the agent does. Roles count a moment after they are made.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker, timeout := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer ticker.Stop()
	for !done() {
		select {
		case <-timeout:
			t.Fatalf("waited in vain: %s", what)
		case <-ticker.C:
		}
	}
}

// joins asks until there is a registration, and wants it to be what the hub has.
func (p *place) joins(h *hub) {
	p.t.Helper()
	var r identity.Registration
	until(p.t, "the cluster joins", func() (ok bool) {
		var err error
		r, err = join.Registration(p.t.Context(), p.options(nil))
		return err == nil
	})
	keys, commits := h.registered()
	if public := r.Identity.Public(); keys.Auth != public.Auth || keys.Age != public.Age || commits == 0 {
		p.t.Errorf("the hub has %v after %d commits, the agent %v", keys, commits, public)
	}
	if r.Cluster != "edge" || r.HubURL != h.url || r.Repository != repository {
		p.t.Errorf("registration: %s at %s of %s", r.Cluster, r.HubURL, r.Repository)
	}
	if stored, err := identity.Read(p.t.Context(), p.Dynamic); err != nil || !stored.Equal(r) {
		p.t.Errorf("what the next agent finds: %v", err)
	}
	if _, err := p.secrets().Get(p.t.Context(), join.SecretName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		p.t.Errorf("the token is still there: %v", err)
	}
	if _, err := p.Dynamic.Resource(resource("RoleBinding")).Namespace(identity.Namespace).Get(p.t.Context(), "plural-agent-join", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		p.t.Errorf("the right to join is still there: %v", err)
	}
	until(p.t, "the role by which it joined is collected", func() bool {
		_, err := p.Dynamic.Resource(resource("Role")).Namespace(identity.Namespace).Get(p.t.Context(), "plural-agent-join", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// An agent that is killed anywhere on its way, or does not hear the hub's answer, becomes what the hub has registered: with the
// least role, and by one commit.
func TestAKilledAgentGoesOnJoining(t *testing.T) {
	on := func(method, path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.Method == method && strings.HasSuffix(r.URL.Path, path) }
	}
	for name, broken := range map[string]func(*http.Request) bool{
		"nowhere":                       nil,
		"before the token is read":      on(http.MethodGet, "/secrets/plural-join"),
		"before the keys are kept":      on(http.MethodPut, "/secrets/plural-join"),
		"after the exchange":            on(http.MethodPatch, "/secrets/plural-agent"),
		"after the registration":        on(http.MethodDelete, "/secrets/plural-join"),
		"before the binding is cleared": on(http.MethodDelete, "/rolebindings/plural-agent-join"),
		"the answer is lost":            func(*http.Request) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			raw := fleet.NewJoinToken()
			h := newHub(t, raw)
			p := newPlace(t, h, raw)
			h.lose = name == "the answer is lost"
			until(t, "the account may read its token", func() bool {
				_, err := p.options(nil).Client.Resource(resource("Secret")).Namespace(identity.Namespace).Get(t.Context(), join.SecretName, metav1.GetOptions{})
				return err == nil
			})
			// Once the registration is written, nothing that is left behind keeps the agent from starting.
			started := name == "nowhere" || strings.HasPrefix(name, "after the registration") || strings.HasPrefix(name, "before the binding")
			if _, err := join.Registration(t.Context(), p.options(broken)); (err == nil) != started {
				t.Errorf("the first: %v", err)
			}
			if name != "before the binding is cleared" { // which then names Secrets that are gone, or the agent's own
				p.joins(h)
			}
			if _, commits := h.registered(); commits != 1 {
				t.Errorf("%d commits", commits)
			}
		})
	}
}

func TestTwoAgentsThatStartAtOnceAreOne(t *testing.T) {
	raw := fleet.NewJoinToken()
	h := newHub(t, raw)
	p := newPlace(t, h, raw)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			until(t, "it joins", func() bool { _, err := join.Registration(t.Context(), p.options(nil)); return err == nil })
		})
	}
	all.Wait()
	p.joins(h)
	if _, commits := h.registered(); commits != 1 {
		t.Errorf("%d commits", commits)
	}
}

func TestARegisteredClusterJoinsAnewAndStaysWhatItIsUntilThen(t *testing.T) {
	first, second := fleet.NewJoinToken(), fleet.NewJoinToken()
	h := newHub(t, first)
	p := newPlace(t, h, first)
	p.joins(h)
	before, _ := h.registered()
	h.invite(second)
	p.apply(h, second)
	h.invite(fleet.NewJoinToken()) // somebody made another one meanwhile
	if r, err := join.Registration(t.Context(), p.options(nil)); err != nil || r.Identity.Public().Auth != before.Auth {
		t.Errorf("with a token that is not good: %v", err)
	}
	h.invite(second)
	until(t, "it joins anew", func() bool {
		_, _ = join.Registration(t.Context(), p.options(nil))
		now, _ := h.registered()
		return now != before
	})
	p.joins(h)
}

func TestAClusterWithoutATokenSaysHowItIsRegistered(t *testing.T) {
	raw := fleet.NewJoinToken()
	h := newHub(t, raw)
	p := newPlace(t, h, raw)
	if err := p.secrets().Delete(t.Context(), join.SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var missing *identity.Missing
	until(t, "the account may look", func() bool {
		_, err := join.Registration(t.Context(), p.options(nil))
		return errors.As(err, &missing)
	})
	p.apply(h, raw)
	h.invite("another")
	var refused *join.Refused
	until(t, "the hub refuses", func() bool {
		_, err := join.Registration(t.Context(), p.options(nil))
		return errors.As(err, &refused)
	})
	text, err := json.Marshal(refused.Error())
	if err != nil || !strings.Contains(string(text), "plural cluster register edge --print") || strings.Contains(string(text), raw) {
		t.Errorf("%s", text)
	}
}
