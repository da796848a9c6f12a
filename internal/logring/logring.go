// Package logring owns a ring buffer of this process's log.
//
// It refuses to know who reads them, and writes nothing anywhere. A Ring is put before the handler that writes the log;
// what passes it stays in memory until newer lines take its place.
package logring

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Line is one line of a log.
type Line struct {
	Time    time.Time
	Level   slog.Level
	Message string
	// Attributes read "key=value", in order. A value with blanks in it is quoted.
	Attributes []string
}

// Query says which lines are wanted.
type Query struct {
	// Tail is how many of the newest matching lines to begin with.
	Tail int
	// Follow goes on with what comes after them.
	Follow bool
	// Service leaves out all lines without the attribute service=NAME; empty: none.
	Service string
}

// Ring holds the newest lines. It is safe for concurrent use.
type Ring struct {
	mu    sync.Mutex // guards what follows
	lines []Line     // line n is at n % len(lines)
	next  uint64     // how many lines there ever were
	more  chan struct{}
}

// New is a Ring of at most so many lines.
func New(lines int) *Ring { return &Ring{lines: make([]Line, max(lines, 1))} }

// Handler notes what next handles.
func (r *Ring) Handler(next slog.Handler) slog.Handler { return &handler{ring: r, next: next} }

func (r *Ring) add(l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[r.next%uint64(len(r.lines))] = l
	r.next++
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// Read sends the lines that are wanted, in order, and returns the first error of send, or that of ctx. Without Follow it
// returns nil after the newest line. A reader that is too slow is told how many lines it missed.
func (r *Ring) Read(ctx context.Context, q Query, send func(Line) error) error {
	lines, at := r.newest(q)
	for {
		for _, l := range lines {
			if err := send(l); err != nil {
				return err
			}
		}
		if !q.Follow {
			return nil
		}
		more := r.wait(at)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-more:
		}
		lines, at = r.since(at, q)
	}
}

// newest returns the last lines that match, and the number of the line after them.
func (r *Ring) newest(q Query) ([]Line, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Line
	for n := r.next; n > r.oldest() && len(found) < q.Tail; n-- {
		if l := r.lines[(n-1)%uint64(len(r.lines))]; q.matches(l) {
			found = append(found, l)
		}
	}
	slices.Reverse(found)
	return found, r.next
}

// since returns the matching lines from number at on, beginning with one that says what was missed.
func (r *Ring) since(at uint64, q Query) ([]Line, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []Line
	if oldest := r.oldest(); at < oldest {
		found = append(found, Line{
			Time: time.Now(), Level: slog.LevelWarn, Message: "lines are missing: they were read too slowly",
			Attributes: []string{format(slog.Uint64("lines", oldest-at))},
		})
		at = oldest
	}
	for ; at < r.next; at++ {
		if l := r.lines[at%uint64(len(r.lines))]; q.matches(l) {
			found = append(found, l)
		}
	}
	return found, at
}

// oldest is the number of the oldest line that is still there.
func (r *Ring) oldest() uint64 {
	if held := uint64(len(r.lines)); r.next > held {
		return r.next - held
	}
	return 0
}

// wait is closed when there is a line of that number.
func (r *Ring) wait(at uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.more == nil {
		r.more = make(chan struct{})
	}
	more := r.more
	if at < r.next {
		close(more)
		r.more = nil
	}
	return more
}

func (q Query) matches(l Line) bool {
	return q.Service == "" || slices.Contains(l.Attributes, "service="+q.Service)
}
