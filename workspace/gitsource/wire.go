package gitsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pluralsh/plural/internal/httpclient"
)

// wire carries requests to one repository's upload-pack, and answers back. It is used by one fetch at a time.
type wire interface {
	// greet asks for what the server says first, in protocol version 2 where it knows that.
	greet(ctx context.Context, look lookout) (*greeting, error)
	// ask sends one request of a protocol version, 2 or 0. The caller closes the answer.
	ask(ctx context.Context, version int, body string) (io.ReadCloser, error)
	// rest lets go of whatever costs something while nothing is fetched.
	rest()
}

// web is git over HTTP. Its connections outlive a fetch: a poll is one request on a connection that is there.
type web struct {
	client      *http.Client
	credentials *httpclient.Credentials
	first       *url.URL // as configured, without credentials
	base        string   // where the server answered last, without /info/refs
}

func newWeb(o Options, u *url.URL, count *httpclient.Counter) (*web, error) {
	client, err := httpclient.Client(httpclient.Options{
		For: u, Credentials: o.Credentials, MaxBytes: maxAnswer, Counter: count, Stall: o.Stall, NoLoopback: o.NoLoopback,
	})
	if err != nil {
		return nil, err
	}
	bare := *u
	bare.User = nil
	return &web{client: client, credentials: &o.Credentials, first: &bare}, nil
}

const (
	service  = "git-upload-pack"
	infoRefs = "/info/refs"
	// leftover is how much of an answer is read away to keep its connection.
	leftover = 16 << 10
)

func (w *web) greet(ctx context.Context, look lookout) (*greeting, error) {
	at := *w.first
	at.Path = strings.TrimSuffix(at.Path, "/") + infoRefs
	at.RawQuery = "service=" + service
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Git-Protocol", "version=2")
	answer, final, err := w.do(req, "application/x-"+service+"-advertisement")
	if err != nil {
		return nil, err
	}
	defer answer.end()
	final.RawQuery = ""
	base, ok := strings.CutSuffix(final.String(), infoRefs)
	if !ok {
		return nil, fmt.Errorf("%s redirects to what is no git repository", w.first.Host)
	}
	w.base = base
	return readGreeting(answer, look)
}

func (w *web) ask(ctx context.Context, version int, body string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.base+"/"+service, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-"+service+"-request")
	req.Header["Idempotency-Key"] = nil // never sent: it lets net/http try again on a connection that has just been closed
	if version == 2 {
		req.Header.Set("Git-Protocol", "version=2")
	}
	answer, _, err := w.do(req, "application/x-"+service+"-result")
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// do refuses answers of another type than git's: a page to log in on comes with status 200. It gives the answer, and
// where it came from after redirects.
func (w *web) do(req *http.Request, accept string) (*answerBody, url.URL, error) {
	req.Header.Set("Accept", accept)
	res, err := w.client.Do(req) //nolint:bodyclose // the answer closes it
	if uerr := new(url.Error); errors.As(err, &uerr) {
		err = uerr.Err // the URL is said once, by whoever fetches
	}
	if err != nil {
		return nil, url.URL{}, err
	}
	answer := &answerBody{res.Body}
	if err := httpclient.CheckStatus(res, *w.credentials); err != nil {
		answer.end()
		return nil, url.URL{}, err
	}
	if kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";"); kind != accept {
		answer.end()
		return nil, url.URL{}, fmt.Errorf("%s answers with %.100q, not as a git server does: is that the repository's URL, "+
			"and does it want credentials?", res.Request.URL.Host, kind)
	}
	return answer, *res.Request.URL, nil
}

func (w *web) rest() {}

// answerBody reads the end of an answer before it closes it, so that the connection can be used again.
type answerBody struct{ io.ReadCloser }

// Close implements io.Closer.
func (b *answerBody) Close() error {
	b.end()
	return nil
}

// end closes after all that was wanted has been read: what goes wrong from here on is nobody's loss.
func (b *answerBody) end() {
	_, _ = io.CopyN(io.Discard, b.ReadCloser, leftover)
	_ = b.ReadCloser.Close()
}
