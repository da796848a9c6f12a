package replicas

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// balancer spreads connections over the replicas that accept any, as a load balancer in front of a hub does.
type balancer struct {
	listener net.Listener
	targets  []*replica
	next     atomic.Int64
}

func newBalancer(t *testing.T, targets []*replica) *balancer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{listener: listener, targets: targets}
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
	server := b.dial()
	if server == nil {
		return
	}
	defer server.Close()
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
func (b *balancer) dial() net.Conn {
	for range b.targets {
		target := b.targets[int(b.next.Add(1))%len(b.targets)]
		if conn, err := net.DialTimeout("tcp", target.address(target.main), time.Second); err == nil {
			return conn
		}
	}
	return nil
}
