package hubsvc

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/hubsvc/gitagent"
)

// registerMetrics adds the figures that are read where they are kept.
func registerMetrics(registry prometheus.Registerer, h *hub) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("plural_hub_clusters", "Clusters in the commit being served.", func() float64 {
		return float64(len(h.planner.plan().desired.Fleet.Clusters))
	})
	gauge("plural_hub_services", "Services in the commit being served.", func() float64 {
		return float64(len(h.planner.plan().desired.Fleet.Services))
	})
	gauge("plural_hub_refused_errors", "Errors for which the newest commit is refused.", func() float64 {
		return float64(len(h.planner.plan().desired.Refused))
	})
	gauge("plural_hub_upstreams_owned", "Upstreams that this replica fetches.", func() float64 {
		owned := 0
		for _, id := range h.repos.IDs() {
			if h.replica.role(id) == gitagent.Own {
				owned++
			}
		}
		return float64(owned)
	})
	registry.MustRegister(&upstreamMetrics{h})
}

// upstreamMetrics are the figures of each source, as this replica itself has seen them.
type upstreamMetrics struct{ hub *hub }

func upstreamDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("plural_hub_upstream_"+name, help, []string{"source"}, nil)
}

var (
	upstreamFetches  = upstreamDesc("fetches_total", "Times that the upstream was asked.")
	upstreamFailures = upstreamDesc("failures_total", "Times that the upstream did not bring what was asked for.")
	upstreamRequests = upstreamDesc("requests_total", "Requests to the upstream.")
	upstreamBytes    = upstreamDesc("received_bytes_total", "Bytes that the upstream answered.")
	upstreamAge      = upstreamDesc("age_seconds", "How long ago the upstream last answered, whichever replica had asked.")
)

// Describe implements prometheus.Collector.
func (m *upstreamMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{upstreamFetches, upstreamFailures, upstreamRequests, upstreamBytes, upstreamAge} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *upstreamMetrics) Collect(to chan<- prometheus.Metric) {
	m.collect(to, ".", m.hub.planner.upstreams.own.ID)
	for name, id := range m.hub.planner.plan().ids {
		m.collect(to, name, id)
	}
}

func (m *upstreamMetrics) collect(to chan<- prometheus.Metric, source, id string) {
	agent, ok := m.hub.repos.Get(id)
	if !ok {
		return
	}
	s := agent.OwnStatus()
	count := func(desc *prometheus.Desc, value int64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), source)
	}
	count(upstreamFetches, s.Attempts)
	count(upstreamFailures, s.Failures)
	count(upstreamRequests, s.Requests)
	count(upstreamBytes, s.Bytes)
	if !s.LastFetch.IsZero() {
		to <- prometheus.MustNewConstMetric(upstreamAge, prometheus.GaugeValue, agent.Status().Age.Seconds(), source)
	}
}
