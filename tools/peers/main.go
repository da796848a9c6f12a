// Command peers is rancher/remotedialer as a program, so that a benchmark can measure its way into a cluster beside ours.
//
//	peers server LISTEN CERT KEY FORWARD TARGET
//	peers client URL CA
//
// The server takes the client's connection at LISTEN, by TLS, and passes what connects to FORWARD on to TARGET, which the
// client dials.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"
)

const id = "edge"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 6 && args[0] == "server":
		return serve(ctx, args[1], args[2], args[3], args[4], args[5])
	case len(args) == 3 && args[0] == "client":
		return connect(ctx, args[1], args[2])
	}
	return errors.New("usage: peers server LISTEN CERT KEY FORWARD TARGET | peers client URL CA")
}

func serve(ctx context.Context, listen, cert, key, forward, target string) error {
	handler := remotedialer.New(func(*http.Request) (string, bool, error) { return id, true, nil }, remotedialer.DefaultErrorWriter)
	go forwarding(ctx, forward, func() (net.Conn, error) { return handler.Dialer(id)(ctx, "tcp", target) })
	return http.ListenAndServeTLS(listen, cert, key, handler)
}

// forwarding joins what connects with a connection that dial makes.
func forwarding(ctx context.Context, address string, dial func() (net.Conn, error)) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		near, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer near.Close()
			far, err := dial()
			if err != nil {
				return
			}
			defer far.Close()
			go func() { _, _ = io.Copy(far, near) }()
			_, _ = io.Copy(near, far)
		}()
	}
}

func connect(ctx context.Context, url, ca string) error {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New(ca + " holds no certificate")
	}
	dialer := &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}
	return remotedialer.ClientConnect(ctx, url, nil, dialer, func(string, string) bool { return true }, nil)
}
