package kubeapi

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errOver is what reading a request's body says once the request is over.
var errOver = errors.New("the request is over")

// requestBody is a request's body while it is passed on. Whoever passes it on may still be reading when the answer is over:
// a server's own body must not be read then any more.
type requestBody struct {
	io.ReadCloser
	count         *atomic.Int64
	touched, done atomic.Bool
	mu            sync.Mutex // held while it is read; guards over
	over          bool
}

func (b *requestBody) Read(to []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errOver
	}
	b.touched.Store(true)
	n, err := b.ReadCloser.Read(to)
	b.count.Add(int64(n))
	if errors.Is(err, io.EOF) {
		b.done.Store(true)
	}
	return n, err
}

// Close leaves the body to the server, which closes it.
func (b *requestBody) Close() error { return nil }

// finish ends all reading. Of a body that did not come to its end a read may be under way, which only a deadline ends; the
// connection is not used again then.
func (b *requestBody) finish(rc *http.ResponseController) {
	if b.touched.Load() && !b.done.Load() {
		_ = rc.SetReadDeadline(time.Unix(1, 0)) // where there are no deadlines, reading ends with the request
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
}
