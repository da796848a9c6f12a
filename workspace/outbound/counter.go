package outbound

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
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

// Dial connects as [Client] does, for what is not HTTP: counted, within 15 s, and never to a link-local address.
func Dial(ctx context.Context, address string, count *Counter) (net.Conn, error) {
	return count.dial(ctx, "tcp", address)
}

func (c *Counter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err == nil && linkLocal(at.Addr()) {
			return fmt.Errorf("%s is a link-local address, where clouds keep their machines' credentials: refused", at.Addr())
		}
		return nil
	}}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countingConn{conn, &c.bytes}, nil
}

func linkLocal(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a == netip.MustParseAddr("fd00:ec2::254")
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
