// Package netconn owns a net.Conn over another two-way stream of bytes.
//
// It refuses to know what goes over it. Such streams know no deadlines, so one that passes here ends the connection; who
// needs to go on reading after a deadline cannot use it.
package netconn

import (
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is a stream as a net.Conn. One goroutine may read while another writes.
type Conn struct {
	stream        io.ReadWriteCloser
	local, remote net.Addr
	once          sync.Once
	done          chan struct{}
	expired       atomic.Bool
	in, out       atomic.Int64

	mu          sync.Mutex // guards both
	read, write *time.Timer
}

// New returns a connection over the stream, which it closes once. The stream's Close has to end Read and Write that are
// under way.
func New(stream io.ReadWriteCloser, local, remote net.Addr) *Conn {
	return &Conn{stream: stream, local: local, remote: remote, done: make(chan struct{})}
}

// Done is closed when the connection is.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Bytes are how many were read and written.
func (c *Conn) Bytes() (in, out int64) { return c.in.Load(), c.out.Load() }

// Read reads from the stream.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.stream.Read(p)
	c.in.Add(int64(n))
	return n, c.say(err)
}

// Write writes to the stream.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.stream.Write(p)
	c.out.Add(int64(n))
	return n, c.say(err)
}

// say prefers why the connection ended to what its end looked like.
func (c *Conn) say(err error) error {
	switch {
	case err == nil || err == io.EOF: //nolint:errorlint // a wrapped one is none to readers either
		return err
	case c.expired.Load():
		return os.ErrDeadlineExceeded
	}
	return err
}

// Close ends the stream; only the first call does something.
func (c *Conn) Close() (err error) {
	c.once.Do(func() {
		_ = c.SetDeadline(time.Time{})
		close(c.done)
		err = c.stream.Close()
	})
	return err
}

// LocalAddr is the address that New was given.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address that New was given.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines. A zero one is none.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline ends the connection at t, unless another deadline for reading is set before.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.arm(&c.read, t) }

// SetWriteDeadline is as SetReadDeadline, for writing.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.arm(&c.write, t) }

func (c *Conn) arm(timer **time.Timer, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
	if t.IsZero() {
		return nil
	}
	select {
	case <-c.done:
		return net.ErrClosed
	default:
	}
	*timer = time.AfterFunc(time.Until(t), func() {
		c.expired.Store(true)
		_ = c.Close()
	})
	return nil
}
