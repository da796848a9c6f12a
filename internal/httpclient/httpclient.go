// Package httpclient owns the HTTP client for servers that a fleet names.
//
// [ParseURL] says which addresses are talked to at all. [Credentials] are what a server may be shown; they go to exactly
// the scheme, host and port that they were given for, and no text shows them. [Client] puts both into an HTTP client that
// is bounded in each direction: time to connect, time to answer, silence in the middle of an answer, length of the
// answer. A server that wants to be left alone is a [RetryError], one that refuses a [StatusError]. What goes to and fro
// is counted by a [Counter].
//
// The package knows no protocol above HTTP: git, Helm and OCI are spoken elsewhere.
package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Bounds of one request.
const (
	dialTimeout    = 15 * time.Second
	headerTimeout  = 60 * time.Second
	idleConnection = 5 * time.Minute
	mostRedirects  = 5

	// DefaultStall is how long an answer may pause.
	DefaultStall = 30 * time.Second
)

// Options describe one client.
type Options struct {
	// For is what the credentials are for: they go to its scheme, host and port, at any redirect, and nowhere else.
	For *url.URL
	// Credentials may be zero.
	Credentials Credentials
	// MaxBytes bounds one answer's body; zero bounds nothing.
	MaxBytes int64
	// Counter counts what goes to and fro; nil counts nothing.
	Counter *Counter
	// NoLoopback refuses servers of this machine, whatever name leads to them. A proxy of the environment is one as well.
	NoLoopback bool
	// OtherHosts follows redirects to other hosts, without credentials. Unset, such a redirect is an error.
	OtherHosts bool
	// Stall is how long an answer may pause before it is given up; zero means DefaultStall.
	Stall time.Duration
}

// Client makes an HTTP client that keeps its connections. It fails when the credentials hold no usable CA certificate.
func Client(o Options) (*http.Client, error) {
	if o.Stall <= 0 {
		o.Stall = DefaultStall
	}
	if o.Counter == nil {
		o.Counter = &Counter{}
	}
	roots, err := o.Credentials.roots()
	if err != nil {
		return nil, err
	}
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = dialer{o.Counter, o.NoLoopback}.dial
	base.ResponseHeaderTimeout = headerTimeout
	base.IdleConnTimeout = idleConnection
	base.MaxIdleConnsPerHost = 2
	base.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	base.ForceAttemptHTTP2 = true
	// A connection whose other end is gone without a word is noticed by a ping that nobody answers.
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: o.Stall, PingTimeout: dialTimeout}
	credentials := o.Credentials.orFrom(o.For)
	return &http.Client{
		Transport:     &guard{base: base, options: &o, credentials: &credentials},
		CheckRedirect: o.redirect,
	}, nil
}

// roots are the system's certificates with the given one; nil means the system's.
func (c Credentials) roots() (*x509.CertPool, error) {
	if len(c.CA) == 0 {
		return nil, nil //nolint:nilnil // crypto/tls reads nil as the system's roots
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, fmt.Errorf("credentials: %s: no PEM certificate in it: paste the CA's certificate from BEGIN to END", keyCA)
	}
	return pool, nil
}

// redirect keeps a server from sending the program, which may sit inside a private network, where nobody wanted it.
func (o *Options) redirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case len(via) > mostRedirects:
		return fmt.Errorf("more than %d redirects", mostRedirects)
	case from.Scheme == "https" && req.URL.Scheme != "https":
		return fmt.Errorf("redirect from %s to unencrypted %s refused", from.Host, req.URL.Host)
	case !o.OtherHosts && !SameHost(from, req.URL):
		return fmt.Errorf("redirect from %s to another host %s refused: name the upstream by its new URL", from.Host, req.URL.Host)
	}
	_, err := ParseURL(req.URL.String(), "https", "http")
	return err
}

// guard adds the credentials, counts, and turns what must not go on into errors.
type guard struct {
	base        *http.Transport
	options     *Options
	credentials *Credentials // by pointer, so that no verb of fmt reaches them
}

// CloseIdleConnections lets http.Client do so.
func (g *guard) CloseIdleConnections() { g.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, stop := watch(req.Context(), g.options.Stall)
	req = req.Clone(ctx)
	if SameHost(req.URL, g.options.For) && req.Header.Get("Authorization") == "" {
		g.credentials.authorize(req)
	}
	g.options.Counter.Request()
	res, err := g.base.RoundTrip(req)
	if err != nil {
		stop.end()
		return nil, err
	}
	res.Body = &body{ReadCloser: res.Body, watch: stop, left: g.options.MaxBytes, bounded: g.options.MaxBytes > 0}
	if err := retryLater(res); err != nil {
		return nil, errors.Join(err, res.Body.Close())
	}
	return res, nil
}

// orFrom takes what a URL brings along where nothing else was given.
func (c Credentials) orFrom(u *url.URL) Credentials {
	if c.Username == "" && c.Bearer == "" && u != nil && u.User != nil {
		c.Username = u.User.Username()
		c.Password, _ = u.User.Password()
	}
	return c
}

func (c *Credentials) authorize(req *http.Request) {
	switch {
	case c.Bearer != "":
		req.Header.Set("Authorization", "Bearer "+c.Bearer)
	case c.Username != "":
		req.SetBasicAuth(c.Username, c.Password)
	}
}
