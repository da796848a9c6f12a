package natsd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// quiet is how long a complaint is not repeated: a server without the others complains every two seconds.
	quiet = 10 * time.Minute
	// maxSaid bounds the complaints that are remembered.
	maxSaid = 100
)

// logFilter passes on what the server has to say when something is wrong, and drops its chatter.
type logFilter struct {
	log *slog.Logger
	// fatal gets the first reason for which the server gives up; it holds one.
	fatal chan error

	mu   sync.Mutex // guards what follows
	said map[string]time.Time
	// unwritten is the first complaint of a write that failed.
	unwritten error
}

func newComplaints(log *slog.Logger) *logFilter {
	return &logFilter{log: log, fatal: make(chan error, 1), said: make(map[string]time.Time)}
}

func (c *logFilter) Fatalf(format string, v ...any) {
	select {
	case c.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

func (c *logFilter) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(strings.ToLower(text), "critical write error") {
		c.mu.Lock()
		c.unwritten = cmp.Or(c.unwritten, errors.New(text))
		c.mu.Unlock()
	}
	if c.isNew(text) {
		c.log.Error("nats server reports an error", "text", text)
	}
}

// lost says which write failed. The server keeps that in mind: whatever was to be written there fails from then on, until it is
// started anew. Its log is the one place that has it of a stream, a consumer and a raft group alike, of one copy or of three.
func (c *logFilter) lost() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unwritten
}

func (c *logFilter) Warnf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); c.isNew(text) {
		c.log.Warn("nats server warns", "text", text)
	}
}

func (c *logFilter) isNew(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.said[text]; ok && time.Since(at) < quiet {
		return false
	}
	if len(c.said) >= maxSaid {
		clear(c.said)
	}
	c.said[text] = time.Now()
	return true
}

func (c *logFilter) Noticef(string, ...any) {}
func (c *logFilter) Debugf(string, ...any)  {}
func (c *logFilter) Tracef(string, ...any)  {}
