package audit

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	written, failures prometheus.Counter
	losses            *prometheus.CounterVec
	queued            prometheus.GaugeFunc
}

func newMetrics(l *Log) *metrics {
	return &metrics{
		written:  prometheus.NewCounter(prometheus.CounterOpts{Name: "plural_hub_audit_records_total", Help: "Records of the audit log."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "plural_hub_audit_failures_total", Help: "Writes that the disk did not take."}),
		losses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_audit_lost_total",
			Help: "Records that were not written, by what became of the act: happened, refused.",
		}, []string{"act"}),
		queued: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plural_hub_audit_queue", Help: "Records that wait to be written.",
		}, func() float64 { return float64(len(l.queue)) }),
	}
}

func (m *metrics) register(to prometheus.Registerer) {
	to.MustRegister(m.written, m.failures, m.losses, m.queued)
}

func (m *metrics) lost(must bool) {
	act := "happened"
	if must {
		act = "refused"
	}
	m.losses.WithLabelValues(act).Inc()
}
