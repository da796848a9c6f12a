package httpstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// incoming is the hub's half of an exchange: a request's body, or what is written to an upgraded connection. One goroutine
// reads; any may close.
type incoming struct {
	stream tunnelapi.Cluster_ProxyServer
	// cancel ends the request's context.
	cancel context.CancelCauseFunc
	// rest is what is unread of the newest frame; left counts down what was promised, from -1 if nothing was.
	rest   []byte
	left   int64
	failed error
	closed atomic.Bool
	// violated is what ended the exchange, if the hub broke the protocol.
	violated atomic.Pointer[Error]
}

func (b *incoming) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.failed == nil {
		b.failed = b.next()
	}
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(b.rest) == 0 {
		return 0, b.failed
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close leaves the rest unread. A Read that waits goes on to do so.
func (b *incoming) Close() error {
	b.closed.Store(true)
	return nil
}

// next receives a frame; io.EOF is the end of a half that is whole.
func (b *incoming) next() error {
	frame, err := b.stream.Recv()
	switch {
	case errors.Is(err, io.EOF) && b.left > 0:
		return io.ErrUnexpectedEOF
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, fromStream(err))
	case frame.GetRequest() != nil:
		return b.violate("a second head")
	}
	return b.take(frame)
}

// take keeps what a frame has beside its head.
func (b *incoming) take(frame *tunnelapi.Frame) error {
	data := frame.GetData()
	switch {
	case frame.GetResponse() != nil || frame.GetTrailer() != nil:
		return b.violate("the hub answered itself")
	case len(data) > tunnelapi.MaxData:
		return b.violate(fmt.Sprintf("a frame has %d bytes", len(data)))
	case b.left >= 0 && int64(len(data)) > b.left:
		return b.violate("the request's body is longer than it said")
	}
	if b.left >= 0 {
		b.left -= int64(len(data))
	}
	b.rest = data
	return nil
}

func (b *incoming) violate(text string) error {
	e := violation(text)
	b.violated.Store(e)
	b.cancel(e)
	return e
}
