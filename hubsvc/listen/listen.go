// Package listen owns the listening ports of a hub.
package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pluralsh/plural/hubsvc/certs"
	"github.com/pluralsh/plural/internal/connlimit"
)

// Options say where a hub listens.
type Options struct {
	// Address is for agents and people, Peers for other replicas; empty without.
	Address, Peers string
	// Cert and Key are PEM files for Address, both or none.
	Cert, Key string
	Log       *slog.Logger
}

// Listeners are the addresses that a hub listens on.
type Listeners struct {
	Main, Peers net.Listener // Peers is nil for a hub that is alone
	// Certificate is what Main is served with; nil for plain HTTP.
	Certificate *certs.Pair
}

// Open reads the certificate, and takes the addresses.
func Open(ctx context.Context, o Options) (*Listeners, error) {
	l := new(Listeners)
	var err error
	if o.Cert != "" || o.Key != "" {
		l.Certificate, err = certs.Open(certs.Options{Name: "hub", Cert: o.Cert, Key: o.Key, Now: time.Now, Log: o.Log})
		if err != nil {
			return nil, err
		}
	}
	var config net.ListenConfig
	if l.Main, err = config.Listen(ctx, "tcp", o.Address); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if o.Peers == "" {
		return l, nil
	}
	if l.Peers, err = config.Listen(ctx, "tcp", o.Peers); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen for other replicas: %w", err)
	}
	return l, nil
}

// Close frees the addresses.
func (l *Listeners) Close() {
	for _, each := range []net.Listener{l.Main, l.Peers} {
		if each != nil {
			_ = each.Close() // closed already, once its server has run
		}
	}
}

// TLS is what Main is served with; nil means plain HTTP.
func (l *Listeners) TLS() *tls.Config {
	if l.Certificate == nil {
		return nil
	}
	return &tls.Config{GetCertificate: l.Certificate.Server, MinVersion: tls.VersionTLS13}
}

// maxHalfOpen bounds the connections from one address over which nobody has asked anything yet. All of a fleet may come from
// one, that of a load balancer, and at once.
const maxHalfOpen = 16 << 10

// Server serves agents and people on one port.
func Server(handler http.Handler, certificates *tls.Config, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		TLSConfig:         certificates,
		ConnState:         connlimit.New(maxHalfOpen).ConnState,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 64},
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       5 * time.Minute, // agents keep their connection: a new one costs more than a poll
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Serve serves until the server is shut down.
func Serve(server *http.Server, listener net.Listener) error {
	serve := server.Serve
	if server.TLSConfig != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// drainTime is how long requests under way may take after the hub was asked to stop. The server waits five seconds for
// connections on which nothing was asked yet.
const drainTime = 15 * time.Second

// Drain lets requests under way end, and cuts off those that do not.
func Drain(ctx context.Context, server *http.Server, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := server.Shutdown(ctx)
	if err == nil {
		return nil
	}
	log.Warn("requests under way were cut off", "after", drainTime, "error", err)
	if err := server.Close(); err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}
