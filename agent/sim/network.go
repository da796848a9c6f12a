package sim

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout = 10 * time.Second
	// slowBuffer is what the system holds for a slow reader, in bytes: with more of it the hub would not notice.
	slowBuffer = 4 << 10
)

// line is what lies between one agent and the hub. It is safe for concurrent use.
type line struct {
	opened *atomic.Int64
	// rate is how many bytes a second can be read; zero means any number.
	rate atomic.Int64

	mu      sync.Mutex // guards what follows
	open    []*conn
	stalled chan struct{} // closed by resume; nil while everything passes
}

func (l *line) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := l.pass(ctx.Done()); err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.opened.Add(1)
	c := &conn{Conn: raw, line: l, rate: l.rate.Load(), closed: make(chan struct{})}
	if tcp, ok := raw.(*net.TCPConn); ok && c.rate > 0 {
		_ = tcp.SetReadBuffer(slowBuffer) // without it the line is slow all the same
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, c)
	return c, nil
}

// pass waits while the line is stalled.
func (l *line) pass(until <-chan struct{}) error {
	l.mu.Lock()
	stalled := l.stalled
	l.mu.Unlock()
	if stalled == nil {
		return nil
	}
	select {
	case <-stalled:
		return nil
	case <-until:
		return net.ErrClosed
	}
}

func (l *line) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled == nil {
		l.stalled = make(chan struct{})
	}
}

func (l *line) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalled != nil {
		close(l.stalled)
		l.stalled = nil
	}
}

// cut resets every connection: the hub sees at once that they are gone.
func (l *line) cut() {
	l.mu.Lock()
	open := slices.Clone(l.open)
	l.mu.Unlock()
	for _, c := range open {
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a connection that is gone is cut already
		}
		_ = c.Close()
	}
}

func (l *line) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = slices.DeleteFunc(l.open, func(other *conn) bool { return other == c })
}

// conn is one connection over a line.
type conn struct {
	net.Conn
	line   *line
	rate   int64
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn. What arrived while the line was stalled is held back until it is not.
func (c *conn) Read(p []byte) (int, error) {
	if c.rate > 0 {
		p = p[:min(len(p), slowBuffer)]
	}
	n, err := c.Conn.Read(p)
	if held := c.line.pass(c.closed); held != nil {
		return 0, held
	}
	if c.rate > 0 {
		c.wait(time.Second * time.Duration(n) / time.Duration(c.rate))
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if err := c.line.pass(c.closed); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.line.drop(c)
	})
	return c.Conn.Close()
}

func (c *conn) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.closed:
	}
}
