package httpstream

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// reply is the ResponseWriter of one exchange.
type reply struct {
	stream  tunnelapi.Cluster_ProxyServer
	request *http.Request
	body    *incoming
	header  http.Header
	// status is zero until the head is decided; head is what of it has not gone out.
	status int
	head   *tunnelapi.ResponseHead
	// announced are the names of trailers that the head promised.
	announced []string
	// buffer[:buffered] waits for a full frame, a flush or the end; left counts down what was promised, from -1 if nothing was.
	buffer   *[]byte
	buffered int
	left     int64
	failed   error
	conn     *hijacked
}

func (w *reply) Header() http.Header { return w.header }

// WriteHeader leaves out informational answers.
func (w *reply) WriteHeader(status int) {
	if w.status != 0 || w.conn != nil || status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		return
	}
	w.status = status
	headers, err := Response(w.header)
	if err != nil || status < 100 || status > 599 {
		w.fail(fmt.Sprintf("status %d, %v", status, err))
		return
	}
	w.head = &tunnelapi.ResponseHead{Status: int32(status), Headers: headers, ContentLength: -1}
	if status == http.StatusSwitchingProtocols {
		w.switchProtocols(w.header)
		return
	}
	if length, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
		w.head.ContentLength = length
		w.left = length
	}
	for _, names := range w.header["Trailer"] {
		for name := range strings.SplitSeq(names, ",") {
			w.announced = append(w.announced, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
}

// switchProtocols sends a head with 101 at once.
func (w *reply) switchProtocols(h http.Header) {
	asked, agreed := Upgrade(w.request.Header), Upgrade(h)
	if asked == "" || !strings.EqualFold(asked, agreed) {
		w.fail(fmt.Sprintf("a switch to %.40q where %.40q was asked for", agreed, asked))
		return
	}
	w.head.Headers = append(w.head.Headers, &tunnelapi.Header{Name: "Upgrade", Value: agreed})
	w.FlushError() //nolint:errcheck // it is kept
}

// fail is for answers that cannot be sent.
func (w *reply) fail(text string) {
	w.head = nil
	if w.failed == nil {
		w.failed = &Error{Code: codes.Internal, Message: "the cluster's answer cannot be carried: " + text}
	}
}

func (w *reply) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	switch {
	case w.failed != nil:
		return 0, w.failed
	case w.conn != nil || w.status == http.StatusSwitchingProtocols:
		return 0, http.ErrHijacked
	case w.request.Method == http.MethodHead:
		return len(p), nil
	case bodiless(w.request.Method, w.status):
		return 0, http.ErrBodyNotAllowed
	case w.left >= 0 && int64(len(p)) > w.left:
		return 0, http.ErrContentLength
	}
	if w.left >= 0 {
		w.left -= int64(len(p))
	}
	return len(p), w.keep(p)
}

// keep sends full frames, the first ones from where they are.
func (w *reply) keep(p []byte) error {
	for len(p) > 0 && w.failed == nil {
		if w.buffered == 0 && len(p) >= tunnelapi.MaxData {
			w.send(&tunnelapi.Frame{Data: p[:tunnelapi.MaxData]})
			p = p[tunnelapi.MaxData:]
			continue
		}
		if w.buffer == nil {
			w.buffer = mem.DefaultBufferPool().Get(tunnelapi.MaxData)
		}
		n := copy((*w.buffer)[w.buffered:], p)
		w.buffered += n
		p = p[n:]
		if w.buffered == tunnelapi.MaxData {
			w.send(&tunnelapi.Frame{})
		}
	}
	return w.failed
}

// send adds to the frame what has waited.
func (w *reply) send(frame *tunnelapi.Frame) {
	frame.Response, w.head = w.head, nil
	if w.buffered > 0 {
		frame.Data = (*w.buffer)[:w.buffered]
		w.buffered = 0
	}
	if w.failed == nil {
		w.failed = w.stream.Send(frame)
	}
}

// Flush sends what has waited.
func (w *reply) Flush() {
	w.FlushError() //nolint:errcheck // it is kept
}

// FlushError is Flush for http.ResponseController.
func (w *reply) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if w.failed == nil && (w.head != nil || w.buffered > 0) {
		w.send(&tunnelapi.Frame{})
	}
	return w.failed
}

// EnableFullDuplex has nothing to do: body and answer always flow at the same time.
func (w *reply) EnableFullDuplex() error { return nil }

// SetReadDeadline and SetWriteDeadline can only take a deadline away; it is the request's context that ends things.
func (w *reply) SetReadDeadline(t time.Time) error { return noDeadline(t) }

// SetWriteDeadline is as SetReadDeadline.
func (w *reply) SetWriteDeadline(t time.Time) error { return noDeadline(t) }

func noDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	return errors.ErrUnsupported
}

// Hijack gives the connection that the request becomes, before or after WriteHeader(101).
func (w *reply) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	switch {
	case w.failed != nil:
		return nil, nil, w.failed
	case w.conn != nil:
		return nil, nil, http.ErrHijacked
	case Upgrade(w.request.Header) == "" || w.status != 0 && w.status != http.StatusSwitchingProtocols:
		return nil, nil, http.ErrNotSupported
	}
	w.conn = newHijacked(w)
	return w.conn, bufio.NewReadWriter(bufio.NewReader(w.conn), bufio.NewWriter(w.conn)), nil
}

// finish sends the last frame.
func (w *reply) finish() error {
	if w.conn != nil {
		return w.conn.finish()
	}
	w.WriteHeader(http.StatusOK)
	if w.failed == nil && w.left > 0 && !bodiless(w.request.Method, w.status) {
		return &Error{Code: codes.Unavailable, Message: "the answer is shorter than it said"}
	}
	trailer, err := w.trailer()
	if err != nil {
		return err
	}
	w.send(&tunnelapi.Frame{Trailer: trailer})
	return w.failed
}

func (w *reply) trailer() (*tunnelapi.Trailer, error) {
	trailers := http.Header{}
	for name, values := range w.header {
		if late, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			trailers[late] = values
		}
	}
	for _, name := range w.announced {
		if values, ok := w.header[name]; ok {
			trailers[name] = values
		}
	}
	list, err := Response(trailers)
	return &tunnelapi.Trailer{Headers: list}, err
}

// release lets go of what is held, however the handler ended.
func (w *reply) release() {
	if w.conn != nil {
		w.conn.end()
	}
	if w.buffer != nil {
		mem.DefaultBufferPool().Put(w.buffer)
	}
}
