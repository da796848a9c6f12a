package tunnel

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	attached, refused, routes, events *prometheus.CounterVec
	drains                            prometheus.Counter
	locate                            prometheus.Histogram
}

func newMetrics(to prometheus.Registerer) *metrics {
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plural_hub_tunnel_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		attached: counters("attached_total", "Connections that agents made, by what they got through with.", "transport"),
		refused:  counters("refused_total", "Connections that were refused, by what was wrong.", "reason"),
		routes:   counters("routes_total", "Routes to clusters, by where their connection was.", "where"),
		events:   counters("events_total", "Events that agents sent, by what became of them.", "outcome"),
		drains: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_tunnel_drains_total", Help: "Times that this replica asked all agents to connect elsewhere.",
		}),
		locate: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plural_hub_tunnel_locate_seconds", Help: "Time to find the replica that a cluster is connected to.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .25},
		}),
	}
	to.MustRegister(m.attached, m.refused, m.routes, m.events, m.drains, m.locate)
	return m
}
