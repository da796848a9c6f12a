package shard

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	renewed, failed, fenced, changes prometheus.Counter
}

func newMetrics(to prometheus.Registerer, s *Shard) *metrics {
	renewals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_lease_renewals_total", Help: "Attempts to renew this replica's lease, by what came of them.",
	}, []string{"outcome"})
	m := &metrics{
		renewed: renewals.WithLabelValues("renewed"), failed: renewals.WithLabelValues("failed"),
		fenced: renewals.WithLabelValues("fenced"),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_ownership_changes_total",
			Help: "How often the replicas that may own repositories changed, as seen here.",
		}),
	}
	to.MustRegister(renewals, m.changes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plural_hub_members", Help: "Replicas with a live lease, as seen here; 0 when the leases are out of sight.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.sighted() {
			return 0
		}
		return float64(s.view.count())
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plural_hub_lease_age_seconds",
		Help: "Time since this replica's lease was renewed, or since its start while it has none.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.own.renewed.IsZero() {
			return time.Since(s.opened).Seconds()
		}
		return time.Since(s.own.renewed).Seconds()
	}))
	return m
}

// leaseState is how a lease fares.
type leaseState struct {
	held, fenced bool
	epoch        uint64
}

// leaseLogger logs how the own lease fares, once a change.
type leaseLogger struct {
	log   *slog.Logger
	last  leaseState
	waits bool
}

func (s *leaseLogger) say(now leaseState, err error) {
	last := s.last
	waits := !now.held && !now.fenced && err != nil
	switch {
	case now.fenced && !last.fenced:
		s.log.Error("another process runs under this replica's name; this one owns nothing until that has gone", "error", err)
	case now.held && (!last.held || now.epoch != last.epoch):
		s.log.Info("lease taken", "epoch", now.epoch)
	case waits && last.held:
		s.log.Warn("lease lost; this replica owns nothing until it can renew it", "error", err)
	case waits && !s.waits:
		s.log.Warn("no lease yet; this replica owns nothing until a majority of the servers can be reached", "error", err)
	}
	s.last, s.waits = now, waits
}
