package relay_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/relay"
)

// echo answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				lines := bufio.NewScanner(conn)
				for lines.Scan() {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// linked is a network with a to b in it, and how a reaches b.
func linked(t *testing.T) (*relay.Network, func() net.Conn) {
	t.Helper()
	network := new(relay.Network)
	t.Cleanup(network.Close)
	address, err := network.Link(t.Context(), "a", "b", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	return network, func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
}

// say sends a line and waits for the answer.
func say(conn net.Conn, wait time.Duration) error {
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return err
	}
	return hear(conn, wait)
}

func hear(conn net.Conn, wait time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "hello\n" {
		return fmt.Errorf("heard %q", line)
	}
	return err
}

func TestWhatIsStalledArrivesAfterTheNetworkHealed(t *testing.T) {
	for _, direction := range [][2]string{{"a", "b"}, {"b", "a"}} {
		network, dial := linked(t)
		conn := dial()
		if err := say(conn, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		network.Stall(direction[0], direction[1])
		if err := say(conn, 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("stalled from %s to %s: %v", direction[0], direction[1], err)
		}
		network.Heal()
		if err := hear(conn, 10*time.Second); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
}

func TestACutEndsConnectionsAndRefusesOthersUntilHealed(t *testing.T) {
	network, dial := linked(t)
	conn := dial()
	if err := say(conn, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	network.Cut("b", "a")
	for _, conn := range []net.Conn{conn, dial()} {
		if err := say(conn, 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cut: %v", err)
		}
	}
	network.Heal()
	if err := say(dial(), 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}

func TestADelayIsKept(t *testing.T) {
	network, dial := linked(t)
	network.Delay("b", "a", 60*time.Millisecond)
	began := time.Now()
	if err := say(dial(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 60*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}
