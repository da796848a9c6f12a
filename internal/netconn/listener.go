package netconn

import (
	"net"
	"sync"
)

// Listener accepts connections that somebody else made.
type Listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// NewListener returns a listener that has accepted nothing.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Give has the listener accept a connection, and says false when it is closed; then the connection is still the caller's.
func (l *Listener) Give(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.done:
		return false
	}
}

// Accept waits for a connection, or for Close.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and Give.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr says that there is no address.
func (*Listener) Addr() net.Addr { return Addr("none") }

// Addr names the end of a connection that has no address of its own.
type Addr string

// Network is "stream".
func (Addr) Network() string { return "stream" }

func (a Addr) String() string { return string(a) }
