package tunnel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/pluralsh/plural/agent/address"
	"github.com/pluralsh/plural/agent/credential"
	"github.com/pluralsh/plural/api/tunnelapi"
	"github.com/pluralsh/plural/api/tunnelapi/pipe"
	"github.com/pluralsh/plural/internal/netconn"
)

// step bounds each step of getting a connection: TCP, TLS, the hub's answer, its first word.
const step = 10 * time.Second

// transport is one of the forms in which a connection gets through what lies between agent and hub.
type transport struct {
	name string
	dial func(context.Context) (io.ReadWriteCloser, error)
}

// dialer opens connections to one hub, by the way that worked last.
type dialer struct {
	base       string
	agent      string // for User-Agent
	credential *credential.Credential
	h1, h2     *http.Client
	ways       []transport

	mu    sync.Mutex // guards what follows
	first int        // the way that is tried first
	since time.Time  // that way is
	empty int        // how often nothing came through it, in a row
}

// remembered is how long a way that worked is tried first; then the best one is again.
const remembered = 24 * time.Hour

// maxEmpty is how often nothing may come through a way until another one is tried first.
const maxEmpty = 2

func newDialer(o *Options) (*dialer, error) {
	u, err := address.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	trusted, err := address.Trust(o.CA)
	if err != nil {
		return nil, err
	}
	shown := credential.New(o.Token)
	d := &dialer{
		base: strings.TrimRight(o.URL, "/"), agent: o.UserAgent, credential: shown,
		h1: client(shown, trusted, o.Dial, (*http.Protocols).SetHTTP1),
		h2: client(shown, trusted, o.Dial, (*http.Protocols).SetHTTP2),
	}
	d.ways = []transport{{"upgrade", d.upgrade}, {"websocket", d.webSocket}, {"pipe", d.pipe}} // what costs least first
	if u.Scheme == "http" {
		d.ways = d.ways[:2] // nobody serves HTTP/2 without TLS
	}
	return d, nil
}

// client follows no redirect, so that a token never reaches another host, and keeps no connection for later.
func client(
	shown *credential.Credential, trusted *tls.Config, dial func(context.Context, string, string) (net.Conn, error),
	speak func(*http.Protocols, bool),
) *http.Client {
	if dial == nil {
		dial = (&net.Dialer{Timeout: step, KeepAlive: 30 * time.Second}).DialContext
	}
	protocols := new(http.Protocols)
	speak(protocols, true)
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: shown.Over(&http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           dial,
			TLSClientConfig:       trusted.Clone(),
			TLSHandshakeTimeout:   step,
			ResponseHeaderTimeout: step,
			IdleConnTimeout:       time.Second, // of an HTTP/2 connection whose one stream has ended
			Protocols:             protocols,

			MaxResponseHeaderBytes: 64 << 10,
		}),
	}
}

// dialled is a connection that the hub let in.
type dialled struct {
	*netconn.Conn
	by string
	// binding is that of the TLS connection below it, if it is the hub's.
	binding []byte
}

// dial opens a connection by the first way that gets through.
func (d *dialer) dial(ctx context.Context) (*dialled, error) {
	var refused []error
	for _, at := range d.order() {
		way := d.ways[at]
		stream, below, err := way.try(ctx)
		if err == nil {
			d.prefer(at)
			conn := netconn.New(stream, netconn.Addr("agent"), netconn.Addr(d.base))
			return &dialled{conn, way.name, d.credential.Binding(below)}, nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", way.name, err))
		if !between(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(refused...)
}

// close lets go of what an HTTP/2 client keeps.
func (d *dialer) close() {
	d.h1.CloseIdleConnections()
	d.h2.CloseIdleConnections()
}

// order is in which the ways are tried.
func (d *dialer) order() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.since) > remembered {
		d.first = 0
	}
	order := []int{d.first}
	for at := range d.ways {
		if at != d.first {
			order = append(order, at)
		}
	}
	return order
}

// prefer has a way tried first from now on.
func (d *dialer) prefer(at int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first != at {
		d.first, d.since, d.empty = at, time.Now(), 0
	}
}

// heard is told whether the hub said anything over a connection by this way.
func (d *dialer) heard(by string, something bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.ways[d.first].name != by:
	case something:
		d.empty = 0
	default:
		if d.empty++; d.empty == maxEmpty {
			d.first, d.since, d.empty = (d.first+1)%len(d.ways), time.Now(), 0
		}
	}
}

