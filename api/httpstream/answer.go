package httpstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// answer is the body of a response. One goroutine reads; any may close.
type answer struct {
	*exchange
	response *http.Response
	// rest is what is unread of the newest frame; left counts down what was promised, from -1 if nothing was.
	rest []byte
	left int64
	// trailed says that the last frame has come. Of a connection that goes both ways it ends the reading alone.
	trailed bool
	twoWay  bool
	failed  error
	closed  atomic.Bool
}

func (a *answer) Read(p []byte) (int, error) {
	for len(a.rest) == 0 && a.failed == nil {
		if a.trailed && a.twoWay {
			return 0, io.EOF
		}
		if a.failed = a.next(); a.failed != nil {
			a.cancel(nil)
		}
	}
	if len(a.rest) == 0 {
		return 0, a.failed
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	if len(a.rest) > 0 || !a.trailed || a.twoWay || a.failed != nil {
		return n, nil
	}
	if a.failed = a.next(); a.failed != nil { // so that the last part of an answer is known to be it
		a.cancel(nil)
	}
	return n, a.failed
}

// Close ends the exchange.
func (a *answer) Close() error {
	a.closed.Store(true)
	a.cancel(nil)
	return nil
}

// next receives a frame; after the last one, the end of the stream.
func (a *answer) next() error {
	frame, err := a.stream.Recv()
	switch {
	case err == nil && a.trailed:
		return misbehaved("something follows the end of its answer")
	case err == nil && frame.GetResponse() != nil:
		return misbehaved("its answer has two heads")
	case err == nil:
		return a.take(frame)
	case a.trailed:
		return io.EOF // whatever became of the stream: the answer is complete
	case a.closed.Load():
		return http.ErrBodyReadAfterClose
	default:
		return a.cut(err)
	}
}

// take keeps what a frame has beside its head.
func (a *answer) take(frame *tunnelapi.Frame) error {
	data := frame.GetData()
	if len(data) > tunnelapi.MaxData {
		return misbehaved(fmt.Sprintf("a frame has %d bytes", len(data)))
	}
	if a.left >= 0 {
		if a.left -= int64(len(data)); a.left < 0 {
			return misbehaved("its answer is longer than it said")
		}
	}
	a.rest = data
	if frame.GetTrailer() == nil {
		return nil
	}
	a.trailed = true
	trailer, err := fromWire(frame.GetTrailer().GetHeaders(), answering)
	if err != nil {
		return misbehaved(err.Error())
	}
	if len(trailer) > 0 {
		a.response.Trailer = trailer
	}
	if a.left > 0 {
		return fmt.Errorf("%w: the answer is shorter than it said", io.ErrUnexpectedEOF)
	}
	return nil
}

// cut says why the stream ended before the answer did.
func (a *answer) cut(err error) error {
	if reason := a.ended(); reason != nil {
		return reason
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, fromStream(err))
}

// upgraded is the connection that a request has become. Reading it ends when the cluster's side sends no more; writing goes on.
type upgraded struct {
	*answer
	// writing guards the hub's half of the stream.
	writing sync.Mutex
	shut    bool
}

func (u *upgraded) Write(p []byte) (int, error) {
	u.writing.Lock()
	defer u.writing.Unlock()
	if u.shut {
		return 0, io.ErrClosedPipe
	}
	written := 0
	for chunk := range chunks(p) {
		if err := u.stream.Send(&tunnelapi.Frame{Data: chunk}); err != nil {
			return written, fmt.Errorf("the connection into the cluster has ended: %w", io.ErrClosedPipe)
		}
		written += len(chunk)
	}
	return written, nil
}

// CloseWrite says that nothing more will be written.
func (u *upgraded) CloseWrite() error {
	u.writing.Lock()
	defer u.writing.Unlock()
	if u.shut {
		return nil
	}
	u.shut = true
	return u.stream.CloseSend()
}
