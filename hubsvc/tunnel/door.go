package tunnel

import (
	"bufio"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/pluralsh/plural/api/token"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/api/tunnelapi/pipe"
	"github.com/pluralsh/plural/internal/netconn"
)

// maxUnheard bounds the connections of one cluster whose agent has not said anything yet.
const maxUnheard = 8

// retryAfter is what is asked of an agent that comes to a replica which is leaving, in seconds.
const retryAfter = "1"

// caller is who dialled: whoever has a token of the cluster's.
type caller struct {
	cluster, remote, by string
	key                 ed25519.PublicKey
	// binding is that of the TLS connection that ends here; nil where that is plain.
	binding []byte
}

// Routes adds what agents dial to mux.
func (h *Hub) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+tunnelapi.Path, h.admitted(h.upgrade))
	mux.HandleFunc("POST "+tunnelapi.PipePath, h.admitted(h.pipe))
}

// admitted lets in whoever has a token. Nothing is kept of anybody else.
func (h *Hub) admitted(next func(http.ResponseWriter, *http.Request, caller)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(tunnelapi.HubHeader, h.Self)
		if r.Header.Get("Origin") != "" {
			h.refuse(w, "origin", http.StatusForbidden, "this is for agents, not for pages in a browser")
			return
		}
		cluster, err := h.Cluster(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			if errors.Is(err, token.ErrElsewhere) {
				w.Header().Set(token.Elsewhere, "true")
			}
			h.refuse(w, "credential", http.StatusUnauthorized, "unknown agent")
			return
		}
		key := h.Key(cluster)
		again, err := h.Cluster(r)
		switch {
		case key == nil, err != nil, again != cluster: // the key went, or was replaced, while this was looked at
			h.refuse(w, "credential", http.StatusUnauthorized, "unknown agent")
		case h.isDraining():
			w.Header().Set("Retry-After", retryAfter)
			h.refuse(w, "draining", http.StatusServiceUnavailable, "this replica of the hub is about to end")
		case !h.expect(cluster):
			w.Header().Set("Retry-After", retryAfter)
			h.refuse(w, "too many", http.StatusTooManyRequests, "too many connections of this cluster say nothing")
		default:
			next(w, r, caller{cluster: cluster, remote: r.RemoteAddr, key: key, binding: token.Binding(r.TLS)})
		}
	}
}

func (h *Hub) refuse(w http.ResponseWriter, why string, code int, text string) {
	h.metrics.refused.WithLabelValues(why).Inc()
	http.Error(w, text, code)
}

// upgrade takes the connection over that the request came on.
func (h *Hub) upgrade(w http.ResponseWriter, r *http.Request, c caller) {
	var stream io.ReadWriteCloser
	var err error
	switch upgrade := r.Header.Get("Upgrade"); {
	case r.ProtoMajor != 1, upgrade == "":
		err = errNoUpgrade
		w.Header().Set("Upgrade", "websocket, "+tunnelapi.Upgrade)
		h.refuse(w, "no upgrade", http.StatusUpgradeRequired, err.Error())
	case strings.EqualFold(upgrade, tunnelapi.Upgrade):
		c.by = "upgrade"
		stream, err = hijack(w, tunnelapi.Upgrade)
	default:
		c.by = "websocket"
		var ws *websocket.Conn
		if ws, err = websocket.Accept(&smallBufferWriter{w}, r, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled}); err == nil {
			stream = netconn.WebSocket(ws)
		}
	}
	if err != nil {
		h.unexpect(c.cluster)
		h.Log.Debug("agent's connection was not taken over", "cluster", c.cluster, "error", err)
		return
	}
	conn := netconn.New(stream, netconn.Addr(h.Self), netconn.Addr(c.remote))
	if !h.running.start(func() { h.serve(conn, c) }) {
		h.unexpect(c.cluster)
		_ = conn.Close()
	}
}

// Sizes of a WebSocket's buffers, in bytes. What is larger passes them by; HTTP's own are four times as large, and an idle
// connection is to cost little.
const (
	readBuffer  = 1 << 10
	writeBuffer = 2 << 10
)

// smallBufferWriter is a response whose connection is taken over with small buffers.
type smallBufferWriter struct{ http.ResponseWriter }

// Hijack is that of http.Hijacker.
func (l *smallBufferWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(l.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	conn = early(conn, buffered.Reader)
	return conn, bufio.NewReadWriter(bufio.NewReaderSize(conn, readBuffer), bufio.NewWriterSize(conn, writeBuffer)), nil
}

var errNoUpgrade = fmt.Errorf("want an upgrade to websocket, or to %s", tunnelapi.Upgrade)

// hijack takes a connection over from HTTP, deadlines removed.
func hijack(w http.ResponseWriter, to string) (io.ReadWriteCloser, error) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", to)
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, fmt.Errorf("take connection over: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("take connection over: %w", err)
	}
	return early(conn, buffered.Reader), nil
}

// early is a connection of which the beginning was read already.
func early(conn net.Conn, read *bufio.Reader) net.Conn {
	if read.Buffered() == 0 {
		return conn
	}
	beginning, _ := read.Peek(read.Buffered()) // what is buffered can be read
	return &begun{conn, beginning}
}

type begun struct {
	net.Conn
	beginning []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.beginning) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.beginning)
	b.beginning = b.beginning[n:]
	return n, nil
}

// pipe carries the connection in both directions of the request, for as long as it lasts.
func (h *Hub) pipe(w http.ResponseWriter, r *http.Request, c caller) {
	c.by = "pipe"
	rc := http.NewResponseController(w)
	if r.ProtoMajor != 2 || !strings.HasPrefix(r.Header.Get("Content-Type"), pipe.ContentType) {
		h.unexpect(c.cluster)
		h.refuse(w, "no upgrade", http.StatusUnsupportedMediaType, "want a gRPC call")
		return
	}
	_ = rc.SetReadDeadline(time.Time{}) // a server that has none refuses
	_ = rc.SetWriteDeadline(time.Time{})
	w.Header().Set("Content-Type", pipe.ContentType)
	w.Header().Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	if err := rc.Flush(); err != nil {
		h.unexpect(c.cluster)
		return
	}
	stream := &call{Reader: pipe.NewReader(r.Body), writer: pipe.NewWriter(w, rc.Flush), rc: rc, body: r.Body}
	conn := netconn.New(stream, netconn.Addr(h.Self), netconn.Addr(c.remote))
	ended := make(chan struct{})
	if h.running.start(func() { defer close(ended); h.serve(conn, c) }) {
		<-ended
	} else {
		h.unexpect(c.cluster)
	}
	_ = conn.Close()
	w.Header().Set("Grpc-Status", "0")
}

// call is both directions of a request that is being answered. Nothing is written any more after Close.
type call struct {
	io.Reader
	rc   *http.ResponseController
	body io.Closer

	mu     sync.Mutex // guards both
	writer io.Writer
	closed bool
}

func (c *call) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	return c.writer.Write(p)
}

func (c *call) Close() error {
	past := time.Unix(1, 0)
	_ = c.rc.SetWriteDeadline(past) // ends a Write under way, so that the lock is to be had
	_ = c.body.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}
