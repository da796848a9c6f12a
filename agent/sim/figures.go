package sim

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Figures are what the agents saw in some time.
type Figures struct {
	// Polls were answered, Changed of them with something new. Reports arrived. Bundles were downloaded.
	Polls, Changed, Reports, Bundles int64
	// Turns are reports among them by which a service's health changed.
	Turns int64
	// BundleBytes were downloaded.
	BundleBytes int64
	// Connections were opened.
	Connections int64
	// Retries are requests that failed; Failures are those among them that failed again at the first retry or later.
	Retries, Failures int64
	// P50 and P99 are of the time between a poll on an open connection and its whole answer.
	P50, P99, Max time.Duration
	// Errors are the first that were seen.
	Errors []string
}

// maxErrors bounds the errors that are kept.
const maxErrors = 5

// counters count since they were taken last.
type counters struct {
	connections atomic.Int64

	mu      sync.Mutex // guards what follows
	figures Figures
	waits   []time.Duration
}

func (c *counters) answered(took time.Duration, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Polls++
	if changed {
		c.figures.Changed++
	}
	c.waits = append(c.waits, took)
}

func (c *counters) bundle(size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Bundles++
	c.figures.BundleBytes += int64(size)
}

// failed notes a poll that failed, the so-manieth of its agent in a row.
func (c *counters) failed(cluster string, row int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Retries++
	if row > 1 {
		c.figures.Failures++
	}
	c.say(cluster, err)
}

func (c *counters) reported(cluster string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.figures.Reports++
		return
	}
	c.figures.Retries++
	c.say(cluster, err)
}

// turned notes a change of health, if its report arrived.
func (c *counters) turned(arrived bool) {
	if !arrived {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures.Turns++
}

func (c *counters) say(cluster string, err error) {
	if len(c.figures.Errors) < maxErrors {
		c.figures.Errors = append(c.figures.Errors, cluster+": "+err.Error())
	}
}

// Take returns what was counted since it was called last.
func (s *Swarm) Take() Figures {
	c := &s.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	out, waits := c.figures, c.waits
	c.figures, c.waits = Figures{}, nil
	out.Connections = c.connections.Swap(0)
	slices.Sort(waits)
	if n := len(waits); n > 0 {
		out.P50, out.P99, out.Max = waits[n/2], waits[min(n-1, n*99/100)], waits[n-1]
	}
	return out
}
