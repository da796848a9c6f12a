// Package status owns the hub's own status and metrics.
//
// All figures are read where they are kept, when somebody asks.
package status

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/planner"
	"github.com/pluralsh/plural/hubsvc/replica"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/state"
	"github.com/pluralsh/plural/hubsvc/tunnel"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// Options are what a Status reads. All must be set but certificates.
type Options struct {
	Planner  *planner.Planner
	Sources  *sources.Set
	Mirrors  *gitpoller.Set
	Replica  *replica.Replica
	View     *view.View
	People   *auth.People
	State    *state.Store
	NATS     *natsd.Server
	Channels *tunnel.Hub
	// Leaving is closed when this replica is about to end.
	Leaving <-chan struct{}
	// Certificates are those that this replica shows.
	Certificates []*certs.Pair
	Registry     *prometheus.Registry
	Log          *slog.Logger
}

// Status reads them.
type Status struct{ Options }

// List lists the installation repo as ".", then the fleet's sources by name.
func (h *Status) List() []v1.Source {
	plan := h.Planner.Plan()
	own := h.source(".", "git", h.Sources.Own().ID, h.Planner.Branch)
	own.Commit = plan.Desired.Served.ID // while the newest is refused, it is another
	list := []v1.Source{own}
	for i := range plan.Desired.Fleet.Sources {
		s := &plan.Desired.Fleet.Sources[i]
		ref, ok := s.Standing()
		if !ok {
			ref = ""
		}
		list = append(list, h.source(s.Metadata.Name, s.Kind(), plan.IDs[s.Metadata.Name], ref))
	}
	return list
}

func (h *Status) source(name, kind, id, ref string) v1.Source {
	status := h.Mirrors.Status(id)
	out := v1.Source{
		Name: name, Kind: kind, URL: status.Name, Ref: ref, Commit: status.Tips[ref].Commit, Age: status.Age.Seconds(),
		Fetches: status.Attempts, Failures: status.Failures, Requests: status.Requests, ReceivedBytes: status.Bytes,
		Error: status.LastError, LastFetch: moment(status.LastFetch), FailingSince: moment(status.FailingSince), InARow: status.InARow,
		Owner: h.Replica.Owner(id),
	}
	if out.InARow > 0 {
		out.NextAttempt = moment(status.NextAttempt)
	}
	for ref, tip := range status.Tips {
		out.Refs = append(out.Refs, v1.SourceRef{Ref: ref, Commit: tip.Commit, Revision: tip.Revision, Rewound: tip.Rewound})
	}
	slices.SortFunc(out.Refs, func(a, b v1.SourceRef) int { return cmp.Compare(a.Ref, b.Ref) })
	return out
}

// moment is nil for a time that never was.
func moment(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

// Hub is the hub itself.
func (h *Status) Hub() *v1.Hub {
	plan := h.Planner.Plan()
	fleet := &plan.Desired.Fleet
	out := &v1.Hub{
		Version: buildinfo.Version(), Edition: plan.Revision, Commit: plan.Desired.Served,
		Clusters: len(fleet.Clusters), Silent: h.View.Summary().Clusters[v1.Stale], Services: len(fleet.Services), Sources: len(fleet.Sources),
		Bundles: h.bundleFigures(), Certificates: h.shownCertificates(), TokenWarning: h.People.TokenWarning(),
		StoreError: h.storeError(),
	}
	if h.Replica.Alone() {
		return out
	}
	out.Replica = h.Replica.Name()
	owned := map[string]int{}
	for _, id := range h.Mirrors.IDs() {
		if owner := h.Replica.Owner(id); owner != "" {
			owned[owner]++
		}
	}
	for _, m := range h.Replica.Members() {
		out.Replicas = append(out.Replicas, v1.Replica{
			Name: m.ID, Version: m.Version, Live: m.Live, Draining: m.Draining, LeaseAge: m.Age.Seconds(), Owns: owned[m.ID],
		})
	}
	return out
}

// storeError says why this replica's disk does not take what is to last over a restart; empty while it does.
func (h *Status) storeError() string {
	var said []string
	if fault := h.NATS.Fault(); fault != nil {
		said = append(said, fault.Error())
	}
	if err := h.Planner.Unkept(); err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, "; ")
}

// shownCertificates are those that this replica shows.
func (h *Status) shownCertificates() []v1.Certificate {
	var out []v1.Certificate
	for _, pair := range h.Certificates {
		ends, fault := pair.State()
		shown := v1.Certificate{Name: pair.Name, Ends: ends.UTC()}
		if fault != nil {
			shown.Error = fault.Error()
		}
		out = append(out, shown)
	}
	return out
}

// bundleFigures are those of /metrics, in fewer words.
func (h *Status) bundleFigures() v1.Bundles {
	families, err := h.Registry.Gather()
	if err != nil {
		h.Log.Warn("figures cannot be gathered", "error", err)
	}
	var out v1.Bundles
	for _, family := range families {
		for _, m := range family.GetMetric() {
			n := int64(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			switch labels := labelsOf(m); family.GetName() {
			case "plural_hub_bundle_files":
				out.Files = n
			case "plural_hub_bundle_bytes":
				out.Bytes += n
			case "plural_hub_bundle_evictions_total":
				out.Evicted = n
			case "plural_hub_bundle_opens_total":
				addOpens(&out, labels["level"], labels["outcome"], n)
			}
		}
	}
	return out
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func addOpens(out *v1.Bundles, level, outcome string, n int64) {
	switch {
	case outcome == "damaged":
		out.Corrupt += n
	case outcome == "hit" && level == "peer":
		out.FromPeers += n
	case outcome == "hit" && level == "pack":
		out.Packed += n
	case outcome == "hit":
		out.Hits += n
	case outcome == "error" && level == "pack":
		out.Failed += n
	}
}

// Connections are those of a cluster's agents to this replica.
func (h *Status) Connections(_ context.Context, cluster string) ([]v1.Connection, error) {
	var out []v1.Connection
	for _, c := range h.Channels.Connections() {
		if c.Cluster != cluster {
			continue
		}
		out = append(out, v1.Connection{
			Cluster: c.Cluster, Name: c.ID, Replica: c.Hub, Host: c.Host, Boot: c.Boot, Since: c.Since.UTC(), AgentVersion: c.AgentVersion,
			KubernetesVersion: c.KubernetesVersion, Streams: c.Streams,
		})
	}
	return out, nil
}

// Ready is yes once there is a fleet to serve: from then on nothing upstream can take it away, only the replica's own end. Nor
// can a planner that is stuck: the last good state goes on being served, and no other replica would have a newer one. How the
// planner does is told in words, and to programs by a header.
func (h *Status) Ready(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	w.Header().Set(v1.PlannerHeader, h.Planner.Pace.State(now))
	select {
	case <-h.Leaving:
		http.Error(w, "this replica is about to end", http.StatusServiceUnavailable)
		return
	default:
	}
	if h.Planner.Plan().Desired.Served.ID == "" {
		http.Error(w, "no good commit of the installation repo yet: "+h.Planner.Pace.Say(now), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintf(w, "ready: %s\n", h.Planner.Pace.Say(now)) // who does not hear it has gone
}
