package natsd

import (
	"fmt"
	"log/slog"
)

// complaints passes on what the server has to say when something is wrong, and drops its chatter.
type complaints struct {
	log *slog.Logger
	// fatal gets the first reason for which the server gives up; it holds one.
	fatal chan error
}

func (c *complaints) Fatalf(format string, v ...any) {
	select {
	case c.fatal <- fmt.Errorf(format, v...):
	default:
	}
}

func (c *complaints) Errorf(format string, v ...any) {
	c.log.Error("nats server reports an error", "text", fmt.Sprintf(format, v...))
}

func (c *complaints) Warnf(format string, v ...any) {
	c.log.Warn("nats server warns", "text", fmt.Sprintf(format, v...))
}

func (c *complaints) Noticef(string, ...any) {}
func (c *complaints) Debugf(string, ...any)  {}
func (c *complaints) Tracef(string, ...any)  {}
