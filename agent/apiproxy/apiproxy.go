// Package apiproxy owns the proxy for people's requests to the cluster's own API server.
//
// It refuses to know how a request came here, and takes the hub's word for nothing but who asks: the identity must be bound to
// this cluster and stand apart from all that the cluster knows by itself. What the person may do is decided by the cluster's RBAC,
// which sees them by impersonation, after the cluster's own policy, which can only narrow it.
//
// A request passes through like this: identity, policy, headers without anything that says who asks, impersonation set last,
// one round trip to the one API server that there is. No redirect is followed. What is under way when the policy changes is
// judged again.
package apiproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api/httpstream"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/internal/kubeaccess"
)

// Options say whose requests go where.
type Options struct {
	// Kube is the cluster's API server. Whom it impersonates does not count.
	Kube *rest.Config
	// Cluster is this cluster's name; identities that are bound to another are refused.
	Cluster string
	// TokenFile holds the token of an account that may impersonate and do nothing else; it is read again when it changes.
	// Empty: Kube's own account is used, or that of Account.
	TokenFile string
	// Account is the service account, in Namespace, that requests are made with. Kube's own account gives out its tokens, and says in
	// the ClusterRole of that name with "-people" behind it whom it may impersonate. Empty: TokenFile's.
	Account string
	// Policy is asked for each request.
	Policy func() Policy
	Now    func() time.Time
	Log    *slog.Logger
}

// Handler answers with what the API server does.
type Handler struct {
	cluster string
	server  *url.URL
	policy  func() Policy
	now     func() time.Time
	log     *slog.Logger
	// token is nil when the transports authenticate by themselves; account when it may impersonate whomever it may.
	token   tokens
	account *account
	// pooled is for requests with answers, quick for those that only ask and are soon over; fresh makes a connection for each upgrade.
	pooled, quick, fresh http.RoundTripper
	buffers              sync.Pool
	underway             underway
}

// New makes the handler of requests that come by api/httpstream.
func New(o Options) (*Handler, error) {
	if o.Kube == nil || o.Cluster == "" || o.Policy == nil {
		return nil, errors.New("reach: an API server, a cluster's name and a policy are needed")
	}
	server, _, err := rest.DefaultServerUrlFor(o.Kube)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	h := &Handler{cluster: o.Cluster, server: server, policy: o.Policy, now: o.Now, log: o.Log}
	if h.now == nil {
		h.now = time.Now
	}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Account != "":
		if h.account, err = newAccount(o.Kube, o.Account, h.now); err != nil {
			return nil, err
		}
		h.token = h.account
	case o.TokenFile != "":
		file := &tokenFile{path: o.TokenFile, now: h.now}
		if _, err := file.get(context.Background()); err != nil {
			return nil, err
		}
		h.token = file
	}
	h.buffers.New = func() any { return new([tunnelapi.MaxData]byte) }
	if h.pooled, h.quick, h.fresh, err = transports(o.Kube, h.token != nil); err != nil {
		return nil, err
	}
	return h, nil
}

// ServeHTTP answers one request, for as long as the policy lets it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call, ok := httpstream.CallOf(r.Context())
	if !ok {
		refuse(w, forbidden("the request came without an identity"))
		return
	}
	q, refused := h.identify(call, r)
	if refused != nil {
		refuse(w, refused)
		return
	}
	ctx, leave := h.underway.enter(r.Context(), call.Identity, q)
	defer leave()
	if refused := h.judge(call, q); refused != nil { // in this order: a policy that changes from now on finds the request
		refuse(w, refused)
		return
	}
	if h.account != nil {
		if err := h.account.admit(ctx, call.Identity); err != nil {
			h.log.Error("a person cannot be let in", "request_id", call.ID, "user", call.Identity.GetUser(), "error", err)
			refuse(w, unavailable("the agent cannot make requests as "+call.Identity.GetUser()+": see its log"))
			return
		}
	}
	out, err := h.outgoing(ctx, call, r)
	if err != nil {
		refuse(w, unavailable(err.Error()))
		return
	}
	if call.Class == tunnelapi.Class_UPGRADE {
		h.upgrade(w, out, q)
		return
	}
	if call.Class == tunnelapi.Class_UNARY && r.Body == http.NoBody && asks(r.Method, q) {
		h.exchange(w, h.quick, out, q)
	} else {
		h.exchange(w, h.pooled, out, q)
	}
}

