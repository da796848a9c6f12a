package simkubelet

import (
	"io"
	"net"
	"time"
)

// lingering are connections whose last words arrive. A system that gets bytes for a connection that was closed answers with a
// reset, and the peer then loses what it has not read yet: here commands end so soon that their client is often still
// sending.
type lingering struct{ net.Listener }

// lingerTime bounds how long a peer is listened to that has been told everything.
const lingerTime = 2 * time.Second

func (l lingering) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return &lingeringConn{TCPConn: tcp}, nil
	}
	return conn, err
}

type lingeringConn struct{ *net.TCPConn }

// Close ends what is sent at once, and listens for a while longer in the background.
func (c *lingeringConn) Close() error {
	err := c.CloseWrite()
	if err != nil || c.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return c.TCPConn.Close()
	}
	go func() {
		_, _ = io.Copy(io.Discard, c.TCPConn) // whatever it says comes too late
		_ = c.TCPConn.Close()
	}()
	return nil
}
