package kubeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/principal"
)

// ServeHTTP answers a person's request to a cluster's API server.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer p.contain(r)
	cluster, target, known := destination(r)
	who, refusal := p.person(r, cluster)
	if refusal != nil {
		p.metrics.answered(tunnelapi.Class_CLASS_UNSPECIFIED, int(refusal.ErrStatus.Code))
		writeStatus(w, refusal)
		return
	}
	ctx, x, refusal := p.begin(r.Context(), asked{who, cluster, target, known, r})
	if refusal != nil {
		writeStatus(w, refusal)
		return
	}
	s := &session{exchange: x, w: w, rc: http.NewResponseController(w), r: r}
	// also when the answer is cut off, by a panic
	defer func() { x.end(ctx, s.cause) }()
	s.serve(ctx)
}

// person says who sends the request.
func (p *Proxy) person(r *http.Request, cluster string) (principal.Person, *apierrors.StatusError) {
	seen, ok := credentials(r)
	if !ok {
		return principal.Person{}, nobody(nil)
	}
	who, err := p.Person(seen, cluster)
	if err != nil {
		return principal.Person{}, nobody(err)
	}
	return who, nil
}

// contain keeps a panic to its own request.
func (p *Proxy) contain(r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
		p.Log.Error("request panicked", "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
	}
	panic(http.ErrAbortHandler) // the client sees that its answer is not whole
}

// session is an exchange with a client that waits for the answer.
type session struct {
	*exchange
	w     http.ResponseWriter
	rc    *http.ResponseController
	r     *http.Request
	cause error // why it did not come to its end
}

func (s *session) serve(ctx context.Context) {
	s.unhurry()
	body := &requestBody{ReadCloser: s.r.Body, count: &s.in}
	defer body.finish(s.rc)
	resp, refusal := s.send(ctx, s.r, body)
	if refusal != nil {
		s.cause = cause(ctx, errors.New(refusal.ErrStatus.Message))
		s.refuse(body, refusal)
		return
	}
	defer resp.Body.Close()
	s.record.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols {
		s.cause = s.upgrade(ctx, resp)
		return
	}
	s.relay(ctx, resp, body)
}

// unhurry lifts the deadlines that the server sets for requests which it answers itself, and lets body and answer flow at
// the same time.
func (s *session) unhurry() {
	err := s.rc.SetWriteDeadline(time.Time{})
	if s.r.ContentLength != 0 || s.r.ProtoMajor == 1 { // else there is nothing to read
		err = errors.Join(err, s.rc.SetReadDeadline(time.Time{}))
	}
	if s.r.ContentLength != 0 && s.r.ProtoMajor == 1 {
		err = errors.Join(err, s.rc.EnableFullDuplex())
	}
	if err != nil {
		s.p.Log.Debug("request keeps the server's deadlines", "request", s.id, "error", err)
	}
}

func (s *session) refuse(body *requestBody, refusal *apierrors.StatusError) {
	s.record.Status = int(refusal.ErrStatus.Code)
	s.closeAfter(body)
	writeStatus(s.w, refusal)
}

// closeAfter ends the client's connection behind the answer, where it might take the rest of a body, or of what was meant for
// an upgraded connection, for the next request.
func (s *session) closeAfter(body *requestBody) {
	if s.r.ProtoMajor == 1 && (s.query.Upgrade || s.r.ContentLength != 0 && !body.done.Load()) {
		s.w.Header().Set("Connection", "close")
	}
}

// relay sends the answer as it comes. One that was cut off does not look like a whole one; but a watch may end at any time,
// and its client goes on elsewhere.
func (s *session) relay(ctx context.Context, resp *http.Response, body *requestBody) {
	s.head(resp, body)
	settle := s.interruptible(ctx)
	err := s.copy(resp.Body)
	settle()
	if err == nil {
		s.trailer(resp.Trailer)
		return
	}
	s.cause = cause(ctx, err)
	if s.mayEnd(s.cause) {
		return
	}
	panic(http.ErrAbortHandler)
}

// mayEnd says whether an answer is whole that was ended for the cause.
func (s *session) mayEnd(cause error) bool {
	return s.query.Verb == "watch" && (errors.Is(cause, errDraining) || errors.Is(cause, errWithdrawn))
}

func (s *session) head(resp *http.Response, body *requestBody) {
	h := s.w.Header()
	for name, values := range answer(resp.Header, Prefix+s.cluster) {
		h[name] = values
	}
	if impersonates(s.r.Header) {
		h.Add("Warning", `299 - "you asked to be somebody else: through the hub everybody is who they are"`)
	}
	s.closeAfter(body)
	s.w.WriteHeader(resp.StatusCode)
	if s.class == tunnelapi.Class_WATCH {
		_ = s.rc.Flush() // nothing may come for a while; an error comes again with what does
	}
}

func (s *session) trailer(trailer http.Header) {
	for name, values := range trailer {
		for _, value := range values {
			s.w.Header().Add(http.TrailerPrefix+name, value)
		}
	}
}

// lastWords is how long what an ended exchange still has to say may take to reach its client.
const lastWords = 2 * time.Second

// interruptible lets the end of ctx end a write that a client holds up. The function that it returns has to be called before
// the request is over.
func (s *session) interruptible(ctx context.Context) (settle func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		deadline := time.Now()
		if s.mayEnd(cause(ctx, nil)) {
			deadline = deadline.Add(lastWords)
		}
		_ = s.rc.SetWriteDeadline(deadline) // without deadlines the client's own patience counts
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}

// copy sends a body on, chunk by chunk. Each is sent at once unless the length was said: nobody knows when the next will come.
func (s *session) copy(from io.Reader) error {
	buffer := s.p.buffers.Get().(*[tunnelapi.MaxData]byte) //nolint:forcetypeassert // the pool has nothing else
	defer s.p.buffers.Put(buffer)
	atOnce := s.w.Header().Get("Content-Length") == ""
	stalled := time.AfterFunc(s.p.Limits.Stalled, func() { s.cancel(errStalled) })
	defer stalled.Stop()
	for {
		stalled.Stop()
		n, err := from.Read(buffer[:])
		if n > 0 {
			stalled.Reset(s.p.Limits.Stalled)
			if err := s.put(buffer[:n], atOnce && err == nil); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (s *session) put(chunk []byte, flush bool) error {
	n, err := s.w.Write(chunk)
	s.out.Add(int64(n))
	if err == nil && flush {
		err = s.rc.Flush()
	}
	if err != nil {
		return errors.Join(errGone, err)
	}
	return nil
}
