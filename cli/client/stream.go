package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Trust adds certificates, PEM, to those that the system knows hubs by. It comes before the first request.
func (c *Client) Trust(certificates []byte) error {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(certificates) {
		return errors.New("read certificates for the hub: there is no certificate in PEM")
	}
	c.transport().TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return nil
}

// Dial has the hub be reached by another dialer than the network's own. It comes before the first request.
func (c *Client) Dial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.transport().DialContext = dial
}

// Transport is one of its own, for requests to this hub that may take as long as they like, such as a watch.
func (c *Client) Transport() *http.Transport {
	t := c.transport().Clone()
	t.ResponseHeaderTimeout = 0
	return t
}

// Fingerprint tells clients apart that ask different hubs, or as different people, or about different repositories. It does not
// tell the token.
func (c *Client) Fingerprint() string {
	sum := sha256.Sum256([]byte(c.Address() + "\x00" + *c.token.Load() + "\x00" + c.repository))
	return hex.EncodeToString(sum[:])
}

func (c *Client) transport() *http.Transport { return c.http.Transport.(*http.Transport) }

// KubeToken asks for a token for the API of a cluster.
func (c *Client) KubeToken(ctx context.Context, cluster string) (*v1.KubeToken, error) {
	return post[v1.KubeToken](ctx, c, "/v1/kube/token", v1.KubeTokenRequest{Cluster: cluster})
}

// SyncService has agents look at a service now: those of some clusters or, where none are named, of all.
func (c *Client) SyncService(ctx context.Context, name string, clusters []string) (*v1.Synced, error) {
	return post[v1.Synced](ctx, c, "/v1/services/"+url.PathEscape(name)+"/sync", v1.SyncRequest{Clusters: clusters})
}

// Text streams the lines of a log: path is below /v1. The caller closes it; it also ends with ctx.
func (c *Client) Text(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	//nolint:bodyclose // the caller closes it, by text
	resp, err := c.send(ctx, http.MethodGet, target, "text/plain", nil, c.endless())
	if err != nil {
		return nil, err
	}
	return &text{resp.Body, c, ctx}, nil
}

// text is a stream that says, where it breaks, whose it was.
type text struct {
	io.ReadCloser
	c   *Client
	ctx context.Context //nolint:containedctx // the request's own: it tells an end that was wanted from one that was not
}

func (t *text) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = t.c.unreachable(t.ctx, err)
	}
	return n, err
}

// post asks with a body, and decodes what comes back.
func post[T any](ctx context.Context, c *Client, path string, question any) (*T, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("ask hub: %w", err)
	}
	resp, err := c.send(ctx, http.MethodPost, c.base.String()+path, "application/json", body, c.http)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	var answer T
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("read %s of hub %s: %w", path, c.Address(), err)
	}
	return &answer, nil
}

// send is the answer to one request, which is in 2xx. The caller closes its body.
func (c *Client) send(ctx context.Context, method, target, accept string, body []byte, over *http.Client) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask hub: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", c.userAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.identify(req)
	resp, err := c.ask(req, over)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	told, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if foreign(resp, told) {
		return nil, &NoHub{refusal(resp, told)}
	}
	return nil, refusal(resp, told)
}

// maxRefusal bounds what is read of an answer outside 2xx.
const maxRefusal = 64 << 10
