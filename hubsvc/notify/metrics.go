package notify

import "github.com/prometheus/client_golang/prometheus"

// counters are what became of messages.
type counters struct{ sent, failed, dropped, kept prometheus.Counter }

func newCounters(registry prometheus.Registerer) counters {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_notifications_total",
		Help: "Messages to sinks by what became of them: sent, failed, dropped, or kept back because the same was told.",
	}, []string{"outcome"})
	registry.MustRegister(total)
	return counters{
		sent: total.WithLabelValues("sent"), failed: total.WithLabelValues("failed"), dropped: total.WithLabelValues("dropped"),
		kept: total.WithLabelValues("kept"),
	}
}
