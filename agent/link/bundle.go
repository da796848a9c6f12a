package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/api"
)

const (
	// bundleTimeout is how long one call works on a bundle. One of the largest size passes in time at 300 KB/s; on a slower
	// link it takes several calls.
	bundleTimeout = 2 * time.Minute
	// stall is how long a download may bring nothing.
	stall = 30 * time.Second
	// tries is how often one call begins or goes on with a download.
	tries = 10
	// maxBundle is the largest archive that is read, and how much of broken downloads is kept.
	maxBundle = 32 << 20
)

// Bundle downloads an archive. The caller verifies it. A download that breaks off is resumed: in this call as long as each
// try changes something, and else in the next one for the same key. Downloads wait for each other, so that a commit which
// touches everything opens no further connections: a thousand agents' handshakes cost the hub more than what they fetch.
func (h *Hub) Bundle(ctx context.Context, key string) ([]byte, error) {
	select {
	case h.downloads <- struct{}{}:
		defer func() { <-h.downloads }()
	case <-ctx.Done():
		return nil, fmt.Errorf("download bundle: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	p := h.broken.take(key)
	for try := 1; ; try++ {
		before := len(p.body)
		err := h.fetch(ctx, key, &p)
		if err == nil {
			return p.body, nil
		}
		if !errors.Is(err, errBroken) || len(p.body) == before || try == tries || ctx.Err() != nil {
			h.broken.put(key, p)
			return nil, fmt.Errorf("download bundle: %w", err)
		}
	}
}

// errBroken is how a body ended that should have gone on.
var errBroken = errors.New("connection broke off")

// partial is the beginning of an archive, and the ETag of the whole.
type partial struct {
	etag string
	body []byte
}

// fetch asks for what is missing, and adds what comes. A hub or proxy that sends the whole again is as good: it may know no
// ranges, or the whole may be another by now.
func (h *Hub) fetch(ctx context.Context, key string, p *partial) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := http.Header{"Accept-Encoding": {"identity"}} // ranges count the bytes of the archive itself
	if len(p.body) > 0 {
		header.Set("Range", "bytes="+strconv.Itoa(len(p.body))+"-")
		header.Set("If-Range", p.etag)
	}
	response, err := h.do(ctx, http.MethodGet, api.BundlePath+url.PathEscape(key), header, nil)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode == http.StatusOK:
		*p = partial{etag: strongETag(response)}
	case response.StatusCode == http.StatusPartialContent && len(p.body) > 0 && p.continues(response):
	case response.StatusCode == http.StatusPartialContent, response.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		*p = partial{}
		return fmt.Errorf("%w: hub answered %d, which does not continue what is here", errBroken, response.StatusCode)
	default:
		return refused(response)
	}
	return p.read(ctx, &idleTimeoutBody{response.Body, time.AfterFunc(stall, func() { cancel(errStalled) })}, response.ContentLength)
}

var errStalled = fmt.Errorf("nothing came for %v", stall)

// strongETag names the very bytes of an answer; empty when nothing does.
func strongETag(r *http.Response) string {
	if etag := r.Header.Get("ETag"); strings.HasPrefix(etag, `"`) {
		return etag
	}
	return ""
}

// continues says whether a partial answer begins where p ends, and is of the same whole.
func (p *partial) continues(r *http.Response) bool {
	return strongETag(r) == p.etag && strings.HasPrefix(r.Header.Get("Content-Range"), "bytes "+strconv.Itoa(len(p.body))+"-")
}

// read adds a body. What cannot be continued because nothing names it is dropped when it breaks off.
func (p *partial) read(ctx context.Context, body io.Reader, announced int64) error {
	if announced > int64(maxBundle-len(p.body)) {
		return tooLarge(maxBundle)
	}
	if announced > 0 {
		p.body = slices.Grow(p.body, int(announced))
	}
	chunk := make([]byte, 64<<10)
	for {
		n, err := body.Read(chunk)
		p.body = append(p.body, chunk[:n]...)
		switch {
		case len(p.body) > maxBundle:
			*p = partial{}
			return tooLarge(maxBundle)
		case errors.Is(err, io.EOF):
			return nil
		case err == nil:
			continue
		}
		if errors.Is(context.Cause(ctx), errStalled) {
			err = errStalled
		}
		err = fmt.Errorf("%w after %d bytes: %w", errBroken, len(p.body), err)
		if p.etag == "" {
			*p = partial{}
		}
		return err
	}
}

// idleTimeoutBody is a body whose timer starts anew with everything that comes.
type idleTimeoutBody struct {
	io.Reader
	timer *time.Timer
}

func (p *idleTimeoutBody) Read(into []byte) (int, error) {
	n, err := p.Reader.Read(into)
	if err != nil {
		p.timer.Stop()
	} else {
		p.timer.Reset(stall)
	}
	return n, err
}

// remains are what broken downloads left, the newest last and at most maxBundle bytes together.
type remains struct {
	mu   sync.Mutex // guards list
	list []remain
}

type remain struct {
	key string
	partial
}

// take gives what is left of a download away; whoever takes it owns it.
func (r *remains) take(key string) partial {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.list, func(one remain) bool { return one.key == key })
	if at < 0 {
		return partial{}
	}
	p := r.list[at].partial
	r.list = slices.Delete(r.list, at, at+1)
	return p
}

// put keeps what a download left, and lets go of the oldest ones for it.
func (r *remains) put(key string, p partial) {
	if len(p.body) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(slices.DeleteFunc(r.list, func(one remain) bool { return one.key == key }), remain{key, p})
	total := 0
	for i, one := range slices.Backward(r.list) {
		if total += len(one.body); total > maxBundle {
			r.list = slices.Delete(r.list, 0, i+1)
			return
		}
	}
}
