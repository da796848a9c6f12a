// Package relay owns TCP relays between named peers that a test can cut.
//
// It knows nothing of what is said on them. Each [Network.Link] listens on the loopback interface for one peer's
// connections to another, and passes bytes on until the test stalls, delays or cuts what flows from one to the other;
// the other direction goes on, so asymmetric partitions can be had. What is stalled arrives after the network healed,
// the end of a connection too, as it does where packets are lost.
package relay

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// chunk is how much is passed on at once.
const chunk = 32 << 10

// Network is a set of links. The zero value passes everything on. It is safe for concurrent use.
type Network struct {
	mu         sync.Mutex // guards what follows
	directions map[pair]*direction
	listeners  []net.Listener
	conns      map[*conn]bool
	closed     bool
	running    sync.WaitGroup
}

type pair struct{ from, to string }

// conn is a connection that one peer made to another, in two halves.
type conn struct {
	pair
	near, far net.Conn
	once      sync.Once
	done      chan struct{}
}

func (c *conn) close() {
	c.once.Do(func() {
		close(c.done)
		_ = c.near.Close()
		_ = c.far.Close()
	})
}

// direction is what happens to all bytes from one peer to another.
type direction struct {
	mu    sync.Mutex // guards what follows
	open  chan struct{}
	delay time.Duration
	cut   bool
}

// Link gives the address at which from reaches to, which listens on target. Close ends it.
func (n *Network) Link(ctx context.Context, from, to, target string) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for %s to %s: %w", from, to, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners = append(n.listeners, listener)
	n.running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			n.running.Go(func() { n.carry(pair{from, to}, near, target) })
		}
	})
	return listener.Addr().String(), nil
}

// carry joins a connection to its target until either side ends it.
func (n *Network) carry(p pair, near net.Conn, target string) {
	there, back := n.direction(p), n.direction(pair{p.to, p.from})
	if there.isCut() || back.isCut() {
		_ = near.Close()
		return
	}
	far, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", target)
	if err != nil {
		_ = near.Close()
		return
	}
	c := &conn{pair: p, near: near, far: far, done: make(chan struct{})}
	if !n.add(c) {
		c.close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { there.pump(c, far, near) })
	both.Go(func() { back.pump(c, near, far) })
	both.Wait()
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

func (n *Network) add(c *conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conns == nil {
		n.conns = make(map[*conn]bool)
	}
	n.conns[c] = true
	return !n.closed
}

// pump passes on what src says until it ends, which it passes on too.
func (d *direction) pump(c *conn, dst io.Writer, src io.Reader) {
	defer c.close()
	buffer := make([]byte, chunk)
	for {
		read, err := src.Read(buffer)
		if !d.pass(c.done) {
			return
		}
		if _, failed := dst.Write(buffer[:read]); failed != nil || err != nil {
			return
		}
	}
}

// pass waits until the direction lets bytes through, and says false when the connection ended before.
func (d *direction) pass(done <-chan struct{}) bool {
	d.mu.Lock()
	open, delay := d.open, d.delay
	d.mu.Unlock()
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-done:
			return false
		case <-timer.C:
		}
	}
	select {
	case <-done:
		return false
	case <-open:
		return true
	}
}

func (d *direction) isCut() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cut
}

func (n *Network) direction(p pair) *direction {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.directions[p]
	if d == nil {
		if n.directions == nil {
			n.directions = make(map[pair]*direction)
		}
		d = &direction{open: make(chan struct{})}
		close(d.open)
		n.directions[p] = d
	}
	return d
}

// Stall holds everything back that from says to to, on connections of both, until Heal.
func (n *Network) Stall(from, to string) {
	d := n.direction(pair{from, to})
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.open:
		d.open = make(chan struct{})
	default: // stalled already
	}
}

// Delay holds each part of what from says to to back for some time. Throughput falls with it: one part is on its way at
// once.
func (n *Network) Delay(from, to string, by time.Duration) {
	d := n.direction(pair{from, to})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = by
}

// Cut ends all connections between two peers, and each new one at once, until Heal.
func (n *Network) Cut(a, b string) {
	for _, p := range []pair{{a, b}, {b, a}} {
		d := n.direction(p)
		d.mu.Lock()
		d.cut = true
		d.mu.Unlock()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.pair == (pair{a, b}) || c.pair == (pair{b, a}) {
			c.close()
		}
	}
}

// Heal ends all disturbances.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.directions {
		d.mu.Lock()
		d.delay, d.cut = 0, false
		select {
		case <-d.open:
		default:
			close(d.open)
		}
		d.mu.Unlock()
	}
}

// Close ends all links and connections, and waits until they have.
func (n *Network) Close() {
	n.mu.Lock()
	n.closed = true
	for _, l := range n.listeners {
		_ = l.Close()
	}
	for c := range n.conns {
		c.close()
	}
	n.mu.Unlock()
	n.running.Wait()
}
