package tunnel

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// lag is a line to an address on which every byte takes half the round trip, as many as are on their way.
func lag(tb testing.TB, target string, roundTrip time.Duration) (address string) {
	tb.Helper()
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			end := sync.OnceFunc(func() { _, _ = near.Close(), far.Close() })
			tb.Cleanup(end)
			running.Go(func() { defer end(); carry(far, near, roundTrip/2) })
			running.Go(func() { defer end(); carry(near, far, roundTrip/2) })
		}
	})
	tb.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

type part struct {
	bytes []byte
	due   time.Time
}

// carry passes bytes on, each after its delay; what is on its way at once is bounded by memory alone, as on a long line.
func carry(to io.Writer, from io.Reader, delay time.Duration) {
	line := make(chan part, 1<<14)
	go func() {
		defer close(line)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				line <- part{buffer[:n], time.Now().Add(delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range line {
		if wait := time.Until(p.due); wait > 0 {
			<-time.After(wait)
		}
		if _, err := to.Write(p.bytes); err != nil {
			for range line { // the reader ends with its connection
			}
			return
		}
	}
}

// by makes all connections to one address, whatever they are for.
func by(address string) func(ctx context.Context, network, _ string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
