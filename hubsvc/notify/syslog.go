package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
)

// Facilities and severities of RFC 5424, as they count in a message's priority.
const (
	daemon   = 3 * 8
	logAudit = 13 * 8
	warning  = 4
	info     = 6
)

func severityOf(worse bool) int {
	if worse {
		return warning
	}
	return info
}

// syslogMessage is one message of RFC 5424.
type syslogMessage struct {
	priority int
	time     time.Time
	id       string
	text     []byte
}

// frame writes a message with its length before it: octet counting, RFC 6587.
func (m *syslogMessage) frame(to *bytes.Buffer, from string) {
	at := "-"
	if !m.time.IsZero() {
		at = m.time.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	head := fmt.Sprintf("<%d>1 %s %s plural-hub - %s - ", m.priority, at, from, m.id)
	fmt.Fprintf(to, "%d %s", len(head)+len(m.text), head)
	to.Write(m.text)
}

// halfCloser is a connection one direction of which can end.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// syslog brings messages over a connection of their own. Syslog acknowledges nothing; that the server has read all is known when it
// ends the connection, after this end said that no more comes.
func (c *sender) syslog(ctx context.Context, address string, messages []syslogMessage) error {
	u, err := url.Parse(address)
	if err != nil {
		return refusedError{errUsable}
	}
	tcp, err := httpclient.Dial(ctx, u.Host, c.noLoopback, new(httpclient.Counter))
	if err != nil {
		return err
	}
	defer func() { _ = tcp.Close() }() // what was read of it counts
	stop := context.AfterFunc(ctx, func() { _ = tcp.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn, ok := tcp.(halfCloser)
	if !ok {
		return errors.ErrUnsupported
	}
	if u.Scheme == "tls" {
		secure := tls.Client(tcp, &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		conn = secure
	}
	var frames bytes.Buffer
	for i := range messages {
		messages[i].frame(&frames, c.self)
	}
	if _, err := conn.Write(frames.Bytes()); err != nil {
		return err
	}
	if err := conn.CloseWrite(); err != nil {
		return err
	}
	// Many servers end TLS without a word of farewell. Somebody between who does so in their place gains little: lines that are missing
	// at the receiver show in the chain.
	said, err := io.Copy(io.Discard, io.LimitReader(conn, maxAnswer))
	if err == nil && said == maxAnswer {
		err = errors.New("it talks without end")
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the server has not read all: %w", err)
	}
	return nil
}
