// Package natsd owns the hub's embedded NATS server.
//
// It knows nothing of what the hub keeps there: rooms get a connection and bring their own subjects and buckets. One
// replica runs a server with a file store that listens on no port; clients are in the same process.
package natsd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// readyTimeout bounds the server's start: a file store of a fleet's state recovers in well under a second.
const (
	readyTimeout = 20 * time.Second
	// readyPoll is how often a start that takes long is looked at.
	readyPoll = 100 * time.Millisecond
)

// maxPayload bounds one message: twice the server's default, so that what the hub takes in at its own bound of one MiB
// still fits with what is added to it here.
const maxPayload = 2 << 20

// Server is a running NATS server with one connection to it.
type Server struct {
	server *server.Server
	conn   *nats.Conn
	stream jetstream.JetStream
}

// Start runs a server that keeps its files in dir, which no other server may use. The caller calls Close.
func Start(ctx context.Context, dir string, log *slog.Logger) (*Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName: "plural-hub",
		DontListen: true,
		JetStream:  true,
		StoreDir:   dir,
		NoSigs:     true,
		NoLog:      true, // to files; see complaints
		MaxPayload: maxPayload,
		// What is kept here refills from the next reports; a small bound keeps a runaway from filling the disk.
		JetStreamMaxStore:  1 << 30,
		JetStreamMaxMemory: 64 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("configure nats: %w", err)
	}
	said := &complaints{log: log, fatal: make(chan error, 1)}
	ns.SetLoggerV2(said, false, false, false)
	go ns.Start() // ends with Close, which waits for it
	s := &Server{server: ns}
	err = s.ready(ctx, said.fatal)
	if err == nil {
		err = s.connect()
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start nats in %s: %w", dir, err)
	}
	return s, nil
}

// ready waits until the server serves, gives up, or takes too long.
func (s *Server) ready(ctx context.Context, fatal <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !s.server.ReadyForConnections(readyPoll) {
		select {
		case err := <-fatal:
			return err
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		default:
		}
	}
	return nil
}

func (s *Server) connect() error {
	conn, err := nats.Connect("", nats.InProcessServer(s.server), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.conn = conn
	if s.stream, err = jetstream.New(conn); err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	return nil
}

// JetStream is the server's key-value and stream interface.
func (s *Server) JetStream() jetstream.JetStream { return s.stream }

// Close stops the server and waits until its files are closed.
func (s *Server) Close() {
	if s.conn != nil {
		s.conn.Close()
	}
	s.server.Shutdown()
	s.server.WaitForShutdown()
}
