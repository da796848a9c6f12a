package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pluralsh/plural/hubsvc/audit"
)

// receiver is a sink that can be away.
type receiver struct {
	mu    sync.Mutex // guards what follows
	away  bool
	lines [][]byte // each once
	seen  map[string]bool
	again int
	lost  int
	tries int
}

func (r *receiver) send(_ context.Context, _ string, lines []audit.Shipped) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries++
	if r.away {
		return errors.New("away")
	}
	for _, line := range lines {
		e, ok, err := audit.ParseEntry(line.Entry)
		if !ok || err != nil || e.Replica != "hub-0" || audit.Hash(e.Line) != line.Hash {
			return fmt.Errorf("%s: %v, %w", line.Entry, ok, err)
		}
		if r.seen[line.Hash] {
			r.again++
			continue
		}
		r.seen[line.Hash] = true
		r.lines = append(r.lines, e.Line)
	}
	return nil
}

func (r *receiver) text() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []byte
	for _, line := range r.lines {
		all = append(append(all, line...), '\n')
	}
	return all
}

func (r *receiver) set(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// ships has a log shipped; stop ends that.
func (r *receiver) ships(t *testing.T, l *audit.Log, metrics prometheus.Registerer) (stop func()) {
	t.Helper()
	shipper := audit.NewShipper(audit.ShipperOptions{
		Own: l, Self: "hub-0", Sinks: func() []string { return []string{"sink"} }, Send: r.send, After: func(error) time.Duration { return 0 },
		Lost: func(_ string, lines int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.lost += lines
		},
		Every: 2 * time.Millisecond, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = shipper.Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func TestASinkGetsEveryLineInOrderOverRestartsAndRotations(t *testing.T) {
	dir := t.TempDir()
	r := &receiver{seen: map[string]bool{}}
	for round := range 4 {
		l := open(t, options(dir, func(o *audit.Options) { o.MaxBytes, o.Keep = 2000, 100 }))
		stop := run(t, l)
		stopShipping := r.ships(t, l, nil)
		for i := range 20 {
			write(t, l, record(fmt.Sprintf("%d-%d", round, i)))
		}
		if round%2 == 0 { // else the shipper ends somewhere before the last
			until(t, "all is shipped", func() bool { return bytes.Count(r.text(), []byte("\n")) >= 20*(round+1) })
		}
		stopShipping()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // as a hub that is killed leaves it
			cutOff(t, dir)
		}
	}
	l := open(t, options(dir))
	r.ships(t, l, nil)
	until(t, "the rest is shipped", func() bool { return len(r.text()) >= len(text(t, dir)) })
	if diff := cmp.Diff(string(text(t, dir)), string(r.text())); diff != "" {
		t.Error(diff)
	}
	if r.lost > 0 {
		t.Errorf("%d lines are called lost", r.lost)
	}
}

func TestWhatASinkHasNotTakenIsSentAfterARestartAndWhatItHasIsNot(t *testing.T) {
	dir := t.TempDir()
	l := open(t, options(dir))
	run(t, l)
	for i := range 30 {
		write(t, l, record(fmt.Sprint(i)))
	}
	r := &receiver{seen: map[string]bool{}, away: true}
	tried := func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.tries > 0 }
	stop := r.ships(t, l, nil)
	until(t, "the sink is tried", tried)
	stop()
	r.set(false)
	stop = r.ships(t, l, nil)
	until(t, "all is shipped", func() bool { return bytes.Count(r.text(), []byte("\n")) == 30 })
	stop()
	write(t, l, record("last"))
	r.ships(t, l, nil)
	until(t, "the last is shipped", func() bool { return bytes.Count(r.text(), []byte("\n")) == 31 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again > 0 {
		t.Errorf("%d lines came again, although the sink had said that it has them", r.again)
	}
}

// cutOff leaves the beginning of a line at the end of the log.
func cutOff(t *testing.T, dir string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "audit.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(`{"time":"2026-11-`)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestLinesThatAreDeletedBeforeASinkHasThemAreCounted(t *testing.T) {
	dir := t.TempDir()
	r := &receiver{seen: map[string]bool{}}
	metrics := prometheus.NewRegistry()
	l := open(t, options(dir, func(o *audit.Options) { o.MaxBytes, o.Keep = 2000, 3 }))
	stop := run(t, l)
	r.ships(t, l, metrics)
	write(t, l, record("first"))
	until(t, "the first is shipped", func() bool { return len(r.text()) > 0 })
	r.set(true)
	const more = 60
	for i := range more {
		write(t, l, record(fmt.Sprint(i)))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.set(false)
	last := bytes.Split(bytes.TrimSpace(text(t, dir)), []byte("\n"))
	until(t, "what is left is shipped", func() bool { return bytes.HasSuffix(r.text(), append(last[len(last)-1], '\n')) })
	r.mu.Lock()
	// A batch that was under way while its file was deleted counts as lost, and arrives for all that.
	if missing := 1 + more - len(r.lines); r.lost < missing || missing == 0 || r.lost > more-len(last) {
		t.Errorf("%d lines are called lost, %d did not arrive, %d are left", r.lost, missing, len(last))
	}
	r.mu.Unlock()
	until(t, "the metrics say so", func() bool { // a batch is counted after the sink took it
		got := values(t, metrics)
		r.mu.Lock()
		defer r.mu.Unlock()
		return got["plural_hub_audit_sink_lost_total"] == float64(r.lost) && got["plural_hub_audit_sink_failures_total"] > 0 &&
			got["plural_hub_audit_sink_records_total"] == float64(len(r.lines)+r.again)
	})
}

// values are what each family's first metric is at.
func values(t *testing.T, metrics prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		m := family.GetMetric()[0]
		got[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return got
}

func TestASinkOfAnotherLogGetsItsFileAgain(t *testing.T) {
	dir := t.TempDir()
	r := &receiver{seen: map[string]bool{}}
	l := open(t, options(dir))
	stop := run(t, l)
	stopShipping := r.ships(t, l, nil)
	for i := range 6 {
		write(t, l, record(fmt.Sprint(i)))
	}
	until(t, "all is shipped", func() bool { return len(r.lineCount()) == 6 })
	stopShipping()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text(t, dir), []byte("\n")) // a crash of the machine takes what was not synced
	if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), slices.Concat(lines[:4]...), 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, options(dir))
	stop = run(t, l)
	r.ships(t, l, nil)
	write(t, l, record("after"))
	until(t, "the new line is shipped", func() bool { return bytes.Contains(r.text(), []byte(`"after"`)) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if r.again != 4 {
		t.Errorf("%d lines came again, want 4", r.again)
	}
}

func (r *receiver) lineCount() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}
