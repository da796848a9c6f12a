package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/apiproxy"
	"github.com/pluralsh/plural/agent/livequery"
	"github.com/pluralsh/plural/agent/sync"
	"github.com/pluralsh/plural/agent/tail"
	"github.com/pluralsh/plural/agent/tunnel"
	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/buildinfo"
	"github.com/pluralsh/plural/internal/logring"
)

// maxEvents is how many events wait for a connection; older ones make room.
const maxEvents = 256

// people is what a session does for people: it keeps connections to the hub open, over which they reach the cluster.
type people struct {
	session *session
	ring    *logring.Ring
	views   *livequery.Views
	// reach is nil until the account is there that people's requests are made with.
	reach   atomic.Pointer[apiproxy.Handler]
	asking  apiproxy.Options
	policy  atomic.Pointer[apiproxy.Policy]
	events  chan *tunnelapi.Event
	channel tunnel.Options
}

// newPeople makes what Run keeps open. Until the cluster's own policy is known, nobody reaches anything.
func newPeople(ctx context.Context, s *session, o Options, signer *token.Signer) (*people, error) {
	p := &people{session: s, ring: o.ring, events: make(chan *tunnelapi.Event, maxEvents)}
	p.policy.Store(&apiproxy.Policy{Mode: apiproxy.Off})
	objects, err := metadata.NewForConfig(rest.CopyConfig(s.kube))
	if err != nil {
		return nil, fmt.Errorf("connect to cluster: %w", err)
	}
	p.views = livequery.New(livequery.Options{
		Objects: s.client, Metadata: objects, Kinds: s.engine.Kinds(), Services: s.engine, Said: s.warnings.Said, Mask: s.syncer.Mask, Log: o.Log,
	})
	policy := func() apiproxy.Policy { return *p.policy.Load() }
	p.asking = apiproxy.Options{
		Kube: o.Kube, Cluster: s.registration.Cluster, TokenFile: o.PeopleTokenFile, Account: o.PeopleAccount, Now: time.Now,
		Log: o.Log, Policy: policy,
	}
	if h, err := apiproxy.New(p.asking); err == nil { // else admit says why not
		p.reach.Store(h)
	}
	uid, err := retry(ctx, o.Log, s.clusterUID)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // a name for people
	p.channel = tunnel.Options{
		URL: s.registration.HubURL, CA: s.registration.HubCA, Token: signer.Token, Prove: signer.Prove, UserAgent: userAgent(),
		Handler: http.HandlerFunc(p.answer), Log: o.Log,
		Hello: func() *tunnelapi.Hello {
			return &tunnelapi.Hello{
				Cluster: s.registration.Cluster, ClusterUid: uid, Host: host, Boot: o.boot, AgentVersion: buildinfo.Version(), KubernetesVersion: s.capable.Load().KubeVersion,
				Capabilities: []string{tunnelapi.CanProxy, tunnelapi.CanObjects, tunnelapi.CanDiff, tunnelapi.CanLogs},
			}
		},
		Objects: shown{policy}.objects(p.views.Objects), Diff: shown{policy}.diff(s.syncer.Diff), Events: p.events,
		Logs: func(ctx context.Context, request *tunnelapi.LogsRequest, send func(*tunnelapi.LogLine) error) error {
			return tail.Logs(ctx, p.ring, request, send)
		},
		Changed: func(string) { s.syncer.Look() }, Sync: s.syncer.Hurry,
	}
	return p, nil
}

// clusterUID is what tells a cluster from another that was made in its place.
func (s *session) clusterUID(ctx context.Context) (string, error) {
	system, err := s.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("ask cluster who it is: %w", err)
	}
	return string(system.GetUID()), nil
}

// parts are what runs as long as the session.
func (p *people) parts() []func(context.Context) error {
	return []func(context.Context) error{
		p.views.Run, p.admit,
		func(ctx context.Context) error { return tunnel.Run(ctx, p.channel) },
		func(ctx context.Context) error { return apiproxy.Follow(ctx, p.session.client, p.session.log, p.allow) },
	}
}

// admit makes what answers people's requests, as soon as it can be made: that they cannot be answered yet keeps the agent from
// nothing else.
func (p *people) admit(ctx context.Context) error {
	if p.reach.Load() != nil {
		return nil
	}
	h, err := retry(ctx, p.session.log, func(context.Context) (*apiproxy.Handler, error) { return apiproxy.New(p.asking) })
	if err == nil {
		p.reach.Store(h)
	}
	return err
}

// answer is the handler of people's requests.
func (p *people) answer(w http.ResponseWriter, r *http.Request) {
	if h := p.reach.Load(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	http.Error(w, "the agent has no account yet to make people's requests with: see its log", http.StatusServiceUnavailable)
}

// allow puts the cluster's own policy in force, also for what is under way.
func (p *people) allow(now apiproxy.Policy) {
	p.policy.Store(&now)
	if h := p.reach.Load(); h != nil {
		h.Recheck()
	}
	p.session.log.Info("what people may ask of this cluster", slog.String("mode", now.Mode), slog.Int("rules", len(now.Rules)))
}

// tell leaves an event for the hub. It waits for nothing: an older one makes room.
func (p *people) tell(e sync.Event) {
	event := &tunnelapi.Event{
		Service: e.Service, Reason: e.Reason, Warning: e.Warning, Message: e.Message, Key: e.Key, UnixMs: e.Time.UnixMilli(),
	}
	for {
		select {
		case p.events <- event:
			return
		default:
		}
		select {
		case <-p.events:
		default:
		}
	}
}
