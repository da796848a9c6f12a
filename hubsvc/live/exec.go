package live

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// tokenProtocol begins the name of a websocket protocol that carries a token: a browser can send it in no other way.
	tokenProtocol = "base64url.bearer.authorization.k8s.io." //nolint:gosec // it is what comes before the token
	// lingering is how long what runs in a pod may go on talking to a client that has ended its half.
	lingering = 10 * time.Second
	// maxCommand bounds what is run, in bytes.
	maxCommand = 8 << 10
)

// execProtocols are those of Kubernetes that are passed on.
func execProtocols() []string { return []string{"v5.channel.k8s.io", "v4.channel.k8s.io"} }

// exec connects a websocket with a program in a pod. It is the API server's own protocol, whose bytes are passed on as they are.
func (a *API) exec(w http.ResponseWriter, r *http.Request) {
	if err := a.connect(w, r); err != nil {
		answer(w, err)
	}
}

func (a *API) connect(w http.ResponseWriter, r *http.Request) error {
	if err := sameOrigin(r); err != nil {
		return err
	}
	protocols, r := withToken(r)
	who, err := a.admit(r)
	if err != nil {
		return err
	}
	asked, err := execRequest(r, protocols)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context())) // the server does not watch what it gave away
	defer cancel()
	stop := context.AfterFunc(r.Context(), cancel)
	resp, err := a.do(ctx, who, asked.WithContext(ctx))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	backend, ok := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
		if err := refused(resp); err != nil {
			return err
		}
		return &Refusal{Status: http.StatusBadGateway, Message: fmt.Sprintf("the cluster's API server answers %d to an upgrade", resp.StatusCode)}
	}
	if !slices.Contains(protocols, resp.Header.Get("Sec-Websocket-Protocol")) {
		return &Refusal{Status: http.StatusBadGateway, Message: "the cluster's API server speaks another protocol than was asked for"}
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return &Refusal{Status: http.StatusHTTPVersionNotSupported, Message: "a websocket needs HTTP/1.1", Fix: "ask for it over HTTP/1.1"}
	}
	stop() // from here on, the connection itself says when it has ended
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Time{}) // what was set is for requests
	if err := switched(buffered.Writer, resp.Header); err != nil {
		return &partialAnswerError{err}
	}
	relay(&client{conn, buffered.Reader}, backend)
	return nil
}

// sameOrigin refuses browsers that show a page of somebody else's.
func sameOrigin(r *http.Request) error {
	origin := r.Header.Values("Origin")
	if len(origin) == 0 {
		return nil
	}
	from, err := url.Parse(origin[0])
	if len(origin) > 1 || err != nil || from.Host == "" || !strings.EqualFold(from.Host, r.Host) {
		return &Refusal{Status: http.StatusForbidden, Message: "a page of another origin may not connect"}
	}
	return nil
}

// withToken takes a token out of the protocols that are asked for, and shows it where tokens are looked for. It returns the
// others that are known here.
func withToken(r *http.Request) ([]string, *http.Request) {
	var protocols []string
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.TrimString(name)
			encoded, ok := strings.CutPrefix(name, tokenProtocol)
			if !ok {
				if slices.Contains(execProtocols(), name) {
					protocols = append(protocols, name)
				}
				continue
			}
			token, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
			if err == nil && r.Header.Get("Authorization") == "" {
				r = r.Clone(r.Context())
				r.Header.Set("Authorization", "Bearer "+string(token))
			}
		}
	}
	return protocols, r
}

// execRequest is what the API server is asked for. Of the client's headers only those of the websocket go with it, without
// extensions: what is passed on is not looked into.
func execRequest(r *http.Request, protocols []string) (*http.Request, error) {
	query := r.URL.Query()
	namespace, pod, container, command := query.Get("namespace"), query.Get("pod"), query.Get("container"), query["command"]
	at, err := newPlace("", "v1", "pods", namespace)
	switch {
	case r.ProtoMajor != 1 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		return nil, &Refusal{Status: http.StatusUpgradeRequired, Message: "this is a websocket", Fix: "ask for an upgrade, over HTTP/1.1"}
	case len(protocols) == 0:
		return nil, bad("want one of the websocket protocols %s", strings.Join(execProtocols(), ", "))
	case err != nil || namespace == "" || !word().MatchString(pod):
		return nil, bad("%q is no name of a pod", clip(namespace+"/"+pod))
	case container != "" && !word().MatchString(container):
		return nil, bad("%q is no name of a container", clip(container))
	case len(command) == 0 || len(strings.Join(command, " ")) > maxCommand:
		return nil, bad("command is not given, or too long")
	}
	out := url.Values{"command": command, "stdout": {"true"}}
	if container != "" {
		out.Set("container", container)
	}
	for _, name := range []string{"stdin", "tty"} {
		yes, err := flag(query, name)
		if err != nil {
			return nil, err
		}
		if yes {
			out.Set(name, "true")
		}
	}
	if out.Get("tty") == "" { // a terminal has one stream for both
		out.Set("stderr", "true")
	}
	asked, err := at.request(r.Context(), http.MethodGet, out, nil, pod, "exec")
	if err != nil {
		return nil, err
	}
	asked.Header.Set("Connection", "Upgrade")
	asked.Header.Set("Upgrade", "websocket")
	asked.Header.Set("Sec-Websocket-Protocol", strings.Join(protocols, ", "))
	for _, name := range []string{"Sec-Websocket-Key", "Sec-Websocket-Version"} {
		asked.Header.Set(name, r.Header.Get(name))
	}
	return asked, nil
}

// switched tells the client that the protocol is another one now.
func switched(w *bufio.Writer, from http.Header) error {
	head := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	for _, name := range []string{"Sec-Websocket-Accept", "Sec-Websocket-Protocol"} {
		head.Set(name, from.Get(name))
	}
	if _, err := w.WriteString("HTTP/1.1 101 Switching Protocols\r\n"); err != nil {
		return err
	}
	if err := head.Write(w); err != nil {
		return err
	}
	if _, err := w.WriteString("\r\n"); err != nil {
		return err
	}
	return w.Flush()
}

// client is a connection of which some may have been read already. One that takes nothing for a while is given up: whatever ends
// the other side could not reach it, and a hub that is about to end waits for it.
type client struct {
	net.Conn
	buffered *bufio.Reader
}

func (c *client) Read(p []byte) (int, error) { return c.buffered.Read(p) }

func (c *client) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// relay passes bytes on both ways until the backend has ended its half, or the client its own some time ago.
func relay(front io.ReadWriteCloser, backend io.ReadWriteCloser) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, _ = io.Copy(backend, front) // either end says enough by ending
		if half, ok := backend.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	down := make(chan struct{})
	go func() {
		defer close(down)
		_, _ = io.Copy(front, backend)
	}()
	select {
	case <-down:
	case <-up:
		timer := time.NewTimer(lingering)
		defer timer.Stop()
		select {
		case <-down:
		case <-timer.C:
		}
	}
	front.Close()
	backend.Close()
	<-up
	<-down
}