// asks says of a request that it is for what the API server itself knows, all of it at once: not for what somebody behind it says
// in their own time, such as a log.
func asks(method string, q kubeaccess.Request) bool {
	switch {
	case method != http.MethodGet && method != http.MethodHead, q.Subresource != "", q.Endless:
		return false
	case q.Resource:
		return true
	}
	return q.Path == "/version" || q.Path == "/api" || q.Path == "/apis" || strings.HasPrefix(q.Path, "/apis/") ||
		strings.HasPrefix(q.Path, "/api/") || strings.HasPrefix(q.Path, "/openapi/")
}

// identify says what is asked for, by somebody who can be impersonated here.
func (h *Handler) identify(call httpstream.Call, r *http.Request) (kubeaccess.Request, *refusal) {
	who := call.Identity
	if cause := h.doubt(who); cause != "" { // which the hub should have seen
		h.log.Warn("refused an identity", "request_id", call.ID, "user", who.GetUser(), "cause", cause)
		return kubeaccess.Request{}, forbidden(cause)
	}
	q, err := kubeaccess.Parse(r.Method, r.RequestURI, r.Header)
	if err != nil {
		return q, badRequest(err.Error())
	}
	return q, nil
}

// judge says why the policy does not let a request through, if it does not.
func (h *Handler) judge(call httpstream.Call, q kubeaccess.Request) *refusal {
	cause := h.policy().forbids(call.Identity, q)
	if cause == "" {
		return nil
	}
	user := call.Identity.GetUser()
	h.log.Debug("refused a request", "request_id", call.ID, "user", user, "cause", cause)
	return forbidden(fmt.Sprintf("%s may not %s in cluster %s: %s", user, q.Describe(), h.cluster, cause))
}

// outgoing makes the request to the API server. Whatever the incoming one says about who asks is left out once more, and what is
// known of it is set last, so that nothing can take it away again.
func (h *Handler) outgoing(ctx context.Context, call httpstream.Call, r *http.Request) (*http.Request, error) {
	header := maps.Clone(r.Header)
	if err := httpstream.CleanRequest(header); err != nil {
		return nil, err
	}
	if token := httpstream.Upgrade(r.Header); call.Class == tunnelapi.Class_UPGRADE && token != "" {
		header["Connection"], header["Upgrade"] = []string{"Upgrade"}, []string{token}
	}
	if len(header["User-Agent"]) == 0 {
		header["User-Agent"] = []string{""} // else there would be Go's
	}
	if h.token != nil {
		token, err := h.token.get(ctx)
		if err != nil {
			h.log.Error("the account for people's requests has no token", "request_id", call.ID, "error", err)
			return nil, errors.New("the agent has no token for people's requests: see its log")
		}
		header["Authorization"] = []string{"Bearer " + token}
	}
	impersonate(header, call)
	target := *r.URL
	target.Scheme, target.Host, target.User = h.server.Scheme, h.server.Host, nil
	if base := strings.TrimSuffix(h.server.Path, "/"); base != "" {
		target.Path, target.RawPath = base+r.URL.Path, strings.TrimSuffix(h.server.EscapedPath(), "/")+r.URL.EscapedPath()
	}
	out := &http.Request{
		Method: r.Method, URL: &target, Header: header, Body: r.Body, ContentLength: r.ContentLength,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	return out.WithContext(ctx), nil
}
