// Package natsd owns the hub's NATS: embedded, clustered, or external.
//
// It knows nothing of what the hub keeps there: rooms get a connection and bring their own subjects and buckets. A
// server of ours has no clients but those in the same process; as one of a cluster it listens for the others alone.
// Nothing here waits for the others: a server without them runs, and what needs a majority fails until there is one.
// Its folder may be deleted at any time: what was in it comes back from the others, or from what agents report next.
package natsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/pluralsh/plural/internal/poll"
)

const (
	// readyTimeout bounds the server's start: a file store of a fleet's state recovers in well under a second.
	readyTimeout = 20 * time.Second
	// readyPoll is how often a start that takes long is looked at.
	readyPoll = 100 * time.Millisecond
	// healthPoll is how often a running server is looked at.
	healthPoll = 5 * time.Second
	// maxHealthPoll is how often it is looked at while it cannot be started anew.
	maxHealthPoll = 20 * time.Second
	// probeSize is what a disk must take before the server is started on it anew: some reports, and the server's own records.
	probeSize = 1 << 20
	// reconnectWait lies between two attempts of the connection to come back.
	reconnectWait = 500 * time.Millisecond
)

// maxPayload bounds one message: twice the server's default, so that what the hub takes in at its own bound of one MiB
// still fits with what is added to it here.
const maxPayload = 2 << 20

// user is the only one of a server that listens, and comes from inside.
const (
	user      = "hub"
	inProcess = "IN_PROCESS"
)

// Options say where the hub's NATS is. Without Cluster and External it is one server in this process.
type Options struct {
	// Dir is the folder of a server of ours; no other server may use it.
	Dir string
	// Name is this replica's; in a cluster each has its own, and keeps it over restarts.
	Name     string
	Cluster  *Cluster
	External *External
	Log      *slog.Logger
}

// Server is the hub's NATS with one connection to it.
type Server struct {
	Options
	replicas int
	// password is that of the one user; hashed is how the server wants it.
	password, hashed string
	conn             *nats.Conn
	stream           jetstream.JetStream
	stop             context.CancelFunc // nil without a server of ours
	stopped          chan struct{}
	anew             chan struct{}

	mu     sync.Mutex // guards what follows
	server *server.Server
	said   *logFilter // of server
	failed error      // what Fault says
}

// Start runs a server, or connects to one. It returns before there is a majority, and before an external server
// answers. The caller calls Close.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Options: o, replicas: 1, anew: make(chan struct{}, 1)}
	if o.External != nil {
		if err := s.connectExternal(); err != nil {
			return nil, err
		}
		return s, nil
	}
	if o.Cluster != nil {
		if err := s.enlist(); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
	}
	err := s.launch(ctx)
	if err == nil {
		err = s.connect("", nats.InProcessServer(s), nats.UserInfo(user, s.password), nats.ReconnectHandler(s.back))
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("start nats in %s: %w", o.Dir, err)
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // until Close, for which ctx's end is no reason
	s.stop, s.stopped = stop, make(chan struct{})
	go s.watch(watching)
	return s, nil
}

// launch starts the server and waits until it serves, without any others.
func (s *Server) launch(ctx context.Context) error {
	ns, err := server.NewServer(s.options())
	if err != nil {
		return fmt.Errorf("configure: %w", err)
	}
	said := newComplaints(s.Log)
	ns.SetLoggerV2(said, false, false, false)
	go ns.Start() // ends with Shutdown, which is waited for
	if err := ready(ctx, ns, said.fatal); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.said = ns, said
	return nil
}

func (s *Server) options() *server.Options {
	o := &server.Options{
		ServerName: s.Name,
		DontListen: true,
		JetStream:  true,
		StoreDir:   s.Dir,
		NoSigs:     true,
		NoLog:      true, // to files; see complaints
		MaxPayload: maxPayload,
		// What is kept here refills from the next reports; a small bound keeps a runaway from filling the disk.
		JetStreamMaxStore:  1 << 30,
		JetStreamMaxMemory: 64 << 20,
	}
	if o.ServerName == "" {
		o.ServerName = "plural-hub"
	}
	if s.Cluster != nil {
		s.Cluster.configure(o)
		// Without a listener for clients the server would not listen for the others either. Nobody gets past this one.
		o.DontListen, o.Host, o.Port = false, "127.0.0.1", server.RANDOM_PORT
		inside := map[string]struct{}{inProcess: {}}
		o.Users = []*server.User{{Username: user, Password: s.hashed, AllowedConnectionTypes: inside}}
	}
	return o
}

