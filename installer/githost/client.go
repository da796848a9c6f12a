package githost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cli/go-gh/v2/pkg/api"
	"github.com/cli/go-gh/v2/pkg/auth"
)

const (
	// timeout is how long one answer may take, maxAnswer how long it may be, in bytes.
	timeout   = 30 * time.Second
	maxAnswer = 8 << 20
)

// Options say how a GitHub is talked to; the zero value is the usual.
type Options struct {
	// Transport carries the requests; nil is Go's own, with the proxies of the environment.
	Transport http.RoundTripper
	// Token is the person's for a host, empty for none; nil asks the environment, gh's configuration, and gh.
	Token func(host string) string
}

// Client is the GitHub of one repository, for one person.
type Client struct {
	repository Repository
	rest       *api.RESTClient
}

// Connect makes a client. It asks nobody but gh; without a token the error is an *Error that says how to get one.
func Connect(r Repository, o Options) (*Client, error) {
	c := &Client{repository: r}
	token := o.Token
	if token == nil {
		token = func(host string) string { found, _ := auth.TokenForHost(host); return found }
	}
	found := token(r.Host)
	if found == "" {
		return nil, c.fault("log in to "+r.Host, "there is no token for it", login(r.Host))
	}
	transport := o.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	var err error
	c.rest, err = api.NewRESTClient(api.ClientOptions{
		Host: r.Host, AuthToken: found, Transport: bounded{transport}, Timeout: timeout, LogIgnoreEnv: true, // a log would show secrets
		// A repository that has moved is one that the person did not name, and a token goes where it was meant to go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	if err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", r.Host, err)
	}
	return c, nil
}

// login is how a person gets a token for a host.
func login(host string) string {
	variable := "GH_TOKEN"
	if auth.IsEnterprise(host) {
		variable = "GH_ENTERPRISE_TOKEN"
	}
	return fmt.Sprintf("gh auth login --hostname %s, or set %s", host, variable)
}

// bounded cuts off answers that are too long.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	return answer, nil
}

// Error is what a GitHub has against something.
type Error struct {
	Repository Repository
	// Doing is what was tried, Cause what is against it.
	Doing, Cause string
	// Status is the HTTP status of the answer, 0 when there was none.
	Status int
	// Err is the cause as it came, or nil.
	Err error

	fix string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%s): %s", e.Doing, e.Repository, e.Cause) }

// Fix is what can be done about it, empty when nobody knows.
func (e *Error) Fix() string { return e.fix }

// Unwrap is the cause as it came.
func (e *Error) Unwrap() error { return e.Err }

func (c *Client) fault(doing, cause, fix string) *Error {
	return &Error{Repository: c.repository, Doing: doing, Cause: cause, fix: fix}
}

// absent says whether err is that something is not there, or must not be seen; taken that a name is in use.
func absent(err error) bool { return status(err) == http.StatusNotFound }
func taken(err error) bool  { return status(err) == http.StatusUnprocessableEntity }

func status(err error) int {
	var e *Error
	if errors.As(err, &e) {
		return e.Status
	}
	return 0
}

func paged(path string, size, number int) string {
	return path + "?per_page=" + strconv.Itoa(size) + "&page=" + strconv.Itoa(number)
}

func (c *Client) get(ctx context.Context, doing, path string, into any) error {
	return c.explained(doing, c.rest.DoWithContext(ctx, http.MethodGet, path, nil, into))
}

// send sends an object, and reads one into the last argument unless that is nil.
func (c *Client) send(ctx context.Context, doing, method, path string, object, into any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if into == nil {
		into = &json.RawMessage{}
	}
	return c.explained(doing, c.rest.DoWithContext(ctx, method, path, bytes.NewReader(body), into))
}

// explained is a failure with its cause and what mends it.
func (c *Client) explained(doing string, err error) error {
	if err == nil {
		return nil
	}
	var answer *api.HTTPError
	if !errors.As(err, &answer) {
		var transport *url.Error
		if errors.As(err, &transport) {
			err = transport.Err // the address is told already
		}
		e := c.fault(doing, err.Error(), "see that "+c.repository.Host+" can be reached from here; HTTPS_PROXY names a proxy")
		e.Err = err
		return e
	}
	e := c.fault(doing, said(answer), "")
	e.Status, e.Err = answer.StatusCode, err
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		e.fix = login(c.repository.Host)
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusNotFound:
		c.denied(e, answer.Headers)
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		e.Cause, e.fix = "it has another name now", "give the remote its new address: git remote set-url origin URL"
	case http.StatusProxyAuthRequired:
		e.fix = "give HTTPS_PROXY the user and the password that the proxy wants"
	}
	return e
}

// said is what a GitHub's answer says.
func said(answer *api.HTTPError) string {
	parts := []string{fmt.Sprintf("%s answered %d", answer.RequestURL.Host, answer.StatusCode)}
	if answer.Message != "" {
		parts = append(parts, answer.Message)
	}
	for _, item := range answer.Errors {
		if item.Message != "" && !strings.Contains(answer.Message, item.Message) {
			parts = append(parts, item.Message)
		}
	}
	return strings.Join(parts, ": ")
}

// denied tells what a token lacks, as far as the answer's headers do.
func (c *Client) denied(e *Error, h http.Header) {
	host := c.repository.Host
	accepted, has := h.Get("X-Accepted-Oauth-Scopes"), h.Get("X-Oauth-Scopes")
	switch sso := h.Get("X-Github-Sso"); {
	case strings.HasPrefix(sso, "required"):
		e.Cause += ": the organization wants single sign-on for the token"
		e.fix = "authorize the token for the organization"
		if _, address, ok := strings.Cut(sso, "url="); ok && strings.HasPrefix(address, "https://"+host+"/") {
			e.fix += ": " + address
		}
	case h.Get("X-Ratelimit-Remaining") == "0" || h.Get("Retry-After") != "":
		e.fix = "wait, and try again"
		if at, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil {
			e.fix = "try again after " + time.Unix(at, 0).UTC().Format(time.RFC3339)
		}
	case h.Get("X-Accepted-Github-Permissions") != "" && accepted == "" && has == "":
		e.Cause += ": the token lacks a permission on the repository"
		e.fix = "give the token " + h.Get("X-Accepted-Github-Permissions") + ", or: " + login(host)
	case accepted != "" && !anyScope(has, accepted):
		e.Cause += fmt.Sprintf(": the token has the scopes %q, and one of %q is wanted", has, accepted)
		e.fix = "gh auth refresh --hostname " + host + " --scopes repo,admin:repo_hook"
	default:
		e.fix = "use a token of somebody with the role Admin on the repository: " + login(host)
	}
}

// anyScope says whether two lists of scopes share one.
func anyScope(has, accepted string) bool {
	for _, scope := range strings.Split(accepted, ",") {
		for _, own := range strings.Split(has, ",") {
			if own = strings.TrimSpace(own); own != "" && own == strings.TrimSpace(scope) {
				return true
			}
		}
	}
	return false
}
