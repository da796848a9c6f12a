package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// idleTime is how long a connection is kept for the next request: longer than the wait between two fetches.
	idleTime = 5 * time.Minute
	// stallTime is how long a peer may send nothing, before its answer begins and within it.
	stallTime = 30 * time.Second
	// connections bounds those to one peer; further requests wait for one.
	connections = 32
)

// Client asks other replicas. It is safe for concurrent use, and keeps its connections.
type Client struct {
	http *http.Client
	// plain speaks HTTP, to this machine alone.
	plain bool
}

// NewClient returns a client that shows the certificate of the configuration, and trusts the authorities (RootCAs) in
// it. Nil means plain HTTP, to addresses of the loopback interface alone.
func NewClient(certificates *tls.Config) *Client {
	if certificates != nil {
		certificates = certificates.Clone()
		certificates.MinVersion = tls.VersionTLS13
	}
	dialer := &net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}
	return &Client{
		plain: certificates == nil,
		http: &http.Client{
			// One request a connection: HTTP/2 would send all packs and bundles through one window.
			Transport: &http.Transport{
				TLSClientConfig:        certificates,
				DialContext:            dialer.DialContext,
				TLSHandshakeTimeout:    5 * time.Second,
				IdleConnTimeout:        idleTime,
				MaxConnsPerHost:        connections,
				MaxIdleConnsPerHost:    connections,
				MaxResponseHeaderBytes: 16 << 10,
				DisableCompression:     true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("peers do not redirect") },
		},
	}
}

// Bundle gets a bundle from the replica at addr (host:port). The error is fs.ErrNotExist when the key means nothing
// there. Reading fails, instead of ending, when the bytes do not have the digest that the peer took when it packed
// them. The caller closes it.
func (c *Client) Bundle(ctx context.Context, addr, key string) (io.ReadCloser, error) {
	answer, err := c.get(ctx, addr, bundlePath+url.PathEscape(key), nil, new(traffic))
	if err != nil {
		return nil, err
	}
	sum, err := parseDigest(answer.Header.Get(digestHeader))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("get bundle from the replica at %s: %w", addr, err), answer.Body.Close())
	}
	return newVerified(answer.Body, sum), nil
}

// maxAudit bounds an answer about an audit log, in bytes.
const maxAudit = 16 << 20

// Audit has the replica at addr (host:port) answer about its audit log.
func (c *Client) Audit(ctx context.Context, addr, what, question string) ([]byte, error) {
	path := auditPath + url.PathEscape(what) + "?" + url.Values{"q": {question}}.Encode()
	answer, err := c.get(ctx, addr, path, nil, new(traffic))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAudit+1))
	if err == nil && len(body) > maxAudit {
		err = fmt.Errorf("the answer is larger than %d bytes", maxAudit)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the replica at %s: %w", addr, err)
	}
	return body, nil
}

// traffic counts requests, and bytes of bodies.
type traffic struct{ requests, bytes atomic.Int64 }

// get asks the replica at addr. An answer that is no answer to the question is an error: fs.ErrNotExist for a 404. The
// body fails when the peer stops sending, and ends with ctx.
func (c *Client) get(
	ctx context.Context, addr, path string, header http.Header, count *traffic,
) (*http.Response, error) {
	scheme := "https"
	if c.plain {
		scheme = "http"
		if !loopback(addr) {
			err := errors.New("replicas on other machines are asked by TLS alone: give the replicas certificates")
			return nil, fmt.Errorf("ask the replica at %s: %w", addr, err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(stallTime, func() { cancel(errStalled) })
	end := func() { stall.Stop(); cancel(nil) }
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+addr+path, nil)
	if err != nil {
		end()
		return nil, fmt.Errorf("ask the replica at %s: %w", addr, err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	count.requests.Add(1)
	answer, err := c.http.Do(request)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		end()
		return nil, fmt.Errorf("ask the replica at %s: %w", addr, plainly(err))
	}
	stall.Stop()
	answer.Body = &liveBody{ReadCloser: answer.Body, ctx: ctx, stall: stall, end: end, count: &count.bytes}
	switch answer.StatusCode {
	case http.StatusOK, http.StatusPartialContent, http.StatusNotModified:
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // what cannot be read is not said
	said := strings.TrimSpace(strings.ToValidUTF8(string(text), "?"))
	err = fmt.Errorf("the replica at %s says %d: %s", addr, answer.StatusCode, said)
	if answer.StatusCode == http.StatusNotFound {
		err = &notFound{err}
	}
	return nil, err
}

// plainly takes the request off an error that repeats it.
func plainly(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		return u.Err
	}
	return err
}

// notFound is an answer of 404.
type notFound struct{ error }

func (e *notFound) Is(target error) bool { return target == fs.ErrNotExist }
func (e *notFound) Unwrap() error        { return e.error }
