package details

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// gather is how long what comes is gathered before a pane takes it, and maxGathered how much of it at most.
	gather      = 60 * time.Millisecond
	maxGathered = 2000
)

// feed brings what goes on to a pane, for as long as that looks.
type feed[T any] struct {
	items  chan T
	ctx    context.Context //nolint:containedctx // it ends with the looking
	cancel context.CancelFunc
}

// fed is what came of a feed; over says that no more comes, and why.
type fed[T any] struct {
	from  *feed[T]
	items []T
	over  bool
	err   error
}

// look is a feed of what run gives to put, which fails when nobody looks any more, with the commands by which it begins.
func look[T any](ctx context.Context, run func(ctx context.Context, put func(T) error) error) (*feed[T], tea.Cmd) {
	f := &feed[T]{items: make(chan T, 64)}
	f.ctx, f.cancel = context.WithCancel(ctx) //nolint:gosec // close calls it
	put := func(item T) error {
		select {
		case f.items <- item:
			return nil
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
	running := func() tea.Msg {
		err := run(f.ctx, put)
		close(f.items)
		return fed[T]{from: f, over: true, err: err}
	}
	return f, tea.Batch(running, f.next())
}

// next waits for what comes.
func (f *feed[T]) next() tea.Cmd {
	return func() tea.Msg {
		var items []T
		var full <-chan time.Time
		for len(items) < maxGathered {
			select {
			case item, more := <-f.items:
				if !more && len(items) == 0 {
					return nil
				}
				if !more {
					return fed[T]{from: f, items: items}
				}
				if items = append(items, item); full == nil {
					timer := time.NewTimer(gather)
					defer timer.Stop()
					full = timer.C
				}
			case <-full:
				return fed[T]{from: f, items: items}
			case <-f.ctx.Done():
				return nil
			}
		}
		return fed[T]{from: f, items: items}
	}
}
