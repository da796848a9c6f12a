package cache

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// level is where a bundle came from.
type level string

const (
	levelDisk   level = "disk"
	levelMemory level = "memory"
	levelPeer   level = "peer"
	levelPack   level = "pack"
)

// metrics are the cache's figures by level.
type metrics struct {
	opens, bytes *prometheus.CounterVec
	// found once, not with every bundle
	diskMisses            prometheus.Counter
	hits, given           map[level]prometheus.Counter
	evictions, diskErrors prometheus.Counter
	packSeconds           prometheus.Histogram
	queue                 *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		opens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_bundle_opens_total",
			Help: "Bundles looked for at a level, by outcome: hit, miss, damaged, error.",
		}, []string{"level", "outcome"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plural_hub_bundle_opened_bytes_total", Help: "Bytes of the bundles that a level gave.",
		}, []string{"level"}),
		evictions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_bundle_evictions_total", Help: "Bundles that had to make room on disk.",
		}),
		diskErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_bundle_disk_errors_total", Help: "Bundles that the disk did not take.",
		}),
		packSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plural_hub_bundle_pack_seconds", Help: "How long packing one bundle took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9), // 1 ms to 65 s
		}),
		queue: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plural_hub_bundle_queue",
			Help: "Bundles being brought from a level now, by state: waiting, running.",
		}, []string{"level", "state"}),
	}
	m.diskMisses = m.opens.WithLabelValues(string(levelDisk), "miss")
	m.hits, m.given = map[level]prometheus.Counter{}, map[level]prometheus.Counter{}
	for _, at := range []level{levelDisk, levelMemory, levelPeer, levelPack} {
		m.hits[at], m.given[at] = m.opens.WithLabelValues(string(at), "hit"), m.bytes.WithLabelValues(string(at))
	}
	return m
}

// register adds the figures, and those that are read where they are kept.
func (m *metrics) register(to prometheus.Registerer, c *Cache) {
	to.MustRegister(m.opens, m.bytes, m.evictions, m.diskErrors, m.packSeconds, m.queue)
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		opts := prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}
		to.MustRegister(prometheus.NewGaugeFunc(opts, value))
	}
	const bytesHelp = "Bytes that a level's bundles take."
	gauge("plural_hub_bundle_bytes", bytesHelp, prometheus.Labels{"level": string(levelDisk)}, func() float64 {
		_, bytes, _ := c.disk.figures()
		return float64(bytes)
	})
	gauge("plural_hub_bundle_bytes", bytesHelp, prometheus.Labels{"level": string(levelMemory)}, func() float64 {
		return float64(c.memory.size() + c.disk.hot.size())
	})
	gauge("plural_hub_bundle_files", "Bundles on disk.", nil, func() float64 {
		files, _, _ := c.disk.figures()
		return float64(files)
	})
	const unusedHelp = "How long nobody has asked for the bundle that is evicted next."
	gauge("plural_hub_bundle_unused_seconds", unusedHelp, nil, func() float64 {
		_, _, oldest := c.disk.figures()
		if oldest.IsZero() {
			return 0
		}
		return time.Since(oldest).Seconds()
	})
}

// served counts a bundle that was opened. What a peer or a packer gave was counted when it came, once for all who
// waited.
func (m *metrics) served(at level, size int64) {
	if at != levelDisk {
		m.diskMisses.Inc()
	}
	if at == levelDisk || at == levelMemory {
		m.hit(at, size)
	}
}

func (m *metrics) hit(at level, size int64) {
	m.hits[at].Inc()
	m.given[at].Add(float64(size))
}

func (m *metrics) miss(at level) { m.opens.WithLabelValues(string(at), "miss").Inc() }
func (m *metrics) fail(at level) { m.opens.WithLabelValues(string(at), "error").Inc() }

// slots bound how much of one kind happens at a time.
type slots struct {
	free             chan struct{}
	waiting, running prometheus.Gauge // nil when nobody counts
}

func newSlots(n int, queue *prometheus.GaugeVec, at level) *slots {
	s := &slots{free: make(chan struct{}, n)}
	if queue != nil {
		s.waiting = queue.WithLabelValues(string(at), "waiting")
		s.running = queue.WithLabelValues(string(at), "running")
	}
	return s
}

// take waits for a slot, and says whether it got one before ctx ended.
func (s *slots) take(ctx context.Context) bool {
	if s.waiting != nil {
		s.waiting.Inc()
		defer s.waiting.Dec()
	}
	select {
	case <-ctx.Done():
		return false
	case s.free <- struct{}{}:
	}
	if s.running != nil {
		s.running.Inc()
	}
	return true
}

func (s *slots) give() {
	if s.running != nil {
		s.running.Dec()
	}
	<-s.free
}
