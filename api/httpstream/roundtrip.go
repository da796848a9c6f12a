package httpstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// Transport sends each request over a stream of its own.
type Transport struct {
	// Open makes a stream that ends with ctx.
	Open func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error)
}

// RoundTrip needs WithCall on the request's context. What is asked for is path and query of r.URL, where an Opaque that begins
// with a slash stands for the path as it is. An answer of 101 has a Body that is an io.ReadWriteCloser with CloseWrite, and
// whose end says only that the cluster's side sends no more.
//
// The exchange ends when the request's context does, or when the answer's Body is read to its end or closed. r.Body may be
// read for a moment longer, until its Close is heeded: a server must not return from its handler while a client that is slow
// to send can hold that up, but set a read deadline.
//
// The error is the context's, that of reading r.Body, or an *Error; a Body that was cut off ends with io.ErrUnexpectedEOF.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &exchange{request: r}
	head, err := x.head()
	if err != nil {
		closeBody(r)
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	x.cancel, x.cause = cancel, func() error { return context.Cause(ctx) }
	if x.stream, err = t.Open(ctx); err != nil {
		closeBody(r)
		err = x.abandon(err)
		if e, ok := errors.AsType[*Error](err); ok {
			e.Unsent = true
		}
		return nil, err
	}
	if r.Body == nil || r.Body == http.NoBody || x.class == tunnelapi.Class_UPGRADE {
		closeBody(r)
		err = x.sendHead(head)
	} else {
		context.AfterFunc(ctx, func() { r.Body.Close() })
		go x.sendBody(head)
	}
	if err != nil {
		return nil, x.abandon(err)
	}
	response, err := x.receive()
	if err != nil {
		return nil, x.abandon(err)
	}
	return response, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		r.Body.Close()
	}
}

// exchange is one request with its answer.
type exchange struct {
	request *http.Request
	class   tunnelapi.Class
	upgrade string
	stream  tunnelapi.Cluster_ProxyClient
	// cancel ends the stream; cause is what it, or the request's context, was ended for.
	cancel context.CancelCauseFunc
	cause  func() error
}

