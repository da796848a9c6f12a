package hubsvc

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/acts"
	"github.com/pluralsh/plural/hubsvc/audit"
	"github.com/pluralsh/plural/hubsvc/kubeapi"
	"github.com/pluralsh/plural/hubsvc/live"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/presence"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// logLines is how much of its own log the hub shows to people.
const logLines = 5000

// reaching is how people reach clusters, and what happens in clusters reaches people.
type reaching struct {
	audit    *audit.Log
	audits   *audit.Replicas
	shipper  *audit.Shipper
	channels *tunnel.Hub
	kube     *kubeapi.Proxy
	live     *live.API
	notifier *notify.Notifier
	presence *presence.Presence
}

// reach makes the rooms between people and clusters.
func (h *hub) reach() (err error) {
	r := &h.reaching
	if r.audit, err = audit.Open(audit.Options{Dir: filepath.Join(h.Data, "audit"), Now: time.Now, Log: h.Log, Metrics: h.registry}); err != nil {
		return err
	}
	h.acts = acts.New(r.audit, h.people.Person, h.Log)
	r.audits, err = audit.NewReplicas(audit.ReplicasOptions{
		Own: r.audit, Self: h.replica.Name(), Members: h.replica.Addresses, Ask: h.replica.Audit, Log: h.Log,
	})
	if err != nil {
		return err
	}
	r.shipper = audit.NewShipper(audit.ShipperOptions{
		Own: r.audit, Self: h.replica.Name(), Sinks: h.auditSinks, Send: h.sendAudit, After: notify.After, Lost: h.events.Notices.AuditLost,
		Log: h.Log, Metrics: h.registry,
	})
	r.notifier = notify.New(notify.Options{
		Self:      h.replica.Name(),
		Workspace: func() string { return h.planner.Plan().Desired.Fleet.Workspace.Metadata.Name },
		Table:     func() *notify.Table { return h.planner.Plan().Sinks }, Now: time.Now, Log: h.Log, Metrics: h.registry,
		NoLoopback: !h.AllowLoopback,
	})
	r.presence = presence.New(presence.Options{
		Self: h.replica.Name(), Conn: h.replica.Conn(), Log: h.Log,
		Changed: func(cluster string) { h.view.Reported(cluster, false) },
	})
	r.channels = tunnel.New(tunnel.Options{
		Self: h.replica.Name(), Cluster: h.agentOf, URL: h.planner.AgentURL, Key: h.planner.Key, Conn: h.replica.Conn(),
		Address: h.replica.Address(), Peer: h.replica.Peer, PeerTLS: h.replica.TLS(),
		Replicas: h.replica.Count, Event: h.events.Heard, Found: h.events.Happened, Held: r.presence.Set, Now: time.Now, Log: h.Log, Metrics: h.registry,
	})
	sees := func(p principal.Person, cluster string) bool { return h.planner.Access().Sees(p, cluster) }
	r.kube = kubeapi.New(kubeapi.Options{
		Person: h.people.KubePerson, Again: h.people.Current, Sees: sees,
		Allow: func(p principal.Person, cluster string, q kubeaccess.Request) error {
			return h.planner.Access().Kubernetes(p, cluster, q)
		},
		Reach: func(ctx context.Context, cluster string) (kubeapi.Backend, error) {
			route, err := r.channels.Reach(ctx, cluster)
			if err != nil {
				return nil, h.unreached(cluster, err)
			}
			return backend{route}, nil
		},
		Audit: func(ctx context.Context, record kubeapi.Record) error {
			return r.audit.Write(ctx, audit.Record(record))
		},
		Pace: h.acts.Allow,
		Now:  time.Now, Log: h.Log, Metrics: h.registry,
	})
	r.live = live.New(live.Options{
		Person: h.people.Person, Allow: func(p principal.Person, verb string) error { return h.planner.Access().Fleet(p, verb) }, Sees: sees,
		Runs: func(cluster, service string) bool {
			_, ok := h.view.Deployment(cluster, service)
			return ok
		},
		Reach: func(ctx context.Context, cluster string) (live.Agent, error) {
			route, err := r.channels.Reach(ctx, cluster)
			if err != nil {
				return nil, h.unreached(cluster, err)
			}
			return route, nil
		},
		Do: r.kube.Do, HubLog: h.ring, Log: h.Log, Now: time.Now,
	})
	return nil
}

