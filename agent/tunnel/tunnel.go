// Package tunnel owns the connections that an agent keeps open to its hub.
//
// It refuses to know what is asked over them: requests go to a handler, all else to functions. The agent dials, by
// whatever gets through; on the connection it is then the server and the hub its client. There are two connections to
// different replicas of the hub, and one is replaced before it ends: because the hub asks for it, or because it is old.
package tunnel

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
)

// Options say where the hub is, how it is trusted, and what it can ask for.
type Options struct {
	// URL is https://…, or http://… when the host is this machine.
	URL string
	// CA holds PEM certificates to trust instead of the system's; empty means the system's.
	CA []byte
	// Token returns the credential for the TLS connection with the given token.Binding; nil: for any. Prove signs what the hub
	// asks for on a connection that it let in.
	Token     func(binding []byte) (string, error)
	Prove     func(token.Proof) ([]byte, error)
	UserAgent string
	// Dial opens connections; nil means TCP. Either goes through the proxies that the environment names.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Hello is what the agent says of itself on a new connection. Versions that are not set are those that are spoken here.
	Hello func() *tunnelapi.Hello
	// Handler answers requests to the cluster's API server; see api/httpstream for what a request carries beside HTTP.
	Handler http.Handler
	// Objects, Diff and Logs answer the calls of these names. Nil means that the agent cannot do it.
	Objects func(ctx context.Context, request *tunnelapi.ObjectsRequest, send func(*tunnelapi.ObjectsEvent) error) error
	Diff    func(ctx context.Context, request *tunnelapi.DiffRequest) (*tunnelapi.DiffReply, error)
	Logs    func(ctx context.Context, request *tunnelapi.LogsRequest, send func(*tunnelapi.LogLine) error) error
	// Changed is called when the hub serves another edition, Sync when somebody asks for a pass over services (none named:
	// all). Neither may block. Nil means that it is not of interest.
	Changed func(edition string)
	Sync    func(services []string)
	// Events are sent to the hub; one that finds no connection waits for one. Nil means that there are none.
	Events <-chan *tunnelapi.Event
	Log    *slog.Logger
}

// Run keeps connections to the hub until ctx ends. Only options that cannot work are an error.
func Run(ctx context.Context, o Options) error {
	d, err := newDialer(&o)
	if err != nil {
		return fmt.Errorf("connect to hub: %w", err)
	}
	a := newAgent(o, d)
	var running sync.WaitGroup
	for slot := range a.slots {
		running.Go(func() { a.keep(ctx, slot) })
	}
	running.Go(func() { a.passHints(ctx) })
	running.Go(func() { a.passEvents(ctx) })
	running.Wait()
	a.sessions.Wait()
	d.close()
	return nil
}
