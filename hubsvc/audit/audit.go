// Package audit owns the record of who did what where.
//
// It refuses to know what is worth a record, and which requests there are: the rooms that pass them on say so. Records go
// through a bounded queue to a file of JSON lines, each of which names the hash of the line before it, so that a line that
// was changed or taken out shows. Of what must not be lost the writer waits for room in the queue, or is told that there is
// none; what may be lost is counted when it is. What somebody is refused too often shares lines.
package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Record is one act, or the beginning of one that takes a while, as people read it. None of its strings is a secret: neither a token nor
// a query is among them. What names the line before is set as it is written.
type Record struct {
	v1.AuditRecord
	// Must says that the act may not happen without its record.
	Must bool `json:"-"`
}

// Stages of an act.
const (
	Start = "start"
	End   = "end"
)

// Allowed is the decision about what was not refused.
const Allowed = "allowed"

// Unwritable says that an act that must have a record cannot get one.
type Unwritable struct {
	Dir   string
	Cause error
	Fix   string
}

func (e *Unwritable) Error() string {
	return fmt.Sprintf("audit log in %s: %v: %s", e.Dir, e.Cause, e.Fix)
}

func (e *Unwritable) Unwrap() error { return e.Cause }

var (
	errFull   = errors.New("the queue is full")
	errClosed = errors.New("it is closed")
)

// What is kept, unless Options say otherwise: files of so many bytes, and so many of them.
const (
	FileBytes = 64 << 20
	Files     = 16
)

// Options are what a log needs.
type Options struct {
	// Dir is the log's folder, made when it is not there.
	Dir string
	// MaxBytes is how long a file gets before the next one is begun, Keep how many of them stay. Zero means FileBytes, and Files.
	MaxBytes int64
	Keep     int
	// Queue bounds the records that are not written yet, Recent those that are kept in memory. Zero means 8192, and 4096.
	Queue, Recent int
	// Wait bounds the wait for room in the queue. Zero means two seconds.
	Wait time.Duration
	Now  func() time.Time
	Log  *slog.Logger
	// Metrics may be nil.
	Metrics prometheus.Registerer
}

func (o Options) withDefaults() Options {
	set(&o.MaxBytes, FileBytes)
	set(&o.Keep, Files)
	set(&o.Queue, 8192)
	set(&o.Recent, 4096)
	set(&o.Wait, 2*time.Second)
	return o
}

func set[T int | int64 | time.Duration](field *T, to T) {
	if *field == 0 {
		*field = to
	}
}

// Log is the record of one replica. It is safe for concurrent use.
type Log struct {
	Options
	file    *file
	recent  ring
	metrics *metrics
	broken  atomic.Pointer[error] // why the last write failed; nil after one that did not

	queue   chan Record
	hurry   chan struct{} // has room for one word that the queue is not to wait
	closing chan struct{} // closed when nobody may begin to wait any more
	gate    sync.RWMutex  // held by whoever puts something into the queue; guards closed
	closed  bool

	refusals refusals
}

// Open opens the log, and goes on where its newest file ends. Nothing is written before Run.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{
		Options: o, queue: make(chan Record, o.Queue), hurry: make(chan struct{}, 1), closing: make(chan struct{}),
		recent:   newRing(o.Recent),
		refusals: refusals{by: map[string]*refused{}},
	}
	var err error
	if l.file, err = openFile(o, l.recent.add); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	l.metrics = newMetrics(l)
	if o.Metrics != nil {
		l.metrics.register(o.Metrics)
	}
	return l, nil
}

// Write hands a record over. What must not be lost waits for room, until ctx ends or the wait is over; the error then is an
// [Unwritable], and the act must not happen. The beginning of such an act is also refused while the disk takes nothing.
func (l *Log) Write(ctx context.Context, r Record) error {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		return l.lose(r, errClosed)
	}
	if r.Decision != Allowed && !l.refusals.take(&r, l.Now()) {
		return nil
	}
	if cause := l.broken.Load(); cause != nil && r.Must && r.Stage == Start {
		return l.lose(r, *cause)
	}
	defer l.urge(r)
	select {
	case l.queue <- r:
		return nil
	default:
	}
	if !r.Must {
		return l.lose(r, errFull)
	}
	l.urge(r)
	return l.await(ctx, r)
}

