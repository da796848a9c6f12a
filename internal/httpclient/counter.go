package httpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"

	"github.com/pluralsh/plural/internal/netguard"
)

// Counter counts requests, and the bytes that came back over the network, whatever they were wrapped in. It is safe for
// concurrent use, and its zero value has counted nothing.
type Counter struct{ requests, bytes atomic.Int64 }

// Totals are the counts so far.
func (c *Counter) Totals() (requests, bytes int64) { return c.requests.Load(), c.bytes.Load() }

// Request counts one.
func (c *Counter) Request() { c.requests.Add(1) }

// Reader counts what is read through it.
func (c *Counter) Reader(r io.Reader) io.Reader { return &countingReader{r, &c.bytes} }

type countingReader struct {
	io.Reader
	bytes *atomic.Int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.bytes.Add(int64(n))
	return n, err
}

// Dial connects as [Client] does, for what is not HTTP: counted, within 15 s, and never to a link-local address, nor to this
// machine where that is not to be.
func Dial(ctx context.Context, address string, noLoopback bool, count *Counter) (net.Conn, error) {
	return dialer{count, noLoopback}.dial(ctx, "tcp", address)
}

// dialer is how servers that people named are reached.
type dialer struct {
	count      *Counter
	noLoopback bool
}

func (d dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	guarded := net.Dialer{Timeout: dialTimeout, Control: netguard.Policy{Loopback: !d.noLoopback}.Control}
	conn, err := guarded.DialContext(ctx, network, address)
	if refused := new(netguard.Error); errors.As(err, &refused) && refused.Loopback {
		err = fmt.Errorf("%w: a hub that may reach servers of its own machine is started with --allow-loopback", err)
	}
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, &d.count.bytes}, nil
}

// CloseWrite tells the other end that nothing more comes. What [Dial] returns has it.
func (c *countingConn) CloseWrite() error {
	if half, ok := c.Conn.(*net.TCPConn); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}
