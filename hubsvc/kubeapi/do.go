package kubeapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/pluralsh/plural/internal/principal"
)

// Do sends a request of a person to a cluster's API server from within this process, by the same way as everybody's. The
// request's path is the API server's; its RemoteAddr and headers say for the record where it came from. What the hub itself
// answers is an error, a *StatusError of k8s.io/apimachinery. The answer's body has to be closed; after a switch of protocols
// it is an io.ReadWriteCloser with CloseWrite.
func (p *Proxy) Do(ctx context.Context, who principal.Person, cluster string, r *http.Request) (*http.Response, error) {
	r = measured(r)
	ctx, x, refusal := p.begin(ctx, asked{who, cluster, r.URL.RequestURI(), plainName(cluster), r})
	if refusal != nil {
		return nil, refusal
	}
	body := &requestBody{ReadCloser: r.Body, count: &x.in}
	resp, refusal := x.send(ctx, r, body)
	if refusal != nil {
		x.record.Status = int(refusal.ErrStatus.Code)
		r.Body.Close()
		x.end(ctx, cause(ctx, refusal))
		return nil, refusal
	}
	x.record.Status = resp.StatusCode
	resp.Header = answer(resp.Header, "")
	resp.Body = x.body(ctx, resp.Body, r.Body)
	return resp, nil
}

// measured is the request as a server would see it: its body is there, and has a length or an unknown one.
func measured(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	switch {
	case r.Body == nil, r.Body == http.NoBody:
		r.Body, r.ContentLength = http.NoBody, 0
	case r.ContentLength == 0:
		r.ContentLength = -1
	}
	return r
}

// body is an answer's body that ends its exchange when it is closed.
func (x *exchange) body(ctx context.Context, from io.ReadCloser, asked io.Closer) io.ReadCloser {
	b := &answerBody{exchange: x, from: from}
	b.end = sync.OnceValue(func() error {
		err := from.Close()
		asked.Close()
		x.end(ctx, cause(ctx, b.failure()))
		return err
	})
	if connection, ok := from.(halves); ok {
		return &answerConn{b, connection}
	}
	return b
}

type answerBody struct {
	*exchange
	from io.ReadCloser
	end  func() error
	mu   sync.Mutex // guards err
	err  error      // how reading ended
}

func (b *answerBody) Read(to []byte) (int, error) {
	n, err := b.from.Read(to)
	b.out.Add(int64(n))
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}
	return n, err
}

func (b *answerBody) Close() error { return b.end() }

// failure is why the body did not come to its end.
func (b *answerBody) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err == nil:
		return errGone
	case errors.Is(b.err, io.EOF):
		return nil
	}
	return b.err
}

// answerConn is an answer's body that is a connection.
type answerConn struct {
	*answerBody
	to halves
}

func (c *answerConn) Write(chunk []byte) (int, error) {
	n, err := c.to.Write(chunk)
	c.in.Add(int64(n))
	return n, err
}

func (c *answerConn) CloseWrite() error { return c.to.CloseWrite() }