// RefusedTooOften says whether so many acts were refused to the person with a key that they are to wait: each of them has its
// lines.
func (l *Log) RefusedTooOften(key string) bool { return l.refusals.tooOften(key, l.Now()) }

// urge ends the wait for more records.
func (l *Log) urge(r Record) {
	if !r.Must && len(l.queue) < cap(l.queue)/2 {
		return
	}
	select {
	case l.hurry <- struct{}{}:
	default: // it was said already
	}
}

// linger is how long a record that may be lost waits for others: what writes a line at a time takes a processor from the very
// requests that it writes down.
const linger = 5 * time.Millisecond

// dwell lets some records come together.
func (l *Log) dwell(ctx context.Context) {
	enough := time.NewTimer(linger)
	defer enough.Stop()
	select {
	case <-enough.C:
	case <-l.hurry:
	case <-ctx.Done():
	}
}

func (l *Log) await(ctx context.Context, r Record) error {
	patience := time.NewTimer(l.Wait)
	defer patience.Stop()
	select {
	case l.queue <- r:
		return nil
	case <-l.closing:
		return l.lose(r, errClosed)
	case <-ctx.Done():
		return l.lose(r, context.Cause(ctx))
	case <-patience.C:
		return l.lose(r, errFull)
	}
}

// lose counts a record that is not written, and says so to those who asked not to lose it.
func (l *Log) lose(r Record, cause error) error {
	l.metrics.lost(r.Must)
	if !r.Must {
		return nil
	}
	return &Unwritable{Dir: l.Dir, Cause: cause, Fix: "see that the hub's disk is writable and has room"}
}

// Recent is the newest records that keep says yes to, at most n of them, the newest first.
func (l *Log) Recent(n int, keep func(*Record) bool) []Record { return l.recent.newest(n, keep) }

// Run writes what is handed over, until ctx ends and all of it is written.
func (l *Log) Run(ctx context.Context) error {
	defer l.file.close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var pending []Record
	for {
		select {
		case <-ctx.Done():
			return l.finish(pending)
		case <-tick.C:
			l.file.sync()
			pending = append(pending, l.refusals.due(l.Now(), false)...)
		case r := <-l.gated(pending):
			if !r.Must {
				l.dwell(ctx)
			}
			pending = l.gather(append(pending, r))
		}
		pending = l.write(pending)
	}
}

// maxPending bounds the records that are written at once, and so those that wait for a disk besides the queue.
const maxPending = 512

// gated is the queue, while there is room for more that the disk has not taken.
func (l *Log) gated(pending []Record) <-chan Record {
	if len(pending) >= maxPending {
		return nil
	}
	return l.queue
}

// gather takes what is in the queue already.
func (l *Log) gather(pending []Record) []Record {
	for len(pending) < maxPending {
		select {
		case r := <-l.queue:
			pending = append(pending, r)
		default:
			return pending
		}
	}
	return pending
}

// write puts records into the file, and returns those that it did not take.
func (l *Log) write(records []Record) []Record {
	for i := range records {
		if err := l.file.append(&records[i]); err != nil {
			if l.broken.Swap(&err) == nil {
				l.Log.Error("audit log cannot be written: what changes something is refused", "dir", l.Dir, "error", err)
			}
			l.metrics.failures.Inc()
			return append(records[:0], records[i:]...)
		}
		l.recent.add(records[i])
		l.metrics.written.Inc()
	}
	if len(records) > 0 && l.broken.Swap(nil) != nil {
		l.Log.Info("audit log can be written again", "dir", l.Dir)
	}
	return records[:0]
}

// finish closes the queue, and writes what is in it.
func (l *Log) finish(pending []Record) error {
	close(l.closing)
	l.gate.Lock()
	l.closed = true
	l.gate.Unlock()
	pending = append(pending, l.refusals.due(l.Now(), true)...)
	for {
		pending = l.gather(pending)
		if len(pending) == 0 {
			return nil
		}
		if pending = l.write(pending); len(pending) > 0 {
			return &Unwritable{
				Dir: l.Dir, Cause: fmt.Errorf("%d records are lost: %w", len(pending)+len(l.queue), *l.broken.Load()),
				Fix: "see that the hub's disk is writable and has room",
			}
		}
	}
}
