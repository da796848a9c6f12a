package apiproxy

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
)

func TestTheKernelEndsAConnectionWithoutPingsThatIsDead(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := kept(&rest.Config{}, &tls.Config{MinVersion: tls.VersionTLS12}).DialContext(t.Context(), "tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	within := 0
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err == nil {
		controlled := raw.Control(func(fd uintptr) {
			within, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		})
		if controlled != nil {
			t.Fatal(controlled)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := int((pingAfter + pongWithin).Milliseconds()); within != want {
		t.Errorf("it ends after %d ms without a sign, not after %d", within, want)
	}
}

func TestAnAPIServerIsDialledAsItsConfigurationSays(t *testing.T) {
	dialled := false
	config := &rest.Config{Dial: func(context.Context, string, string) (net.Conn, error) {
		dialled = true
		return nil, net.ErrClosed
	}}
	_, err := kept(config, &tls.Config{MinVersion: tls.VersionTLS12}).DialContext(t.Context(), "tcp", "127.0.0.1:1")
	if err == nil || !dialled {
		t.Errorf("dialled: %t, %v", dialled, err)
	}
}
