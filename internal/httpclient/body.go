package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// StallError says that a server fell silent in the middle of an answer.
type StallError struct{ After time.Duration }

func (e *StallError) Error() string {
	return fmt.Sprintf("the server fell silent in the middle of its answer: no byte for %s", e.After)
}

// TooLongError says that an answer was cut off.
type TooLongError struct{ Max int64 }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("the server's answer is longer than the limit of %d bytes", e.Max)
}

// stallWatch ends a request whose answer stalls. Only time spent waiting for bytes counts, so a slow reader is safe.
type stallWatch struct {
	ctx    context.Context //nolint:containedctx // the request's own; its cause tells why a read failed
	cancel context.CancelCauseFunc
	after  time.Duration
}

func watch(ctx context.Context, after time.Duration) (context.Context, *stallWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stallWatch{ctx, cancel, after}
}

func (w *stallWatch) end() { w.cancel(nil) }

// read is r.Read with a limit on how long it takes.
func (w *stallWatch) read(r io.Reader, p []byte) (int, error) {
	timer := time.AfterFunc(w.after, func() { w.cancel(&StallError{w.after}) })
	n, err := r.Read(p)
	timer.Stop()
	if stall := new(StallError); err != nil && errors.As(context.Cause(w.ctx), &stall) {
		err = stall
	}
	return n, err
}

// body is an answer's, bounded in time and length.
type body struct {
	io.ReadCloser
	watch   *stallWatch
	bounded bool
	read    int64
	left    int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.watch.read(b.ReadCloser, p)
	b.read += int64(n)
	if b.left -= int64(n); b.bounded && b.left < 0 {
		return 0, &TooLongError{Max: b.read + b.left}
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.watch.end()
	return err
}

// Unstalled is r with an error when a read of it takes longer than after, which then also calls give up: what r reads
// from must end by that. It is for answers that come over something else than HTTP.
func Unstalled(ctx context.Context, r io.Reader, after time.Duration, giveUp func()) io.Reader {
	ctx, w := watch(ctx, after)
	context.AfterFunc(ctx, giveUp)
	return &unstalled{r, w}
}

type unstalled struct {
	r io.Reader
	w *stallWatch
}

func (u *unstalled) Read(p []byte) (int, error) { return u.w.read(u.r, p) }
