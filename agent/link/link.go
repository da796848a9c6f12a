// Package link owns the agent's requests to its hub.
//
// It knows what is said, not what it means: a poll with the last ETag, a bundle by key, a report. Every answer is
// bounded in bytes and time; every request carries a short-lived token (agent/credential); redirects are not followed, so a token never
// reaches another host. A download that breaks off goes on where it stopped (bundle.go).
package link

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/agent/address"
	"github.com/pluralsh/plural/agent/credential"
	"github.com/pluralsh/plural/api"
)

// pollTimeout is the deadline of a poll, of a report, and of joining.
const pollTimeout = 30 * time.Second

// Hub is the hub as its agent sees it. It is safe for concurrent use.
type Hub struct {
	base   string
	client *http.Client
	// broken holds what downloads left that broke off; downloads is full while one is under way.
	broken    remains
	downloads chan struct{}
}

// Options say where the hub is and how it is trusted.
type Options struct {
	// URL is https://…, or http://… when the host is this machine.
	URL string
	// CA holds PEM certificates to trust instead of the system's; empty means the system's.
	CA []byte
	// Token returns the credential for requests over the TLS connection with the given token.Binding; nil: over any.
	Token     func(binding []byte) (string, error)
	UserAgent string
	// Dial opens connections; nil means TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns the hub at the given address.
func New(o Options) (*Hub, error) {
	_, err := address.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // an idle connection costs the hub half of what it does by HTTP/2: see docs/sizing.md
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: pollTimeout,
		IdleConnTimeout:       5 * time.Minute, // longer than a poll interval: a new connection costs more than a poll
		MaxIdleConnsPerHost:   1,
		WriteBufferSize:       1 << 10, // a TLS record holds one write, and a hub keeps room for the largest of each connection
		Protocols:             protocols,

		MaxResponseHeaderBytes: 64 << 10,
	}
	if o.Dial != nil {
		transport.DialContext = o.Dial
	}
	if transport.TLSClientConfig, err = address.Trust(o.CA); err != nil {
		return nil, err
	}
	return &Hub{
		base: strings.TrimRight(o.URL, "/"), downloads: make(chan struct{}, 1),
		client: &http.Client{
			Transport:     userAgent{o.UserAgent, credential.New(o.Token).Over(transport)},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

var errNoPoll = errors.New("poll hub: the answer is not a plural.v1.Poll; is this the hub?")

// Poll asks what the cluster should run. It returns nil, with the same ETag, when nothing changed since etag. The edition is
// that of api.EditionHeader.
func (h *Hub) Poll(ctx context.Context, etag string) (poll *api.Poll, newETag, edition string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	header := http.Header{}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	response, err := h.do(ctx, http.MethodGet, api.PollPath, header, nil)
	if err != nil {
		return nil, "", "", fmt.Errorf("poll hub: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	edition = response.Header.Get(api.EditionHeader)
	if response.StatusCode == http.StatusNotModified {
		return nil, etag, edition, nil
	}
	body, err := expect(response, http.StatusOK, api.MaxPollBytes)
	if err != nil {
		return nil, "", "", fmt.Errorf("poll hub: %w", err)
	}
	poll = new(api.Poll)
	// Nothing at all reads as a poll that asks for nothing: it must not be taken for one.
	if err := proto.Unmarshal(body, poll); err != nil || poll.GetCluster() == "" {
		return nil, "", "", cmp.Or(ctx.Err(), errNoPoll)
	}
	return poll, response.Header.Get("ETag"), edition, nil
}

// Report tells the hub what the agent sees.
func (h *Hub) Report(ctx context.Context, report *api.Report) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	body, err := proto.Marshal(report)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	response, err := h.do(ctx, http.MethodPost, api.ReportPath, http.Header{"Content-Type": {api.ContentType}}, body)
	if err != nil {
		return fmt.Errorf("report to hub: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := expect(response, http.StatusNoContent, 0); err != nil {
		return fmt.Errorf("report to hub: %w", err)
	}
	return nil
}

// Join exchanges a join token for a registration. It can be asked again with the same keys: who has been registered by them
// gets the same answer.
func (h *Hub) Join(ctx context.Context, asked api.JoinRequest) (*api.JoinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	body, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("encode the request to join: %w", err)
	}
	response, err := h.do(ctx, http.MethodPost, api.JoinPath, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return nil, fmt.Errorf("join by the hub: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := expect(response, http.StatusOK, api.MaxJoinBytes)
	if err != nil {
		return nil, fmt.Errorf("join by the hub: %w", err)
	}
	answer := new(api.JoinAnswer)
	if err := json.Unmarshal(said, answer); err != nil || answer.Cluster == "" {
		return nil, cmp.Or(ctx.Err(), errNoAnswer)
	}
	return answer, nil
}

var errNoAnswer = errors.New("join by the hub: the answer is none; is this the hub?")

func (h *Hub) do(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, h.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = values
	}
	return h.client.Do(request)
}

// Error is an answer that was not the expected one.
type Error struct {
	Code int
	// Text is the beginning of what the hub said.
	Text string
	// After is how long the hub asks to wait; zero when it does not.
	After time.Duration
}

// RetryAfter is how long the hub asks to wait before it is asked again.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Conflict says that the hub knows something that contradicts what it was told.
func (e *Error) Conflict() bool { return e.Code == http.StatusConflict }

func (e *Error) Error() string {
	text := fmt.Sprintf("hub answered %d", e.Code)
	if e.Text != "" {
		text += " (" + e.Text + ")"
	}
	if e.Code == http.StatusUnauthorized {
		text += ": is the cluster's file in git, with this agent's key, and is its clock right?"
	}
	return text
}

// expect reads the body of an answer with the given code, and makes an Error of any other.
func expect(response *http.Response, code int, most int64) ([]byte, error) {
	if response.StatusCode != code {
		return nil, refused(response)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > most {
		return nil, tooLarge(most)
	}
	return body, nil
}

func refused(response *http.Response) *Error {
	said, _ := io.ReadAll(io.LimitReader(response.Body, 200))
	return &Error{Code: response.StatusCode, Text: fmt.Sprintf("%.200q", strings.TrimSpace(string(said))), After: retryAfter(response.Header)}
}

// retryAfter is what a header asks for in seconds; a date, which hubs do not write, asks for nothing.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func tooLarge(most int64) error { return fmt.Errorf("the answer is larger than %d bytes", most) }

type userAgent struct {
	name string
	next http.RoundTripper
}

func (u userAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", u.name)
	return u.next.RoundTrip(r)
}
