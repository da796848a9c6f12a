package httpstream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"google.golang.org/grpc/codes"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// Serve has the handler answer the one request of a stream. It returns when the handler has, with an *Error if the answer is
// not whole.
//
// The handler finds CallOf on the request's context. RequestURI is the target as the client wrote it. Body and answer flow at
// the same time. What is written goes out when a frame is full, when it is flushed, and with the end; a short answer is one
// message. An upgraded connection comes from Hijack, with CloseWrite; it lasts no longer than the handler.
func Serve(stream tunnelapi.Cluster_ProxyServer, handler http.Handler) error {
	first, err := stream.Recv()
	if err != nil {
		return fromStream(err)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	body := &incoming{stream: stream, cancel: cancel}
	r, err := body.begin(ctx, first)
	if err != nil {
		return err
	}
	w := &reply{stream: stream, request: r, body: body, header: http.Header{}, left: -1}
	defer w.release()
	whole, err := call(handler, w, r)
	switch {
	case body.violated.Load() != nil:
		return body.violated.Load()
	case err != nil:
		return err
	case !whole:
		return &Error{Code: codes.Unavailable, Message: "the answer was cut off"}
	default:
		return w.finish()
	}
}

// call says whether the handler came to its end.
func call(handler http.Handler, w http.ResponseWriter, r *http.Request) (whole bool, err error) {
	defer func() {
		cause := recover()
		if cause == nil || cause == http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
			return
		}
		err = &Error{Code: codes.Internal, Message: fmt.Sprintf("panic while answering: %v", cause)}
	}()
	handler.ServeHTTP(w, r)
	return true, nil
}

// begin makes the request of the first frame.
func (b *incoming) begin(ctx context.Context, first *tunnelapi.Frame) (*http.Request, error) {
	head := first.GetRequest()
	if head == nil {
		return nil, violation("the first frame has no head")
	}
	if err := checkHead(head); err != nil {
		return nil, err
	}
	target, err := url.ParseRequestURI(head.GetTarget())
	if err != nil {
		return nil, violation(fmt.Sprintf("the target is %.80q", head.GetTarget()))
	}
	header, err := fromWire(head.GetHeaders(), asking)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: head.GetMethod(), URL: target, RequestURI: head.GetTarget(), Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: head.GetContentLength(), Body: b,
	}
	if head.GetClass() == tunnelapi.Class_UPGRADE {
		token, err := takeUpgrade(head.GetHeaders())
		if err != nil {
			return nil, err
		}
		setUpgrade(header, token)
		r.ContentLength = 0
	}
	if r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	if b.left = r.ContentLength; head.GetClass() == tunnelapi.Class_UPGRADE {
		b.left = -1
	}
	if err := b.take(first); err != nil {
		return nil, err
	}
	return r.WithContext(WithCall(ctx, Call{ID: head.GetId(), Identity: head.GetIdentity(), Class: head.GetClass()})), nil
}
