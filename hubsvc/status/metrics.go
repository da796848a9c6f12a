package status

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// New makes a Status, and adds its figures to the registry.
func New(o Options) *Status {
	h, registry := &Status{o}, o.Registry
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("plural_hub_clusters", "Clusters in the commit being served.", func() float64 {
		return float64(len(h.Planner.Plan().Desired.Fleet.Clusters))
	})
	gauge("plural_hub_services", "Services in the commit being served.", func() float64 {
		return float64(len(h.Planner.Plan().Desired.Fleet.Services))
	})
	gauge("plural_hub_refused_errors", "Errors for which the newest commit is refused.", func() float64 {
		return float64(len(h.Planner.Plan().Desired.Refused))
	})
	gauge("plural_hub_planner_busy_seconds", "How long the planner has been at the turn under way; 0 without one.", func() float64 {
		busy, _ := h.Planner.Pace.Busy(time.Now())
		return busy.Seconds()
	})
	gauge("plural_hub_upstreams_owned", "Upstreams that this replica fetches.", func() float64 {
		owned := 0
		for _, id := range h.Mirrors.IDs() {
			if h.Replica.Owns(id) {
				owned++
			}
		}
		return float64(owned)
	})
	gauge("plural_hub_store_failed", "1 while reports, soak memory, leases or editions cannot be written to disk, else 0.", func() float64 {
		if h.storeError() != "" {
			return 1
		}
		return 0
	})
	gauge("plural_hub_reports_unwritten", "Clusters whose newest report this replica has in memory alone.", func() float64 {
		return float64(h.State.Unwritten())
	})
	gauge("plural_hub_operator_token_expiry_timestamp_seconds",
		"When the operator's token expires; 0 for one that does not say.", func() float64 {
			expires := h.People.TokenExpiry()
			if expires.IsZero() {
				return 0
			}
			return float64(expires.Unix())
		})
	for _, pair := range h.Certificates {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plural_hub_certificate_end_timestamp_seconds", Help: "When a certificate that this replica shows ends.",
			ConstLabels: prometheus.Labels{"certificate": pair.Name},
		}, func() float64 { ends, _ := pair.State(); return float64(ends.Unix()) }))
	}
	registry.MustRegister(newUpstreamMetrics(h))
	return h
}

// upstreamMetrics are the figures of each source, as this replica itself has seen them.
type upstreamMetrics struct {
	hub                                                 *Status
	fetches, failures, requests, received, age, failing *prometheus.Desc
}

func newUpstreamMetrics(h *Status) *upstreamMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("plural_hub_upstream_"+name, help, []string{"source"}, nil)
	}
	return &upstreamMetrics{
		hub:      h,
		fetches:  desc("fetches_total", "Times that the upstream was asked."),
		failures: desc("failures_total", "Times that the upstream did not bring what was asked for."),
		requests: desc("requests_total", "Requests to the upstream."),
		received: desc("received_bytes_total", "Bytes that the upstream answered."),
		age: desc("age_seconds",
			"How long ago the upstream last brought all that was asked for, whichever replica had asked; absent before it ever did."),
		failing: desc("failing_seconds", "How long the upstream has brought nothing, or not all; 0 when the last attempt did."),
	}
}

// Describe implements prometheus.Collector.
func (m *upstreamMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{m.fetches, m.failures, m.requests, m.received, m.age, m.failing} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *upstreamMetrics) Collect(to chan<- prometheus.Metric) {
	m.collect(to, ".", m.hub.Sources.Own().ID)
	for name, id := range m.hub.Planner.Plan().IDs {
		m.collect(to, name, id)
	}
}

func (m *upstreamMetrics) collect(to chan<- prometheus.Metric, source, id string) {
	agent, ok := m.hub.Mirrors.Get(id)
	if !ok {
		return
	}
	s := agent.OwnStatus()
	count := func(desc *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), source)
	}
	count(m.fetches, s.Attempts)
	count(m.failures, s.Failures)
	count(m.requests, s.Requests)
	count(m.received, s.Bytes)
	status, failing := agent.Status(), 0.0
	if !status.FailingSince.IsZero() {
		failing = time.Since(status.FailingSince).Seconds()
	}
	to <- prometheus.MustNewConstMetric(m.failing, prometheus.GaugeValue, failing, source)
	if !status.LastFetch.IsZero() {
		to <- prometheus.MustNewConstMetric(m.age, prometheus.GaugeValue, status.Age.Seconds(), source)
	}
}
