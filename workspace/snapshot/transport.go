package snapshot

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/file"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/go-git/go-git/v5/plumbing/transport/ssh"
)

// CheckURL says whether a mirror may follow url: https, ssh, http to this machine, and file when allowed.
func CheckURL(raw string, allowFile bool) error {
	_, err := parseURL(raw, allowFile)
	return err
}

func parseURL(raw string, allowFile bool) (*url.URL, error) {
	refuse := func(reason string) (*url.URL, error) {
		return nil, fmt.Errorf("repository URL %q: %s", Redact(raw), reason)
	}
	if strings.HasPrefix(raw, "-") || strings.ContainsFunc(raw, func(r rune) bool { return r <= 0x20 || r == 0x7f }) {
		return refuse("starts with a dash or holds white space")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return refuse("not a URL: write https://HOST/PATH or ssh://git@HOST/PATH")
	}
	if u.Scheme != "file" && (u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-")) {
		return refuse("names no usable host: write https://HOST/PATH or ssh://git@HOST/PATH")
	}
	switch u.Scheme {
	case "https", "ssh":
		return u, nil
	case "http":
		if !loopback(u.Hostname()) {
			return refuse("http is for this machine only: use https")
		}
		return u, nil
	case "file":
		if !allowFile {
			return refuse("file URLs are not allowed here: use https or ssh")
		}
		return u, nil
	}
	return refuse("unsupported scheme: use https or ssh")
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// Redact takes the credentials out of a repository URL, for errors, logs and screens. What is no URL keeps nothing that
// stands before an @.
func Redact(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" {
		if u.User == nil {
			return raw
		}
		if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
			u.User = url.User("redacted")
		}
		return u.String()
	}
	if at := strings.LastIndex(raw, "@"); at >= 0 {
		return "redacted" + raw[at:]
	}
	return raw
}

// redactError hides every form of the URL's credentials that a library may have put into a text.
func redactError(err error, u *url.URL) error {
	if err == nil || u.User == nil {
		return err
	}
	password, _ := u.User.Password()
	secrets := []string{u.User.String(), password, url.QueryEscape(password), url.PathEscape(password)}
	if u.Scheme != "ssh" {
		secrets = append(secrets, u.User.Username())
	}
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" && secret != "git" {
			text = strings.ReplaceAll(text, secret, "redacted")
		}
	}
	return &redactedError{text: text, err: err}
}

// redactedError shows the cleaned text, and keeps the cause for errors.Is and errors.As.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Bounds of one exchange with a remote.
const (
	maxPack        = 512 << 20
	maxAnswer      = maxPack + 64<<20
	dialTimeout    = 15 * time.Second
	headerTimeout  = 60 * time.Second
	idleConnection = 5 * time.Minute
)

// newWeb makes the HTTP client that all fetches of a mirror share, so that polls reuse one connection.
func newWeb() transport.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	base.ResponseHeaderTimeout = headerTimeout
	base.IdleConnTimeout = idleConnection
	base.MaxIdleConnsPerHost = 2
	return githttp.NewClient(&http.Client{Transport: boundedTransport{base}, CheckRedirect: sameHost})
}

// sameHost keeps a remote from sending the mirror, which may sit inside a private network, anywhere else.
func sameHost(req *http.Request, via []*http.Request) error {
	if first := via[0].URL; req.URL.Host != first.Host {
		return fmt.Errorf("redirect from %s to another host %s refused: name the repository by its new URL", first.Host, req.URL.Host)
	}
	return nil
}

// boundedTransport cuts off answers that are longer than any a mirror accepts.
type boundedTransport struct{ base http.RoundTripper }

func (t boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: maxAnswer}
	return res, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &LimitError{What: "remote's answer", Size: maxAnswer - b.left, Max: maxAnswer}
	}
	return n, err
}

// dial starts a session for fetching; the caller closes it.
func (m *Mirror) dial(u *url.URL) (transport.UploadPackSession, error) {
	ep, err := transport.NewEndpoint(u.String())
	if err != nil {
		return nil, err
	}
	client := m.web
	switch u.Scheme {
	case "ssh":
		client = ssh.DefaultClient
	case "file":
		client = file.DefaultClient
	}
	return client.NewUploadPackSession(ep, nil)
}