// errElsewhere is what people are told when a cluster's agent is connected, and not reached for all that.
var errElsewhere = errors.New("the replica of the hub that holds its connection does not answer")

// unreached is what people are told of a cluster that cannot be reached. All of it is for the log: it speaks of replicas and their
// addresses.
func (h *hub) unreached(cluster string, err error) error {
	if slices.Contains([]error{tunnel.ErrAbsent, context.Canceled, context.DeadlineExceeded}, err) {
		return err // and nothing more
	}
	h.Log.Warn("cluster cannot be reached", "cluster", cluster, "error", err)
	if errors.Is(err, tunnel.ErrAbsent) {
		return tunnel.ErrAbsent
	}
	return errElsewhere
}

// backend is a route to a cluster as the front of its API uses it.
type backend struct{ *tunnel.Route }

// Open begins one exchange.
func (b backend) Open(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) {
	return b.Proxy(ctx)
}

// Name is the connection's.
func (b backend) Name() string { return b.Connection }

// auditSinks are the names of those that get the audit log. As a side of it, the other replicas are noticed: what they wrote is to be
// missed when they are gone.
func (h *hub) auditSinks() []string {
	h.reaching.audits.Notice()
	var names []string
	for name, sink := range h.planner.Plan().Sinks.Sinks {
		if sink.Audit {
			names = append(names, name)
		}
	}
	return names
}

// sendAudit gives lines of the audit log to a sink.
func (h *hub) sendAudit(ctx context.Context, sink string, shipped []audit.Shipped) error {
	lines := make([]notify.Line, len(shipped))
	for i, one := range shipped {
		lines[i] = notify.Line{Time: one.Time, Denied: one.Denied, JSON: one.Entry, ID: one.Hash}
	}
	return h.reaching.notifier.Deliver(ctx, sink, lines)
}

// runReaching runs what reaches people and clusters. The audit goes on until closed ends: the last requests are written down too.
func (h *hub) runReaching(ctx, closed context.Context, group *errgroup.Group) {
	r := &h.reaching
	group.Go(func() error { return r.audit.Run(closed) })
	group.Go(func() error { return r.channels.Run(closed) })
	group.Go(func() error { return r.presence.Run(closed) })
	for _, run := range []func(context.Context) error{r.live.Run, r.notifier.Run, r.shipper.Run} {
		group.Go(func() error {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
}

// defaultGrace is how long connections of people into clusters may go on after the hub was asked to stop.
const defaultGrace = 30 * time.Second

// part lets people's requests come to their end, and has agents connect to other replicas.
func (h *hub) part(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(h.DrainGrace, defaultGrace))
	defer cancel()
	var parting sync.WaitGroup
	parting.Go(func() { h.reaching.kube.Drain(ctx) })
	parting.Go(func() { h.reaching.channels.Drain(ctx) })
	parting.Wait()
}

// planChanged is called when another plan is in force: what it takes away from people and clusters ends, and those who have
// something new to run are told.
func (h *hub) planChanged(before, now *planner.Plan) {
	h.view.Planned()
	h.upgrader.Look()
	if err := h.history.Judged(now.Desired.Head.ID, now.Desired.Served.ID, now.Desired.Refused); err != nil {
		h.Log.Warn("which commits were refused is not kept for after a restart", "error", err)
	}
	if before.Desired.Served.ID != now.Desired.Served.ID {
		h.reaching.channels.Recheck()
		h.reaching.kube.Recheck()
	}
	if changed := now.Changed(before); len(changed) > 0 {
		h.reaching.channels.Changed(now.Revision, changed)
	}
}

// front serves people's requests to clusters before anything looks at their paths, and all else by mux.
func (h *hub) front(mux http.Handler) http.Handler {
	kube, rest := h.reaching.kube, signin.Guard(h.acts.HTTP(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kube.Match(r) {
			kube.ServeHTTP(w, r)
			return
		}
		if id := h.planner.Plan().Desired.Fleet.Workspace.Repository(); id != "" && strings.HasPrefix(r.URL.Path, "/v1/") {
			w.Header().Set(v1.RepositoryHeader, id)
		}
		rest.ServeHTTP(w, r)
	})
}
