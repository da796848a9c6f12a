package kubeapi

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/kubeaccess"
	"github.com/pluralsh/plural/internal/principal"
)

// Why an exchange ended before its answer had come to its end.
var (
	errWithdrawn  = errors.New("access was withdrawn")
	errDraining   = errors.New("this replica of the hub is going")
	errSlow       = errors.New("the cluster took too long to begin its answer")
	errStalled    = errors.New("the client did not read its answer")
	errHalfClosed = errors.New("the other half stayed open")
	errGone       = errors.New("the client went away")
	errBroken     = errors.New("the cluster's half broke off")
)

// exchange is one request that is under way.
type exchange struct {
	p       *Proxy
	id      string
	cluster string
	target  string
	query   kubeaccess.Request
	class   tunnelapi.Class
	began   time.Time
	cancel  context.CancelCauseFunc
	place   *place
	backend Backend // nil until one was reached
	// what the end's record says beside
	record  Record
	in, out atomic.Int64

	who    principal.Person // guarded by Proxy.mu, as is expiry
	expiry *time.Timer      // nil for credentials that do not expire
}

// asked is a request before anything was decided about it.
type asked struct {
	who             principal.Person
	cluster, target string
	known           bool // the cluster's name can be one
	request         *http.Request
}

// begin judges a request, and gives it its place; the exchange has to be ended. Its context ends with it.
func (p *Proxy) begin(ctx context.Context, a asked) (context.Context, *exchange, *apierrors.StatusError) {
	x := &exchange{p: p, id: strings.ToLower(rand.Text()), cluster: a.cluster, target: a.target, who: a.who, began: p.Now()}
	x.describe(a)
	if refusal := x.judge(a); refusal != nil {
		x.refused(ctx, decisionDenied, refusal)
		return ctx, nil, refusal
	}
	var bound string
	paced := func() bool { return p.Pace == nil || p.Pace(a.who) }
	if x.place, bound = p.quotas.take(ctx, x.cluster, a.who.Key(), x.class, paced); bound != "" {
		p.metrics.rejects.WithLabelValues(bound).Inc()
		refusal := tooMany(bound)
		x.refused(ctx, decisionLimited, refusal)
		return ctx, nil, refusal
	}
	ctx, x.cancel = context.WithCancelCause(ctx)
	if refusal := x.enter(ctx); refusal != nil {
		x.record.Status = int(refusal.ErrStatus.Code)
		x.end(ctx, errors.New(refusal.ErrStatus.Message))
		return ctx, nil, refusal
	}
	return ctx, x, nil
}

// judge reads the request strictly, and asks whether it may be. A cluster that somebody may not know of is treated as one
// that there is not, in every way.
func (x *exchange) judge(a asked) *apierrors.StatusError {
	if !a.known || !x.p.Sees(a.who, a.cluster) {
		return unknown(a.cluster)
	}
	q, err := kubeaccess.Parse(a.request.Method, a.target, a.request.Header)
	if err != nil {
		return unreadable(err)
	}
	x.query, x.class = q, class(q)
	x.describeQuery()
	if err := reserved(a.who); err != nil {
		return forbidden(err.Error())
	}
	if err := x.p.Allow(a.who, a.cluster, q); err != nil {
		return forbidden(err.Error())
	}
	if q.Upgrade {
		return upgradable(a.request)
	}
	return nil
}

// enter puts the exchange into the registry, and writes down that it begins. Whatever was withdrawn since it was judged, when
// it was not in the registry yet, is found here.
func (x *exchange) enter(ctx context.Context) *apierrors.StatusError {
	x.p.metrics.began(x.class)
	if !x.p.register(x) {
		return later(unavailable(errDraining.Error()), time.Second)
	}
	if !x.p.check(x) {
		return forbidden(errWithdrawn.Error())
	}
	if !x.record.Must && x.class == tunnelapi.Class_UNARY {
		return nil
	}
	start := x.record
	start.Stage = stageStart
	if err := x.p.Audit(ctx, start); err != nil {
		x.p.Log.Error("request was refused for want of a record", "request", x.id, "cluster", x.cluster, "error", err)
		return later(unavailable("the hub cannot write its audit log"), 5*time.Second)
	}
	return nil
}

// describe fills in the record with what is known of a request that was not read yet.
func (x *exchange) describe(a asked) {
	x.record = Record{AuditRecord: v1.AuditRecord{
		Time: x.began, ID: x.id, Stage: stageEnd, Decision: decisionAllowed,
		Person: a.who.Name, Groups: a.who.Groups, Operator: a.who.Operator, Credential: a.who.Credential,
		Verb: Clip(strings.ToLower(a.request.Method), maxName),
	}}
	if a.known {
		x.record.Cluster = a.cluster
	}
	path, _, _ := strings.Cut(a.target, "?")
	x.record.Path = Clip(path, maxPath)
	x.record.sender(a.request)
}

func (x *exchange) describeQuery() {
	q, r := x.query, &x.record
	r.Verb, r.Group, r.Resource, r.Subresource = q.Verb, Clip(q.Group, maxName), Clip(q.Kind, maxName), Clip(q.Subresource, maxName)
	r.Namespace, r.Name = Clip(q.Namespace, maxName), Clip(q.Name, maxName)
	r.Must = changes(q)
}

