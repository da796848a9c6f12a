package scale

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// tap is a way to a server that knows when somebody came, and how much was said to them.
type tap struct {
	listener net.Listener
	to       string
	bytes    atomic.Int64 // from the server
	all      sync.WaitGroup

	mu   sync.Mutex // guards what follows
	at   time.Time  // of the first connection since forget
	open map[net.Conn]bool
}

func newTap(b *testing.B, to string) *tap {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	t := &tap{listener: listener, to: to, open: map[net.Conn]bool{}}
	t.all.Go(t.accept)
	b.Cleanup(func() {
		_ = listener.Close()
		t.mu.Lock()
		for c := range t.open {
			_ = c.Close()
		}
		t.mu.Unlock()
		t.all.Wait()
	})
	return t
}

func (t *tap) address() string { return t.listener.Addr().String() }

func (t *tap) accept() {
	for {
		near, err := t.listener.Accept()
		if err != nil {
			return
		}
		t.mu.Lock()
		if t.at.IsZero() {
			t.at = time.Now()
		}
		t.mu.Unlock()
		far, err := net.Dial("tcp", t.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		t.keep(near, far)
		t.all.Go(func() {
			defer t.leave(near, far)
			_, _ = io.Copy(far, near)
		})
		t.all.Go(func() {
			defer t.leave(near, far)
			_, _ = io.Copy(counted{near, &t.bytes}, far)
		})
	}
}

func (t *tap) keep(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		t.open[c] = true
	}
}

func (t *tap) leave(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(t.open, c)
	}
}

// counted counts what is written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// forget begins anew.
func (t *tap) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = time.Time{}
}

// met is when the first one came.
func (t *tap) met() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// settled waits until next to nothing has been said for two seconds: all is listed.
func (t *tap) settled(b *testing.B) {
	b.Helper()
	deadline, tick := time.After(fleetPatience), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	last := t.bytes.Load()
	for still := 0; still < 20; {
		select {
		case <-deadline:
			b.Fatal("the console lists on and on")
		case <-tick.C:
		}
		now := t.bytes.Load()
		if still++; now-last > 4<<10 {
			still = 0
		}
		last = now
	}
}
