package kubeapi

import (
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/api/tunnelapi"
)

type metrics struct {
	requests  *prometheus.CounterVec
	rejects   *prometheus.CounterVec
	ends      *prometheus.CounterVec
	bytes     *prometheus.CounterVec
	streams   *prometheus.GaugeVec
	head      *prometheus.HistogramVec
	retries   prometheus.Counter
	unaudited prometheus.Counter
}

func newMetrics() *metrics {
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_kube_requests_total", Help: "Requests of people to clusters, by class and status: 2xx, 4xx.",
		}, []string{"class", "status"}),
		rejects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_kube_rejects_total", Help: "Requests for which there was no place, by the bound that was reached.",
		}, []string{"bound"}),
		ends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_kube_cut_total", Help: "Requests that did not end by themselves, by cause: access, drain, client, cluster.",
		}, []string{"cause"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_kube_bytes_total", Help: "Bytes of bodies and connections, by direction: in is towards clusters.",
		}, []string{"direction"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plural_hub_kube_streams", Help: "Requests under way, by class.",
		}, []string{"class"}),
		head: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plural_hub_kube_head_seconds", Help: "How long the beginning of an answer took, by class.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9), // 0.5 ms to 33 s
		}, []string{"class"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_kube_retries_total", Help: "Requests that were tried on another connection.",
		}),
		unaudited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_kube_unaudited_total", Help: "Ends of requests that the audit log did not take.",
		}),
	}
}

func (m *metrics) register(to prometheus.Registerer) {
	to.MustRegister(m.requests, m.rejects, m.ends, m.bytes, m.streams, m.head, m.retries, m.unaudited)
}

func classLabel(c tunnelapi.Class) string {
	switch c {
	case tunnelapi.Class_UNARY:
		return "unary"
	case tunnelapi.Class_WATCH:
		return "watch"
	case tunnelapi.Class_UPGRADE:
		return "upgrade"
	}
	return strings.ToLower(c.String())
}

// began counts a request that has its place.
func (m *metrics) began(c tunnelapi.Class) { m.streams.WithLabelValues(classLabel(c)).Inc() }

func (m *metrics) headed(c tunnelapi.Class, took time.Duration) {
	m.head.WithLabelValues(classLabel(c)).Observe(took.Seconds())
}

// ended counts a request that had its place.
func (m *metrics) ended(c tunnelapi.Class, r *Record) {
	m.streams.WithLabelValues(classLabel(c)).Dec()
	m.bytes.WithLabelValues("in").Add(float64(r.BytesIn))
	m.bytes.WithLabelValues("out").Add(float64(r.BytesOut))
}

// answered counts an answer; a status of 0 is a request that had none.
func (m *metrics) answered(c tunnelapi.Class, status int) {
	label := "none"
	if status > 0 {
		label = strconv.Itoa(status/100) + "xx"
	}
	m.requests.WithLabelValues(classLabel(c), label).Inc()
}
