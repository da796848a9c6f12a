package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/rotation"
)

// SignatureHeader stands on what a webhook gets: "t=UNIX SECONDS,v1=HEX", where HEX is the HMAC-SHA256 under the sink's
// secret of the seconds, a dot and the body. Who checks it refuses times that are minutes away.
const SignatureHeader = "Plural-Signature"

// maxAnswer bounds what is read of a sink's answer.
const maxAnswer = 64 << 10

// maxText bounds a message for people, in bytes.
const maxText = 3000

// sender brings messages to sinks. It keeps a client for each address, and so its connections.
type sender struct {
	// self names this replica.
	self string
	// noLoopback refuses sinks on this machine.
	noLoopback bool
	// full is how long a file gets before it is put aside, in bytes.
	full int64

	mu      sync.Mutex // guards clients
	clients map[string]*http.Client
	file    sync.Mutex // held while one is written
}

func newCourier(self string, noLoopback bool) *sender {
	return &sender{self: self, noLoopback: noLoopback, full: maxFile, clients: make(map[string]*http.Client)}
}

// refusedError is what a sink will say to any further attempt too.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// passing says whether the next attempt may go well.
func passing(err error) bool {
	refused := refusedError{}
	return !errors.As(err, &refused)
}

// bring makes one attempt. No error repeats the address of a sink, which may be a secret.
func (c *sender) bring(ctx context.Context, to *Sink, m *Message) error {
	switch to.Kind {
	case File:
		line, err := json.Marshal(m)
		if err != nil {
			return refusedError{err}
		}
		return c.write(to.Target, append(line, '\n'))
	case Syslog:
		line, err := json.Marshal(m)
		if err != nil {
			return refusedError{err}
		}
		return c.syslog(ctx, to.Target, []syslogMessage{{priority: daemon + severityOf(m.Warning), time: m.Time, id: "event", text: line}})
	case Slack:
		body, err := json.Marshal(map[string]string{"text": escapeSlack(m.Text())})
		if err != nil {
			return refusedError{err}
		}
		return c.post(ctx, to, body, nil)
	case Webhook:
	}
	body, err := json.Marshal(m)
	if err != nil {
		return refusedError{err}
	}
	return c.webhook(ctx, to, m.ID, body)
}

// webhook posts what is signed, where there is a key.
func (c *sender) webhook(ctx context.Context, to *Sink, id string, body []byte) error {
	return c.post(ctx, to, body, func(h http.Header) {
		h.Set("Plural-Message", id)
		if len(to.Secret) > 0 {
			h.Set(SignatureHeader, sign(to.Secret, time.Now(), body))
		}
	})
}

func sign(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte(seconds + "."))
	sum.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(sum.Sum(nil))
}

func (c *sender) post(ctx context.Context, to *Sink, body []byte, more func(http.Header)) error {
	client, err := c.client(to.Target)
	if err != nil {
		return refusedError{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Target, bytes.NewReader(body))
	if err != nil {
		return refusedError{errUsable}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "plural-hub")
	if more != nil {
		more(request.Header)
	}
	answer, err := client.Do(request)
	if err != nil {
		return unaddressed(err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body) // read to its end, the connection is used again
	err = httpclient.CheckStatus(answer, httpclient.Credentials{})
	if code := answer.StatusCode; err != nil && code/100 == 4 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests {
		return refusedError{err}
	}
	return err
}

// unaddressed takes the request off an error, and its address with it.
func unaddressed(err error) error {
	if wrapped := errors.Unwrap(err); wrapped != nil {
		return wrapped
	}
	return err
}

var errUsable = errors.New("its address is not https://HOST/PATH, with a host that may be spoken to")

// maxClients bounds the addresses that connections are kept to.
const maxClients = 100

func (c *sender) client(address string) (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client := c.clients[address]; client != nil {
		return client, nil
	}
	u, err := httpclient.ParseURL(address, "https", "http")
	if err != nil {
		return nil, errUsable // what is wrong with it stands beside it, and it may be a secret
	}
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: maxAnswer, NoLoopback: c.noLoopback})
	if err != nil {
		return nil, err
	}
	if len(c.clients) >= maxClients {
		for _, old := range c.clients {
			old.CloseIdleConnections()
		}
		clear(c.clients)
	}
	c.clients[address] = client
	return client, nil
}

// maxFile is how long a sink's file gets before it is put aside, in bytes, and keptFiles how many stay, with the newest.
const (
	maxFile   = 64 << 20
	keptFiles = 4
)

// write adds lines to a file.
func (c *sender) write(name string, lines []byte) error {
	c.file.Lock()
	defer c.file.Unlock()
	if err := c.rotate(rotation.Files{Newest: name, Keep: keptFiles}); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(lines)
	return errors.Join(err, file.Close())
}

// rotate puts a file aside that is full, and deletes the oldest.
func (c *sender) rotate(files rotation.Files) error {
	info, err := os.Stat(files.Newest)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < c.full {
		return nil
	}
	if err != nil {
		return err
	}
	aside, err := files.Next(time.Now())
	if err != nil {
		return err
	}
	if err := os.Rename(files.Newest, aside); err != nil {
		return err
	}
	return files.Prune()
}

// Text is the message as people read it.
func (m *Message) Text() string {
	var text strings.Builder
	word := "info"
	if m.Warning {
		word = "warning"
	}
	fmt.Fprintf(&text, "[%s] %s: %s", m.Workspace, word, m.Reason)
	if m.Service != "" {
		fmt.Fprintf(&text, " %s", m.Service)
	}
	switch n := len(m.Clusters); {
	case m.Count > 1 && n > 3:
		fmt.Fprintf(&text, " on %d clusters (%s, …)", m.Count, strings.Join(m.Clusters[:3], ", "))
	case n > 0:
		fmt.Fprintf(&text, " on %s", strings.Join(m.Clusters, ", "))
	}
	if m.Message != "" {
		fmt.Fprintf(&text, ": %s", m.Message)
	}
	if m.Repeated > 0 {
		fmt.Fprintf(&text, " (and %d times since it was told last)", m.Repeated)
	}
	if m.Dropped > 0 {
		fmt.Fprintf(&text, " (%d messages before this one were lost)", m.Dropped)
	}
	return clip(printable(text.String()))
}

// printable puts marks in the place of what would steer a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '\uFFFD'
		}
		return r
	}, text)
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + "…"
}

// escapeSlack keeps an event's words from being taken for links and mentions.
func escapeSlack(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
