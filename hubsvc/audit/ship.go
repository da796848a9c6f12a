package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of what goes to a sink at a time, and how it is tried again.
const (
	maxBatch      = 256 << 10
	maxBatchLines = 500
	firstWait     = time.Second
	lastWait      = time.Minute
	// shipEvery is how often a shipper looks for new lines, and for new sinks.
	shipEvery = time.Second
)

// cursorFolder is where a log's folder keeps how far each sink is.
const cursorFolder = "sinks"

// Shipped is a line for a sink.
type Shipped struct {
	Time time.Time
	// Denied says that something was not allowed.
	Denied bool
	// Entry is the JSON of the [Entry].
	Entry []byte
	// Hash is that of the line, by which receivers drop what comes twice.
	Hash string
}

// ShipperOptions are what it takes to ship a log.
type ShipperOptions struct {
	Own *Log
	// Self names this replica.
	Self string
	// Sinks are the names of those that want the record now.
	Sinks func() []string
	// Send returns nil once a sink has all of it. The same lines may be sent again.
	Send func(ctx context.Context, sink string, lines []Shipped) error
	// After is how long the sink that gave an error wants to be left alone.
	After func(error) time.Duration
	// Lost is told how many lines were deleted that a sink had not got; zero: nobody counted them.
	Lost func(sink string, lines int)
	// Every is how often it is looked for new lines; zero means each second.
	Every   time.Duration
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Shipper brings all lines of one replica to sinks, in order, at least once: where each sink is stands on disk, and moves only when the
// sink has what was sent. A sink that does not take anything holds up nobody, until the oldest files are deleted.
type Shipper struct {
	ShipperOptions
	metrics *shipMetrics

	mu sync.Mutex // guards at
	at map[string]Position
}

// NewShipper returns a shipper of a log that does not run yet.
func NewShipper(o ShipperOptions) *Shipper {
	if o.Every == 0 {
		o.Every = shipEvery
	}
	s := &Shipper{ShipperOptions: o, metrics: newShipMetrics(o.Metrics), at: map[string]Position{}}
	o.Own.file.dropping = s.dropping
	return s
}

// Run ships until ctx ends.
func (s *Shipper) Run(ctx context.Context) error {
	running := map[string]func(){} // what stops them
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	for {
		wanted := map[string]bool{}
		for _, name := range s.Sinks() {
			if wanted[name] = true; running[name] == nil {
				running[name] = s.start(ctx, name)
			}
		}
		for name, stop := range running {
			if !wanted[name] {
				stop()
				delete(running, name)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// start ships to a sink until it is stopped.
func (s *Shipper) start(ctx context.Context, sink string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var shipping sync.WaitGroup
	shipping.Go(func() { s.ship(ctx, sink) })
	return func() {
		cancel()
		shipping.Wait()
	}
}

// ship brings one batch after the other to a sink.
func (s *Shipper) ship(ctx context.Context, sink string) {
	at := s.resume(sink)
	s.set(sink, at)
	defer s.forget(sink)
	for ctx.Err() == nil {
		lines, to, err := s.batch(sink, at)
		if err != nil {
			s.Log.Error("audit log cannot be read for a sink", "sink", sink, "error", err)
		}
		if len(lines) == 0 {
			if !pause(ctx, s.Every) {
				return
			}
			continue
		}
		if !s.deliver(ctx, sink, lines) {
			return
		}
		at = to
		s.set(sink, at)
		s.save(sink, at)
	}
}

// pause waits, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// batch is what a sink gets next, with where it is then.
func (s *Shipper) batch(sink string, from Position) ([]Shipped, Position, error) {
	all, err := openSegments(s.Own.Dir)
	if err != nil {
		return nil, from, err
	}
	defer all.Close()
	s.metrics.lag.WithLabelValues(sink).Set(float64(all.behind(from)))
	p, err := all.read(from, maxBatch)
	if errors.Is(err, errGone) { // what was lost was counted when it was deleted
		p, err = all.read(Position{}, maxBatch)
	}
	if err != nil || len(p.text) == 0 {
		s.metrics.age.WithLabelValues(sink).Set(0)
		return nil, from, err
	}
	var batch []Shipped
	to := p.from
	for _, line := range p.lines()[:min(p.to.Line-p.from.Line, maxBatchLines)] {
		var read struct {
			chained
			Decision string `json:"decision"`
		}
		_ = json.Unmarshal(line, &read) // a line that was cut off has no time
		entry := Entry{s.Self, line}
		one := Shipped{Time: read.written(), Denied: read.Decision != Allowed, Entry: entry.MarshalEntry(), Hash: Hash(line)}
		batch = append(batch, one)
		to.Offset, to.Line, to.Hash = to.Offset+int64(len(line))+1, to.Line+1, one.Hash
	}
	return batch, to, nil
}

// deliver tries until the sink has the lines; false when ctx ends before.
func (s *Shipper) deliver(ctx context.Context, sink string, lines []Shipped) bool {
	failing := false
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		s.metrics.age.WithLabelValues(sink).Set(max(0, time.Since(lines[0].Time).Seconds()))
		err := s.Send(ctx, sink, lines)
		if err == nil {
			s.metrics.sent.WithLabelValues(sink).Add(float64(len(lines)))
			if failing {
				s.Log.Info("sink takes audit records again", "sink", sink)
			}
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		s.metrics.failures.WithLabelValues(sink).Inc()
		if !failing {
			s.Log.Warn("sink does not take audit records: they wait for it", "sink", sink, "error", err)
			failing = true
		}
		wait = max(wait, min(s.After(err), lastWait))
		if !pause(ctx, wait/2+rand.N(wait)) {
			return false
		}
	}
}

func (s *Shipper) set(sink string, at Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[sink] = at
}

// forget has nothing counted as lost for a sink that wants nothing any more. Where it is stays on disk, for when it comes back.
func (s *Shipper) forget(sink string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.at, sink)
	s.metrics.forget(sink)
}

// resume is where a sink is. One that is new begins with the oldest line; one whose last line is not there any more, as after a crash
// of the machine, with the beginning of the file.
func (s *Shipper) resume(sink string) Position {
	var at Position
	text, err := os.ReadFile(filepath.Join(s.Own.Dir, cursorFolder, cursorName(sink)))
	if err == nil {
		err = json.Unmarshal(text, &at)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return Position{}
	}
	var all segments
	if err == nil {
		all, err = openSegments(s.Own.Dir)
	}
	if err != nil {
		s.Log.Error("where a sink is cannot be read: it gets all records again", "sink", sink, "error", err)
		return Position{}
	}
	defer all.Close()
	if all.find(at.File) < 0 {
		s.Log.Error("audit records were deleted that a sink had not got", "sink", sink)
		s.Lost(sink, 0)
		return Position{}
	}
	if ok, err := all.holds(at); err != nil || !ok {
		s.Log.Error("the audit log is not the one that a sink got: its file is sent again", "sink", sink, "line", at.Line, "error", err)
		return Position{File: at.File}
	}
	return at
}

// cursorName is the file that says where a sink is. Names of sinks are those of DNS labels.
func cursorName(sink string) string { return sink + ".json" }

func (s *Shipper) save(sink string, at Position) {
	text, err := json.Marshal(at)
	if err == nil {
		err = saveFile(s.Own.Dir, filepath.Join(cursorFolder, cursorName(sink)), text)
	}
	if err != nil {
		s.Log.Error("where a sink is cannot be kept: after a restart it gets records again", "sink", sink, "error", err)
	}
}

// dropping counts what sinks have not got of the oldest files, which are about to be deleted.
func (s *Shipper) dropping(oldest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.at) == 0 {
		return
	}
	all, err := openSegments(s.Own.Dir)
	if err != nil {
		s.Log.Error("what sinks lose with the oldest files of the audit log is not counted", "error", err)
		return
	}
	defer all.Close()
	for sink, at := range s.at {
		lost, err := all.count(at, min(oldest, len(all)))
		if err != nil {
			s.Log.Error("what a sink loses with the oldest files of the audit log is not counted", "sink", sink, "error", err)
			continue
		}
		if lost > 0 {
			s.metrics.lost.WithLabelValues(sink).Add(float64(lost))
			s.Log.Error("audit records are deleted that a sink has not got: there is no more room for them", "sink", sink, "lines", lost)
			s.Lost(sink, lost)
		}
	}
}

// shipMetrics are about sinks.
type shipMetrics struct {
	sent, failures, lost *prometheus.CounterVec
	lag, age             *prometheus.GaugeVec
}

func newShipMetrics(to prometheus.Registerer) *shipMetrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plural_hub_audit_sink_" + name, Help: help}, []string{"sink"})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plural_hub_audit_sink_" + name, Help: help}, []string{"sink"})
	}
	m := &shipMetrics{
		sent:     counter("records_total", "Audit records that a sink has taken from this replica; those that it took twice count twice."),
		failures: counter("failures_total", "Attempts at giving audit records to a sink that failed."),
		lost:     counter("lost_total", "Audit records that were deleted before a sink had taken them."),
		lag:      gauge("lag_bytes", "What a sink has not taken yet of this replica's audit log."),
		age:      gauge("lag_seconds", "How old the oldest audit record was when it was last offered to a sink; 0 once it has all."),
	}
	if to != nil {
		to.MustRegister(m.sent, m.failures, m.lost, m.lag, m.age)
	}
	return m
}

func (m *shipMetrics) forget(sink string) {
	m.lag.DeleteLabelValues(sink)
	m.age.DeleteLabelValues(sink)
}
