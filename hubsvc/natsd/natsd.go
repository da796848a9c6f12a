// Package natsd owns the hub's embedded NATS server.
//
// It knows nothing of what the hub keeps there: rooms get a connection and bring their own subjects and buckets. One
// replica runs a server with a file store that listens on no port; clients are in the same process.
package natsd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// readyTimeout bounds the server's start: a file store of a fleet's state recovers in well under a second.
const readyTimeout = 20 * time.Second

// maxPayload bounds one message: twice the server's default, so that what the hub takes in at its own bound of one MiB
// still fits with what is added to it here.
const maxPayload = 2 << 20

// Server is a running NATS server with one connection to it.
type Server struct {
	server *server.Server
	conn   *nats.Conn
	stream jetstream.JetStream
}

// Start runs a server that keeps its files in dir. The caller calls Close.
func Start(ctx context.Context, dir string) (*Server, error) {
	ns, err := server.NewServer(&server.Options{
		ServerName: "plural-hub",
		DontListen: true,
		JetStream:  true,
		StoreDir:   dir,
		NoSigs:     true,
		NoLog:      true,
		MaxPayload: maxPayload,
		// What is kept here refills from the next reports; a small bound keeps a runaway from filling the disk.
		JetStreamMaxStore:  1 << 30,
		JetStreamMaxMemory: 64 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("configure nats: %w", err)
	}
	go ns.Start() // ends with Close, which waits for it
	s := &Server{server: ns}
	if err := s.connect(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) connect(ctx context.Context) error {
	if !s.server.ReadyForConnections(timeLeft(ctx, readyTimeout)) {
		return errors.New("start nats: the server is not ready; is its folder writable, and in use by no other hub?")
	}
	conn, err := nats.Connect("", nats.InProcessServer(s.server), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to nats: %w", err)
	}
	s.conn = conn
	if s.stream, err = jetstream.New(conn); err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	return nil
}

func timeLeft(ctx context.Context, most time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(most, time.Until(deadline))
	}
	return most
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
