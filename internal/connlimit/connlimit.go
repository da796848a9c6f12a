// Package connlimit owns a limit on connections that have not sent a request yet.
//
// It refuses to know who anybody is. A server's own deadlines end such connections after a while; this keeps one address
// from having too many of them meanwhile.
package connlimit

import (
	"net"
	"net/http"
	"sync"
)

// Limit is the bound. Its method ConnState is for http.Server.
type Limit struct {
	most int

	mu     sync.Mutex // guards both
	asking map[string]int
	from   map[net.Conn]string
}

// New returns a bound of so many connections for each address. One that many clients share, such as a load balancer's, needs
// room for as many as connect within a handshake's time.
func New(most int) *Limit {
	return &Limit{most: most, asking: make(map[string]int), from: make(map[net.Conn]string)}
}

// ConnState takes note of a connection's state, and closes it when it is one too many.
func (l *Limit) ConnState(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		if !l.add(c) {
			_ = c.Close()
		}
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	address, ok := l.from[c]
	if !ok {
		return
	}
	delete(l.from, c)
	if l.asking[address]--; l.asking[address] == 0 {
		delete(l.asking, address)
	}
}

func (l *Limit) add(c net.Conn) bool {
	address, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return true // no address of the network
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking[address] >= l.most {
		return false
	}
	l.asking[address]++
	l.from[c] = address
	return true
}