// refusal is an answer that is no connection.
type refusal struct {
	status int
	hub    bool // it is the hub's own
	text   string
}

func (e *refusal) Error() string {
	who := "something between agent and hub"
	if e.hub {
		who = "hub"
	}
	text := fmt.Sprintf("%s answered %d", who, e.status)
	if e.text != "" {
		text += " (" + e.text + ")"
	}
	if e.hub && e.status == http.StatusUnauthorized {
		text += ": is the cluster's file in git, with this agent's key, and is its clock right?"
	}
	return text
}

// refused reads the beginning of an answer, which it closes.
func refused(response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(response.Body, 200))
	e := &refusal{status: response.StatusCode, hub: response.Header.Get(tunnelapi.HubHeader) != ""}
	if text := strings.TrimSpace(string(said)); text != "" {
		e.text = fmt.Sprintf("%.200q", text)
	}
	return e
}

// between says whether another way may get through where this one did not: the connection was there, and what answered on it
// was not the hub, or did not let it see that a connection was asked for.
func between(err error) bool {
	var answer *refusal
	if errors.As(err, &answer) {
		return !answer.hub || answer.status == http.StatusUpgradeRequired
	}
	var early *unconnectedError
	return !errors.As(err, &early)
}

// unconnectedError says that nothing was asked, because there was no TCP or TLS connection.
type unconnectedError struct{ error }

func (e *unconnectedError) Unwrap() error { return e.error }

// try dials one way, and says over which connection it leads.
func (w transport) try(ctx context.Context) (stream io.ReadWriteCloser, below net.Conn, err error) {
	var connected atomic.Pointer[net.Conn]
	stream, err = w.dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { connected.Store(&got.Conn) },
	}))
	switch conn := connected.Load(); {
	case conn != nil:
		below = *conn
	case err != nil:
		err = &unconnectedError{err}
	}
	return stream, below, err
}

func (d *dialer) header() http.Header { return http.Header{"User-Agent": {d.agent}} }

func (d *dialer) webSocket(ctx context.Context) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*step)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, d.base+tunnelapi.Path, &websocket.DialOptions{ //nolint:bodyclose // Dial has closed it
		HTTPClient: d.h1, HTTPHeader: d.header(), CompressionMode: websocket.CompressionDisabled,
	})
	switch {
	case err == nil:
		return netconn.WebSocket(ws), nil
	case response != nil && response.StatusCode != http.StatusSwitchingProtocols:
		return nil, refused(response)
	}
	return nil, err
}

func (d *dialer) upgrade(ctx context.Context) (io.ReadWriteCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+tunnelapi.Path, nil)
	if err != nil {
		return nil, err
	}
	request.Header = d.header()
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", tunnelapi.Upgrade)
	response, err := d.h1.Do(request) //nolint:bodyclose // it is the connection, or refused closes it
	if err != nil {
		return nil, err
	}
	stream, ok := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !ok || !strings.EqualFold(response.Header.Get("Upgrade"), tunnelapi.Upgrade) {
		return nil, refused(response)
	}
	return stream, nil
}

// pipe asks for a call that carries the connection in both directions.
func (d *dialer) pipe(ctx context.Context) (io.ReadWriteCloser, error) {
	dialling := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the connection's, which outlives its dialling
	defer context.AfterFunc(dialling, cancel)()
	from, to := io.Pipe()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.base+tunnelapi.PipePath, from)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header = d.header()
	request.Header.Set("Content-Type", pipe.ContentType)
	request.Header.Set("Te", "trailers")
	response, err := d.h2.Do(request) //nolint:bodyclose // it is half of the connection, or refused closes it
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), pipe.ContentType) ||
		response.Header.Get("Grpc-Status") != "" {
		defer cancel()
		return nil, refused(response)
	}
	return &call{
		Reader: pipe.NewReader(response.Body), Writer: pipe.NewWriter(to, func() error { return nil }),
		end: func() {
			_ = to.CloseWithError(io.ErrClosedPipe)
			cancel()
			_ = response.Body.Close()
		},
	}, nil
}

// call is both directions of a gRPC call.
type call struct {
	io.Reader
	io.Writer
	end func()
}

func (c *call) Close() error {
	c.end()
	return nil
}
