// Package apiproxy owns the local proxy to a cluster's API, through the hub.
//
// It refuses to know what goes over it, and which commands there are.
//
// A request comes in at a door, a listener on this machine alone. A Passage sends it on to the hub, below the path of its
// cluster and with a token for that cluster, and the answer back as it comes: a watch, a log or the two directions of an
// exec for as long as they last. Tokens are asked for when there is none that is still good, and kept on disk for the next
// process.
package apiproxy

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pluralsh/plural/cli/client"
)

// Server is where a cluster's API is at a hub.
func Server(hub *client.Client, cluster string) string {
	return hub.Address() + "/k8s/" + url.PathEscape(cluster)
}

// Proxy is a cluster's API: an http.Handler whose paths are those of the cluster's own.
type Proxy struct {
	proxy *httputil.ReverseProxy
}

// New is the passage to the cluster that tokens are for.
func New(hub *client.Client, tokens *Tokens, log *slog.Logger) (*Proxy, error) {
	server, err := url.Parse(Server(hub, tokens.cluster))
	if err != nil {
		return nil, err
	}
	return &Proxy{&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.URL.RawQuery = r.In.URL.RawQuery // as it is written: the cluster reads it, not this program
			r.Out.Header.Del("Cookie")
		},
		Transport:     newTransport(hub, tokens),
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler:  refuse,
	}}, nil
}

// ServeHTTP sends one request on.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.proxy.ServeHTTP(w, r) }

// transport shows the token.
type transport struct {
	tokens *Tokens
	// upgrades speaks HTTP/1.1 alone: connections change their protocol in no other.
	plain, upgrades *http.Transport
}

func newTransport(hub *client.Client, tokens *Tokens) *transport {
	t := &transport{tokens: tokens, plain: hub.Transport(), upgrades: hub.Transport()}
	t.plain.DisableCompression, t.upgrades.DisableCompression = true, true // answers pass as they are
	t.upgrades.ForceAttemptHTTP2 = false
	t.upgrades.Protocols = new(http.Protocols)
	t.upgrades.Protocols.SetHTTP1(true)
	return t
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.tokens.Token(r.Context())
	if err != nil {
		return nil, err
	}
	// The proxy made this request, so its header may be written to.
	r.Header.Set("Authorization", "Bearer "+token.Token)
	over := t.plain
	if r.Header.Get("Upgrade") != "" {
		over = t.upgrades
	}
	resp, err := over.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.tokens.Forget(token) // the hub withdrew it: the next request asks anew
	}
	return resp, err
}

// refuse answers as an API server does where no answer came.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // whoever asked has left
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: err.Error(),
	}
	var answer *client.Error
	if errors.As(err, &answer) {
		status.Code, status.Reason, status.Message = int32(answer.Status), "", answer.Message
		if answer.Fix != "" {
			status.Message += "; " + answer.Fix
		}
	}
	reply(w, status)
}

func reply(w http.ResponseWriter, status metav1.Status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
