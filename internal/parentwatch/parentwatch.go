// Package parentwatch owns the end of a process together with its parent.
package parentwatch

import (
	"context"
	"io"
)

// Bind returns a context that ends when pipe does: whoever started this process holds the other end, and the system
// closes it however that process ends. Nothing is read but the end.
func Bind(ctx context.Context, pipe io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with the pipe, at the latest with this process
		_, _ = io.Copy(io.Discard, pipe)
		cancel()
	}()
	return ctx
}
