package sandbox_test

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// The test binary is its own child, as the product's binary is.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == programName {
		os.Exit(program())
	}
	if len(os.Args) > 2 && os.Args[1] == "confined-probe" {
		os.Exit(probe(os.Args[2]))
	}
	if len(os.Args) > 2 && os.Args[1] == "exec" {
		os.Exit(become(os.Args[2]))
	}
	os.Exit(m.Run())
}

// listener counts the connections that nobody may make.
func listener(t *testing.T) (address string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String(), connections
}
