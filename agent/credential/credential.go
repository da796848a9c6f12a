// Package credential owns the agent's credential towards its hub.
//
// It refuses to know what is asked. Each request carries a token that is good on the very TLS connection over which it goes:
// one that somebody finds in a log is worth nothing to them. Where something between agent and hub ends TLS, the two ends see
// different connections; the hub says so, and from then on tokens are bound to none.
package credential

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/pluralsh/plural/api/token"
)

// maxRefusal bounds what is read of an answer that is not looked at, in bytes.
const maxRefusal = 1 << 10

// Credential makes the tokens of requests to one hub. It is safe for concurrent use.
type Credential struct {
	token   func(binding []byte) (string, error)
	unbound atomic.Bool
}

// New returns a credential of tokens that are good on the TLS connection with the given token.Binding alone; nil: on any.
func New(token func(binding []byte) (string, error)) *Credential { return &Credential{token: token} }

// Binding is what tokens on a connection are bound to; nil: nothing.
func (c *Credential) Binding(conn net.Conn) []byte {
	encrypted, ok := conn.(*tls.Conn)
	if !ok || c.unbound.Load() {
		return nil
	}
	state := encrypted.ConnectionState()
	return token.Binding(&state)
}

// Over is a transport whose requests carry a token.
func (c *Credential) Over(transport *http.Transport) *Transport { return &Transport{transport, c} }

// Transport sends requests with a token.
type Transport struct {
	*http.Transport
	credential *Credential
}

// RoundTrip sends the request, and once more with a token that is bound to nothing when the hub says that TLS does not end with
// it. A request whose body cannot be sent twice is left to whoever tries again.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, bound, err := t.send(r)
	if err != nil || !bound || response.StatusCode != http.StatusUnauthorized || response.Header.Get(token.Elsewhere) == "" {
		return response, err
	}
	t.credential.unbound.Store(true)
	again := r.Clone(r.Context())
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return response, nil
		}
		if again.Body, err = r.GetBody(); err != nil {
			return response, nil //nolint:nilerr // the answer that there is says what is wrong
		}
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxRefusal) // so that the connection can be used again
	_ = response.Body.Close()
	response, _, err = t.send(again)
	return response, err
}

// send sends the request once, and says whether its token was bound. Over which connection it goes shows only when it has one;
// the header is set then, before anything is written. Where there is no token, nothing is.
func (t *Transport) send(r *http.Request) (response *http.Response, bound bool, err error) {
	var failed error
	var out *http.Request
	out = r.Clone(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		binding := t.credential.Binding(got.Conn)
		raw, err := t.credential.token(binding)
		if err != nil {
			failed = err
			_ = got.Conn.Close()
			return
		}
		bound = binding != nil
		out.Header.Set("Authorization", "Bearer "+raw)
	}}))
	response, err = t.Transport.RoundTrip(out)
	if failed != nil {
		err = failed
	}
	return response, bound, err
}
