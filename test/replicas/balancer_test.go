package replicas

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// balancer spreads connections over the replicas that accept any, as a load balancer in front of a hub does.
type balancer struct {
	listener net.Listener
	targets  []*replica
	next     atomic.Int64
	mu       sync.Mutex
	away     map[*replica]bool // guarded by mu: told to send nobody there
	open     map[net.Conn]*replica
}

func newBalancer(t *testing.T, targets []*replica) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, targets: targets, away: map[*replica]bool{}, open: map[net.Conn]*replica{}}
	t.Cleanup(func() { _ = listener.Close() })
	go b.accept()
	return b
}

func (b *balancer) url() string { return "https://" + b.listener.Addr().String() }

func (b *balancer) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.carry(conn)
	}
}

func (b *balancer) carry(client net.Conn) {
	defer client.Close()
	server, target := b.dial()
	if server == nil {
		return
	}
	defer server.Close()
	b.mu.Lock()
	b.open[client] = target
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, client)
		b.mu.Unlock()
	}()
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go pipe(server, client)
	go pipe(client, server)
	<-done
}

// dial takes the next replica that accepts.
func (b *balancer) dial() (net.Conn, *replica) {
	for range b.targets {
		target := b.targets[int(b.next.Add(1))%len(b.targets)]
		b.mu.Lock()
		skip := b.away[target]
		b.mu.Unlock()
		if skip {
			continue
		}
		if conn, err := net.DialTimeout("tcp", target.address(target.main), time.Second); err == nil {
			return conn, target
		}
	}
	return nil, nil
}

// avoid sends nobody to a replica any more, and cuts off who is there.
func (b *balancer) avoid(target *replica, away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away[target] = away
	for conn, to := range b.open {
		if away && to == target {
			_ = conn.Close()
		}
	}
}