// ready waits until the server serves, gives up, or takes too long.
func ready(ctx context.Context, ns *server.Server, fatal <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !ns.ReadyForConnections(readyPoll) {
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

func (s *Server) connect(url string, options ...nats.Option) error {
	conn, err := nats.Connect(url, append(options, nats.Name(s.Name), nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort())...)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	s.conn = conn
	if s.stream, err = jetstream.New(conn); err != nil {
		return fmt.Errorf("open jetstream: %w", err)
	}
	return nil
}

// InProcessConn is for the NATS client: it gives a connection to the server that runs now.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.server
	s.mu.Unlock()
	if ns == nil {
		return nil, errors.New("the server is being restarted")
	}
	return ns.InProcessConn()
}

// watch starts the server anew when its files went wrong: after a disk that was full, and after its folder was deleted,
// NATS gives up keeping anything until somebody restarts it. On a disk that takes nothing yet that would be in vain.
func (s *Server) watch(ctx context.Context) {
	defer close(s.stopped)
	_ = poll.Loop{Interval: healthPoll, MaxBackoff: maxHealthPoll}.Run(ctx, nil, func(ctx context.Context) error {
		before, fault := s.Fault(), s.fault()
		switch {
		case fault == nil && before == nil:
			return nil
		case before == nil:
			s.Log.Error("nats server keeps nothing; it is started anew", "dir", s.Dir, "error", fault)
		case fault == nil: // by itself: nobody knows what was lost meanwhile
			fault = before
		}
		s.fail(fault)
		if err := s.probe(); err != nil {
			s.fail(err)
			return err
		}
		s.shutdown()
		if err := s.launch(ctx); err != nil {
			s.Log.Error("nats server does not start; it is tried again", "dir", s.Dir, "error", err)
			return err
		}
		s.fail(nil)
		s.Log.Info("nats server was started anew", "dir", s.Dir)
		return nil
	})
}

// fault says why the server keeps nothing, nil when it does.
func (s *Server) fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return errors.New("it did not start")
	}
	if err := s.said.lost(); err != nil {
		return err
	}
	if !s.server.JetStreamEnabled() {
		return errors.New("its store was given up")
	}
	if _, err := os.Stat(filepath.Join(s.Dir, server.JetStreamStoreDir)); err != nil {
		return err
	}
	return s.full()
}

// full says that the disk has no room. The server itself notices late, for it says that something is kept before it writes it.
func (s *Server) full() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(s.Dir, &disk); err == nil && disk.Bavail*uint64(disk.Bsize) < probeSize {
		return &fs.PathError{Op: "write", Path: s.Dir, Err: syscall.ENOSPC}
	}
	return nil
}

// probe says why a server that is started now could not keep what it is given.
func (s *Server) probe() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, "probe-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeSize))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

func (s *Server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

// Fault says why the server keeps nothing now; nil when it does, and for a server that somebody else runs.
func (s *Server) Fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// back is called when the connection to a server of ours stands again, which breaks only with the server.
func (s *Server) back(*nats.Conn) {
	select {
	case s.anew <- struct{}{}:
	default:
	}
}

// Anew has a value after the server was started anew. It may have lost what was written last: it says that something is kept
// before the disk has it.
func (s *Server) Anew() <-chan struct{} { return s.anew }

// Conn is the connection.
func (s *Server) Conn() *nats.Conn { return s.conn }

// JetStream is the connection's key-value and stream interface.
func (s *Server) JetStream() jetstream.JetStream { return s.stream }

// Replicas is how many servers should keep each bucket.
func (s *Server) Replicas() int { return s.replicas }

// Close ends the connection, stops a server of ours and waits until its files are closed.
func (s *Server) Close() {
	if s.stop != nil {
		s.stop()
		<-s.stopped
	}
	if s.conn != nil {
		s.conn.Close()
	}
	s.stepDown()
	s.shutdown()
}

func (s *Server) shutdown() {
	s.mu.Lock()
	ns := s.server
	s.server = nil
	s.mu.Unlock()
	if ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}