// ended is the reason that lies on this side, if it was this side that ended the exchange early.
func (x *exchange) ended() error {
	if ctx := x.request.Context(); ctx.Err() != nil {
		return ctx.Err()
	}
	if cause := x.cause(); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func (x *exchange) head() (*tunnelapi.RequestHead, error) {
	r := x.request
	call, ok := CallOf(r.Context())
	if !ok {
		return nil, &Error{Code: codes.Internal, Message: "a request must say for whom it is made"}
	}
	x.class = call.Class
	headers, err := Request(r.Header)
	if err != nil {
		return nil, err
	}
	head := &tunnelapi.RequestHead{
		Id: call.ID, Method: r.Method, Target: target(r), Headers: headers, Identity: call.Identity, Class: call.Class,
		ContentLength: r.ContentLength,
	}
	switch {
	case head.Method == "":
		head.Method = http.MethodGet
	case r.ContentLength == 0 && r.Body != nil && r.Body != http.NoBody:
		head.ContentLength = -1
	}
	if x.class == tunnelapi.Class_UPGRADE {
		if x.upgrade = Upgrade(r.Header); x.upgrade == "" {
			return nil, &Error{Code: codes.InvalidArgument, Message: "an upgrade must name one protocol"}
		}
		head.ContentLength = 0
		head.Headers = append(head.Headers, &tunnelapi.Header{Name: "Upgrade", Value: x.upgrade})
	}
	return head, checkHead(head)
}

func target(r *http.Request) string {
	if !strings.HasPrefix(r.URL.Opaque, "/") {
		return r.URL.RequestURI()
	}
	if r.URL.RawQuery == "" && !r.URL.ForceQuery {
		return r.URL.Opaque
	}
	return r.URL.Opaque + "?" + r.URL.RawQuery
}

// sendHead is for a request without a body. What follows an upgrade is still to come.
func (x *exchange) sendHead(head *tunnelapi.RequestHead) error {
	if err := x.stream.Send(&tunnelapi.Frame{Request: head}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if x.class == tunnelapi.Class_UPGRADE {
		return nil
	}
	return x.stream.CloseSend() // what ended the stream, if something did, is received
}

// sendBody sends the request with its body, in one frame when it is short and its length is known.
func (x *exchange) sendBody(head *tunnelapi.RequestHead) {
	pool := mem.DefaultBufferPool()
	buffer := pool.Get(tunnelapi.MaxData)
	defer pool.Put(buffer)
	frame := &tunnelapi.Frame{Request: head}
	body, left := io.Reader(x.request.Body), head.GetContentLength()
	if left < 0 || left > tunnelapi.MaxData {
		if x.stream.Send(frame) != nil {
			return // the stream has ended, and its end is received
		}
		frame = &tunnelapi.Frame{}
	}
	for {
		n, err := fill(body, *buffer, left)
		if left >= 0 {
			left -= int64(n)
		}
		if errors.Is(err, io.EOF) && left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && !errors.Is(err, io.EOF) {
			x.cancel(fmt.Errorf("read request body: %w", err))
			return
		}
		if frame.Data = (*buffer)[:n]; n > 0 || frame.Request != nil {
			if x.stream.Send(frame) != nil {
				return
			}
			frame = &tunnelapi.Frame{}
		}
		if err != nil {
			break
		}
	}
	if err := x.stream.CloseSend(); err != nil {
		x.cancel(err)
	}
}

// fill reads what comes at once, or, of a body that fits, all of it. The error is io.EOF when all that was promised is read.
func fill(body io.Reader, buffer []byte, left int64) (int, error) {
	switch {
	case left < 0:
		return body.Read(buffer)
	case left == 0:
		return 0, io.EOF
	case left <= int64(len(buffer)):
		n, err := io.ReadFull(body, buffer[:left])
		if err == nil {
			err = io.EOF
		}
		return n, err
	default:
		return body.Read(buffer)
	}
}

// abandon ends the stream and says why: this side's own reason comes first.
func (x *exchange) abandon(err error) error {
	defer x.cancel(nil)
	if reason := x.ended(); reason != nil {
		return reason
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if errors.Is(err, io.EOF) {
		return &Error{Code: codes.Unavailable, Message: "the agent ended the exchange without an answer"}
	}
	return fromStream(err)
}

func (x *exchange) receive() (*http.Response, error) {
	frame, err := x.stream.Recv()
	if err != nil {
		return nil, err
	}
	head := frame.GetResponse()
	if head == nil {
		return nil, misbehaved("its answer has no head")
	}
	header, err := fromWire(head.GetHeaders(), answering)
	if err != nil {
		return nil, misbehaved(err.Error())
	}
	status := int(head.GetStatus())
	response := &http.Response{
		Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, ContentLength: max(-1, head.GetContentLength()), Request: x.request,
	}
	answer := &answer{exchange: x, response: response, left: response.ContentLength}
	response.Body = answer
	switch {
	case status == http.StatusSwitchingProtocols:
		if token, err := takeUpgrade(head.GetHeaders()); err != nil || x.upgrade == "" || !strings.EqualFold(token, x.upgrade) {
			return nil, misbehaved("it switches to a protocol that was not asked for")
		}
		setUpgrade(header, x.upgrade)
		response.ContentLength, answer.left, answer.twoWay = 0, -1, true
		response.Body = &upgraded{answer: answer}
	case status < 200 || status > 599:
		return nil, misbehaved(fmt.Sprintf("its answer has status %d", status))
	case bodiless(x.request.Method, status):
		answer.left = 0
	}
	if status == http.StatusNoContent {
		response.ContentLength = 0
	}
	if response.ContentLength >= 0 && status >= 200 && status != http.StatusNoContent {
		header["Content-Length"] = []string{strconv.FormatInt(response.ContentLength, 10)}
	}
	return response, answer.take(frame)
}

// bodiless says of an answer that its length, if it has one, is that of a body which does not follow.
func bodiless(method string, status int) bool {
	return method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// misbehaved is what is said of an agent that breaks the protocol.
func misbehaved(text string) *Error {
	return &Error{Code: codes.Internal, Message: "the agent misbehaved: " + text}
}
