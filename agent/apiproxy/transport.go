package apiproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/api/tunnelapi"
)

const (
	handshakeTimeout = 10 * time.Second
	idleTimeout      = 90 * time.Second
	// pingAfter and pongWithin find a connection that is dead, under watches that may be silent for long.
	pingAfter  = 30 * time.Second
	pongWithin = 15 * time.Second
	// streamWindow is what one answer may hold in memory here while its reader is stopped, in bytes.
	streamWindow = 256 << 10
)

// transports authenticate as the agent does, unless anonymous. They never impersonate: the wrapper that client-go has for that
// lets requests pass which already name somebody.
func transports(kube *rest.Config, anonymous bool) (pooled, quick, fresh http.RoundTripper, err error) {
	config := rest.CopyConfig(kube)
	if anonymous {
		config = rest.AnonymousClientConfig(kube) // a certificate would count before the token
	}
	config.Impersonate = rest.ImpersonationConfig{}
	config.UserAgent = "" // people's own are passed on
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("prepare TLS to the API server: %w", err)
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if pooled, err = wrap(config, pool(config, secure)); err != nil {
		return nil, nil, nil, err
	}
	if quick, err = newQuick(config, kept(config, secure), pooled); err != nil {
		return nil, nil, nil, err
	}
	fresh, err = wrap(config, single(config, secure))
	return pooled, quick, fresh, err
}

func wrap(config *rest.Config, transport *http.Transport) (http.RoundTripper, error) {
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, fmt.Errorf("prepare authentication at the API server: %w", err)
	}
	return wrapped, nil
}

func base(config *rest.Config, secure *tls.Config) *http.Transport {
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: config.Dial, TLSClientConfig: secure.Clone(),
		TLSHandshakeTimeout: handshakeTimeout, IdleConnTimeout: idleTimeout,
		MaxIdleConnsPerHost: maxQuick, MaxResponseHeaderBytes: tunnelapi.MaxHeaders,
		DisableCompression: true, // what was asked for is passed on as it comes
	}
	if config.Proxy != nil {
		t.Proxy = config.Proxy
	}
	return t
}

// pool shares connections, by HTTP/2 where the API server has it.
func pool(config *rest.Config, secure *tls.Config) *http.Transport {
	t := base(config, secure)
	t.TLSClientConfig.NextProtos = nil
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = &http.HTTP2Config{
		SendPingTimeout: pingAfter, PingTimeout: pongWithin, MaxReceiveBufferPerStream: streamWindow,
	}
	return t
}

// kept keeps connections that are one request's at a time, by HTTP/1.1, which has no pings: the kernel finds the dead ones.
func kept(config *rest.Config, secure *tls.Config) *http.Transport {
	t := base(config, secure)
	if t.DialContext == nil {
		t.DialContext = (&net.Dialer{Control: giveUp}).DialContext
	}
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	return t
}

// single makes a connection for each request, by HTTP/1.1, which alone can be upgraded.
func single(config *rest.Config, secure *tls.Config) *http.Transport {
	t := kept(config, secure)
	t.DisableKeepAlives = true
	return t
}

// tokens gives the token that requests are made with.
type tokens interface {
	get(ctx context.Context) (string, error)
}

// tokenFile is a token that something else renews.
type tokenFile struct {
	path string
	now  func() time.Time
	// mu guards the rest.
	mu    sync.Mutex
	token string
	read  time.Time
}

// tokenAge is how old the knowledge of the file may be.
const tokenAge = 10 * time.Second

// get is the newest token that could be read.
func (f *tokenFile) get(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && f.now().Sub(f.read) < tokenAge {
		return f.token, nil
	}
	text, err := os.ReadFile(f.path)
	token := string(bytes.TrimSpace(text))
	switch {
	case err == nil && token != "":
		f.token, f.read = token, f.now()
	case f.token != "": // the old one may do until the file is whole again
	case err != nil:
		return "", fmt.Errorf("read token file: %w", err)
	default:
		return "", fmt.Errorf("token file %q is empty: write the token of an account there that may impersonate", f.path)
	}
	return f.token, nil
}
