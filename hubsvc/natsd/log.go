package natsd

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// quiet is how long a complaint is not repeated: a server without the others complains every two seconds.
	quiet = 10 * time.Minute
	// maxSaid bounds the complaints that are remembered.
	maxSaid = 100
)

// complaints passes on what the server has to say when something is wrong, and drops its chatter.
type complaints struct {
	log *slog.Logger
	// fatal gets the first reason for which the server gives up; it holds one.
	fatal chan error

	mu   sync.Mutex // guards said
	said map[string]time.Time
}

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, fatal: make(chan error, 1), said: make(map[string]time.Time)}
}

func (c *complaints) Fatalf(format string, v ...any) {
	select {
	case c.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

func (c *complaints) Errorf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); c.isNew(text) {
		c.log.Error("nats server reports an error", "text", text)
	}
}

func (c *complaints) Warnf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); c.isNew(text) {
		c.log.Warn("nats server warns", "text", text)
	}
}

func (c *complaints) isNew(text string) bool {
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

func (c *complaints) Noticef(string, ...any) {}
func (c *complaints) Debugf(string, ...any)  {}
func (c *complaints) Tracef(string, ...any)  {}
