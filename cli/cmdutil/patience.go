package cmdutil

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Patiently is for work that should end between its steps: the first interrupt closes stop, and only a second one ends the
// context that is returned. The time limit of ctx ends it too. Done gives back what this holds.
func (f *Factory) Patiently(ctx context.Context) (work context.Context, stop <-chan struct{}, done func()) {
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stopping := make(chan struct{})
	again := make(chan os.Signal, 1)
	go func() {
		select {
		case <-work.Done():
			return
		case <-ctx.Done():
		}
		if !errors.Is(ctx.Err(), context.Canceled) {
			cancel(context.Cause(ctx))
			return
		}
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		close(stopping)
		f.Say("stopping after the steps that are under way; Ctrl-C again to abort now")
		select {
		case <-work.Done():
		case <-again:
			cancel(context.Canceled)
		}
	}()
	return work, stopping, func() {
		cancel(context.Canceled)
		signal.Stop(again)
	}
}
