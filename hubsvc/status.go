package hubsvc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/internal/buildinfo"
)

// sources lists the installation repo as ".", then the fleet's sources by name.
func (h *hub) sources() []v1.Source {
	plan := h.planner.plan()
	own := h.source(".", "git", h.planner.upstreams.own.ID, h.Branch)
	own.Commit = plan.desired.Served.ID // while the newest is refused, it is another
	list := []v1.Source{own}
	for i := range plan.desired.Fleet.Sources {
		s := &plan.desired.Fleet.Sources[i]
		ref, ok := s.Standing()
		if !ok {
			ref = ""
		}
		list = append(list, h.source(s.Metadata.Name, s.Kind(), plan.ids[s.Metadata.Name], ref))
	}
	return list
}

func (h *hub) source(name, kind, id, ref string) v1.Source {
	status := h.repos.Status(id)
	out := v1.Source{
		Name: name, Kind: kind, URL: status.Name, Ref: ref, Commit: status.Tips[ref].Commit, Age: status.Age.Seconds(),
		Fetches: status.Attempts, Failures: status.Failures, Requests: status.Requests, ReceivedBytes: status.Bytes,
		Error: status.LastError, LastFetch: moment(status.LastFetch), FailingSince: moment(status.FailingSince), InARow: status.InARow,
	}
	if out.InARow > 0 {
		out.NextAttempt = moment(status.NextAttempt)
	}
	for ref, tip := range status.Tips {
		out.Refs = append(out.Refs, v1.SourceRef{Ref: ref, Commit: tip.Commit, Revision: tip.Revision, Rewound: tip.Rewound})
	}
	slices.SortFunc(out.Refs, func(a, b v1.SourceRef) int { return cmp.Compare(a.Ref, b.Ref) })
	if h.replica.shard != nil {
		owner, _ := h.replica.shard.Owner(id)
		out.Owner = owner.ID
	}
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

// status is the hub itself.
func (h *hub) status() *v1.Hub {
	plan := h.planner.plan()
	fleet := &plan.desired.Fleet
	out := &v1.Hub{
		Version: buildinfo.Version(), Edition: plan.edition, Commit: plan.desired.Served,
		Clusters: len(fleet.Clusters), Silent: h.view.Summary().Clusters[v1.Stale], Services: len(fleet.Services), Sources: len(fleet.Sources),
		Bundles: h.bundleFigures(), Certificates: h.shownCertificates(), TokenWarning: h.people.TokenWarning(),
		StoreError: h.storeError(),
	}
	if h.replica.shard == nil {
		return out
	}
	out.Replica = h.Cluster.Name
	owned := map[string]int{}
	for _, id := range h.repos.IDs() {
		if owner, ok := h.replica.shard.Owner(id); ok {
			owned[owner.ID]++
		}
	}
	for _, m := range h.replica.shard.Members() {
		out.Replicas = append(out.Replicas, v1.Replica{
			Name: m.ID, Version: m.Version, Live: m.Live, Draining: m.Draining, LeaseAge: m.Age.Seconds(), Owns: owned[m.ID],
		})
	}
	return out
}

// storeError says why this replica's disk does not take what is to last over a restart; empty while it does.
func (h *hub) storeError() string {
	var said []string
	if fault := h.nats.Fault(); fault != nil {
		said = append(said, fault.Error())
	}
	if forgetful := h.planner.forgetful.Load(); forgetful != nil && *forgetful != nil {
		said = append(said, (*forgetful).Error())
	}
	return strings.Join(said, "; ")
}

// shownCertificates are those that this replica shows.
func (h *hub) shownCertificates() []v1.Certificate {
	var out []v1.Certificate
	for _, pair := range []*certs.Pair{h.certs, h.peerCerts} {
		if pair == nil {
			continue
		}
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
func (h *hub) bundleFigures() v1.Bundles {
	families, err := h.registry.Gather()
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
