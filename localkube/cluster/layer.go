package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var errEndedEarly = errors.New("ended by itself")

// part is a piece of the cluster that runs until its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// layer is a set of parts that start and stop together.
type layer struct {
	failed chan error // one error for each part that ended before it was told to
	cancel context.CancelFunc
	done   chan struct{} // closed when every part has ended
}

func start(ctx context.Context, parts ...part) *layer {
	ctx, cancel := context.WithCancel(ctx)
	l := &layer{failed: make(chan error, len(parts)), cancel: cancel, done: make(chan struct{})}
	var running sync.WaitGroup
	for _, p := range parts {
		running.Go(func() {
			err := p.run(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				err = errEndedEarly
			}
			l.failed <- fmt.Errorf("run %s: %w", p.name, err)
		})
	}
	go func() {
		running.Wait()
		close(l.done)
	}()
	return l
}

// stop tells every part to end and waits for them, but no longer than within: the
// process ends next and their data is safe in the store.
func (l *layer) stop(within time.Duration) {
	l.cancel()
	select {
	case <-l.done:
	case <-time.After(within):
	}
}