// refused writes down a request that got no place.
func (x *exchange) refused(ctx context.Context, decision string, refusal *apierrors.StatusError) {
	status := &refusal.ErrStatus
	x.record.Decision, x.record.Status, x.record.Cause = decision, int(status.Code), Clip(status.Message, maxPath)
	x.record.Duration = x.p.Now().Sub(x.began)
	x.record.Must = false // nothing happens
	x.p.metrics.answered(x.class, int(status.Code))
	x.write(ctx)
}

// end lets go of all that the exchange holds, and writes down how it ended; a nil cause is that it came to its end.
func (x *exchange) end(ctx context.Context, cause error) {
	x.cancel(cause)
	defer x.p.deregister(x) // when nothing is left of it: whoever drains goes on then
	x.place.release()
	if x.backend != nil {
		x.backend.Release()
	}
	r := &x.record
	r.BytesIn, r.BytesOut, r.Duration = x.in.Load(), x.out.Load(), x.p.Now().Sub(x.began)
	if r.Cause = "done"; cause != nil {
		r.Cause = Clip(cause.Error(), maxPath)
		x.p.metrics.ends.WithLabelValues(causeLabel(cause)).Inc()
	}
	x.p.metrics.ended(x.class, r)
	x.p.metrics.answered(x.class, r.Status)
	x.write(ctx)
}

// write hands the end's record over, also of a client that has gone.
func (x *exchange) write(ctx context.Context) {
	if err := x.p.Audit(context.WithoutCancel(ctx), x.record); err != nil {
		x.p.metrics.unaudited.Inc()
		x.p.Log.Error("end of a request was not written down", "request", x.id, "cluster", x.record.Cluster, "error", err)
	}
}

func causeLabel(cause error) string {
	switch {
	case errors.Is(cause, errWithdrawn):
		return "access"
	case errors.Is(cause, errDraining):
		return "drain"
	case errors.Is(cause, errGone), errors.Is(cause, errStalled):
		return "client"
	}
	return "cluster"
}

// cause is why ctx ended; fallback when it did not.
func cause(ctx context.Context, fallback error) error {
	switch c := context.Cause(ctx); {
	case c == nil:
		return fallback
	case errors.Is(c, context.Canceled), errors.Is(c, context.DeadlineExceeded):
		return errGone
	default:
		return c
	}
}

// attempts bounds how often a request is passed on: a connection may end the moment that it was found.
const attempts = 3

// send passes the request on, and returns with the beginning of the answer.
func (x *exchange) send(ctx context.Context, r *http.Request, body *requestBody) (*http.Response, *apierrors.StatusError) {
	patience := time.AfterFunc(x.p.Limits.Head, func() { x.cancel(errSlow) })
	defer patience.Stop()
	identity, began := x.identity(), time.Now()
	for attempt := 1; ; attempt++ {
		backend, err := x.p.Reach(ctx, x.cluster)
		if err != nil {
			return nil, x.failed(ctx, err, unreached(x.cluster, err))
		}
		x.backend, x.record.Connection = backend, backend.Name()
		opened := false
		transport := httpstream.Transport{Open: func(ctx context.Context) (tunnelapi.Cluster_ProxyClient, error) {
			stream, err := backend.Open(ctx)
			opened = err == nil
			return stream, err
		}}
		resp, err := transport.RoundTrip(x.request(ctx, r, identity, body))
		if err == nil {
			x.p.metrics.headed(x.class, time.Since(began))
			return resp, nil
		}
		idempotent := (r.Method == http.MethodGet || r.Method == http.MethodHead) && !x.query.Upgrade
		harmless := !body.touched.Load() && (idempotent || !opened)
		if attempt == attempts || !harmless || ctx.Err() != nil || !lost(err) {
			return nil, x.failed(ctx, err, uncarried(x.cluster, err, harmless))
		}
		x.p.metrics.retries.Inc()
		x.backend = nil
		backend.Release()
	}
}

// lost says whether it was the connection that failed.
func lost(err error) bool {
	var carried *httpstream.Error
	return !errors.As(err, &carried) || carried.Code == codes.Unavailable
}

// failed is what a client is told that got no answer: why the exchange was ended, if it was.
func (x *exchange) failed(ctx context.Context, err error, otherwise *apierrors.StatusError) *apierrors.StatusError {
	x.p.Log.Debug("request was not answered", "request", x.id, "cluster", x.cluster, "error", err)
	switch c := context.Cause(ctx); {
	case errors.Is(c, errWithdrawn):
		return forbidden(errWithdrawn.Error())
	case errors.Is(c, errDraining):
		return unavailable(errDraining.Error())
	case errors.Is(c, errSlow):
		return uncarried(x.cluster, &httpstream.Error{Code: codes.DeadlineExceeded, Message: errSlow.Error()}, false)
	}
	return otherwise
}

// request is what goes over the connection: what the client wrote, without what only this hop needs.
func (x *exchange) request(ctx context.Context, in *http.Request, identity *tunnelapi.Identity, body *requestBody) *http.Request {
	call := httpstream.Call{ID: x.id, Identity: identity, Class: x.class}
	path, query, ask := strings.Cut(x.target, "?")
	out := (&http.Request{
		Method: in.Method, Header: outgoing(in.Header), Host: x.cluster,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: "https", Host: x.cluster, Opaque: path, RawQuery: query, ForceQuery: ask && query == ""},
	}).WithContext(httpstream.WithCall(ctx, call))
	out.Body, out.ContentLength = http.NoBody, 0
	if in.ContentLength != 0 && body.ReadCloser != http.NoBody {
		out.Body, out.ContentLength = body, in.ContentLength
	}
	return out
}
