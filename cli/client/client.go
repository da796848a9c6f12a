// Package client owns the client of a hub's API.
//
// It refuses to know how answers are shown and where addresses and tokens come from.
//
// Each method is one question: the request carries the token, the answer is read up to a bound and decoded into the
// types of api/v1; unknown fields are fine, so an older client reads a newer hub. Lists come whole, page by page. An
// answer outside 2xx is an *Error, no answer at all an *Unreachable. An answer of a hub that says that it serves another
// repository than the one that is expected is an *OtherRepository, whatever else it says.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Bounds of one conversation.
const (
	maxAnswer = 32 << 20
	maxPages  = 1000
	// timeout is for one request, from dialling to the answer's last byte.
	timeout = 30 * time.Second
	// SlowAfter is how long an answer may take to begin before Slow is told.
	SlowAfter = 5 * time.Second
)

// Client asks one hub. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	token     atomic.Pointer[string]
	userAgent string
	http      *http.Client
	// repository is the identity of the installation repo whose hub this has to be; empty: any.
	repository string
	// slow is told of an answer that takes long to begin, and from which cluster the hub has to get it; empty: from none.
	slow func(cluster string)
}

// Error is a hub's answer outside 2xx.
type Error struct {
	// Status is the HTTP status code.
	Status int
	// Message and Fix are the hub's words; Message is never empty.
	Message, Fix string
	// Hub is its address, Cluster the one whose live state or API was asked for; empty: none's.
	Hub, Cluster string
}

// Error is the hub's message with the status.
func (e *Error) Error() string {
	return fmt.Sprintf("hub answered %d: %s", e.Status, e.Message)
}

// Unreachable means that no answer came.
type Unreachable struct {
	// Hub is its address, Wanted the identity of the repo that it was asked about; empty: any.
	Hub, Wanted string
	Err         error
}

// Error names the hub and why.
func (e *Unreachable) Error() string { return fmt.Sprintf("reach hub %s: %v", e.Hub, e.Err) }

// Unwrap is the network's error.
func (e *Unreachable) Unwrap() error { return e.Err }

// NoHub means that what answers at the hub's address is none, or one of an old release that lacks what was asked for.
type NoHub struct{ Answer *Error }

// Error names the address.
func (e *NoHub) Error() string {
	return fmt.Sprintf("what answers at %s is no hub: it answered %d, and not as a hub does", e.Answer.Hub, e.Answer.Status)
}

// Unwrap is the answer.
func (e *NoHub) Unwrap() error { return e.Answer }

// OtherRepository means that the hub serves another installation repo than the one that it was asked about.
type OtherRepository struct {
	// Hub is its address, Serves the identity of the repo that it serves, Wanted that of the one it was asked about.
	Hub, Serves, Wanted string
}

// Error names the hub.
func (e *OtherRepository) Error() string {
	return fmt.Sprintf("the hub at %s serves another repository (%s), not this one (%s)", e.Hub, e.Serves, e.Wanted)
}

// New is a client of the hub at address (http or https), with token, which may be empty, for a program of that version.
// Proxies are taken from the environment.
func New(address, token, version string) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err == nil && base.User != nil:
		return nil, fmt.Errorf("hub address of %s: it carries a credential; a token belongs in PLURAL_TOKEN", base.Host)
	case err != nil || base.Host == "" || base.RawQuery != "" || base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("hub address %q: write it as https://HOST", address)
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: timeout,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
	c := &Client{base: base, userAgent: "plural/" + version}
	c.http = &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: c.stay}
	c.As(token)
	return c, nil
}

// stay follows redirects within the hub alone: elsewhere the token would go along, to another server or over plain HTTP.
func (c *Client) stay(r *http.Request, via []*http.Request) error {
	const most = 5
	switch {
	case r.URL.Scheme != c.base.Scheme || r.URL.Host != c.base.Host:
		return fmt.Errorf("it says that it is at %s://%s: if that is right, name it so", r.URL.Scheme, r.URL.Host)
	case len(via) >= most:
		return fmt.Errorf("more than %d redirects", most)
	}
	return nil
}

// endless is the way to the hub for answers that take as long as they do.
func (c *Client) endless() *http.Client {
	return &http.Client{Transport: c.http.Transport, CheckRedirect: c.stay}
}

// As has further requests carry this token, which may be empty, and says whether it is another than before.
func (c *Client) As(token string) (other bool) {
	before := c.token.Swap(&token)
	return before == nil || *before != token
}

// Expect has answers refused of a hub that says that it serves another repository than that of this identity. A hub that does not
// say which it serves, as those of earlier releases, is believed. It comes before the first request; empty expects nothing.
func (c *Client) Expect(repository string) { c.repository = repository }

// WhenSlow has slow called for each request that gets no answer for SlowAfter, with the cluster that the hub asks for it; empty: the
// hub answers by itself. It comes before the first request.
func (c *Client) WhenSlow(slow func(cluster string)) { c.slow = slow }

// ask sends one request, and looks who answers.
func (c *Client) ask(req *http.Request, over *http.Client) (*http.Response, error) {
	if c.slow != nil && over == c.http { // a stream may begin with what comes later
		defer time.AfterFunc(SlowAfter, func() { c.slow(waitsFor(req.URL.Path)) }).Stop()
	}
	resp, err := over.Do(req)
	if err != nil {
		return nil, c.unreachable(req.Context(), err)
	}
	if serves := resp.Header.Get(v1.RepositoryHeader); serves != "" && c.repository != "" && serves != c.repository {
		_ = resp.Body.Close() // it is not read
		return nil, &OtherRepository{Hub: c.Address(), Serves: serves, Wanted: c.repository}
	}
	return resp, nil
}

// identify has a request carry the token.
func (c *Client) identify(req *http.Request) {
	if token := *c.token.Load(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
}

// Address is the hub's.
func (c *Client) Address() string { return c.base.String() }

// Status is the fleet at a glance.
func (c *Client) Status(ctx context.Context) (*v1.Status, error) {
	return get[v1.Status](ctx, c, "/v1/status", nil)
}

// Clusters are all clusters, by name.
func (c *Client) Clusters(ctx context.Context) (*v1.List[v1.Cluster], error) {
	return list[v1.Cluster](ctx, c, "/v1/clusters")
}

// Cluster is one cluster, with its deployments.
func (c *Client) Cluster(ctx context.Context, name string) (*v1.ClusterDetail, error) {
	cluster, err := get[v1.ClusterDetail](ctx, c, "/v1/clusters/"+url.PathEscape(name), nil)
	if err != nil || cluster.LeftOut == 0 {
		return cluster, err
	}
	cluster.Deployments, err = c.complete(ctx, cluster.Deployments, "cluster", name)
	cluster.LeftOut = 0
	return cluster, err
}

// Services are all services, by name.
func (c *Client) Services(ctx context.Context) (*v1.List[v1.Service], error) {
	return list[v1.Service](ctx, c, "/v1/services")
}

// Service is one service, with its deployments.
func (c *Client) Service(ctx context.Context, name string) (*v1.Service, error) {
	service, err := get[v1.Service](ctx, c, "/v1/services/"+url.PathEscape(name), nil)
	if err != nil || service.LeftOut == 0 {
		return service, err
	}
	service.Deployments, err = c.complete(ctx, service.Deployments, "service", name)
	service.LeftOut = 0
	return service, err
}

// Sources are all sources, by name.
func (c *Client) Sources(ctx context.Context) (*v1.List[v1.Source], error) {
	return list[v1.Source](ctx, c, "/v1/sources")
}

// Source is one source.
func (c *Client) Source(ctx context.Context, name string) (*v1.Source, error) {
	return get[v1.Source](ctx, c, "/v1/sources/"+sourcePath(name), nil)
}

// sourcePath is a source's name as a part of a path. The installation repo's own, ".", would be taken for the folder above.
func sourcePath(name string) string {
	if name == "." {
		return v1.OwnSource
	}
	return url.PathEscape(name)
}

// Sync has the hub look at a source now.
func (c *Client) Sync(ctx context.Context, source string) error {
	_, err := c.read(ctx, http.MethodPost, c.base.String()+"/v1/sources/"+sourcePath(source)+"/sync")
	return err
}

// Hub asks the hub about itself.
func (c *Client) Hub(ctx context.Context) (*v1.Hub, error) {
	return get[v1.Hub](ctx, c, "/v1/hub", nil)
}

// Hint tells the hub that somebody pushed, so that it looks at its repositories at once.
func (c *Client) Hint(ctx context.Context) error {
	_, err := c.read(ctx, http.MethodPost, c.base.String()+"/hooks/git")
	return err
}

// list puts all pages together.
func list[T any](ctx context.Context, c *Client, path string) (*v1.List[T], error) {
	whole := &v1.List[T]{Items: []T{}}
	query := url.Values{}
	for range maxPages {
		page, err := get[v1.List[T]](ctx, c, path, query)
		if err != nil {
			return nil, err
		}
		whole.Items = append(whole.Items, page.Items...)
		whole.Total = page.Total
		if page.Next == "" {
			return whole, nil
		}
		query.Set("continue", page.Next)
	}
	return nil, fmt.Errorf("read %s: more than %d pages", path, maxPages)
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	target := c.base.String() + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	body, err := c.read(ctx, http.MethodGet, target)
	if err != nil {
		return nil, err
	}
	var answer T
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("read %s of hub %s: %w", path, c.Address(), err)
	}
	return &answer, nil
}

// read is the body of the answer to a request without one.
func (c *Client) read(ctx context.Context, method, target string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, fmt.Errorf("ask hub: %w", err)
	}
	c.identify(req)
	return c.answer(req)
}

// answer is the body of the answer to a request.
func (c *Client) answer(req *http.Request) ([]byte, error) {
	ctx := req.Context()
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.ask(req, c.http)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("read answer of hub %s: it is larger than %d bytes", c.Address(), maxAnswer)
	}
	switch {
	case foreign(resp, body):
		return nil, &NoHub{refusal(resp, body)}
	case resp.StatusCode/100 != 2:
		return nil, refusal(resp, body)
	}
	return body, nil
}

// foreign says that an answer is neither a hub's nor one of a proxy before it: a page, or that there is no such path.
func foreign(resp *http.Response, body []byte) bool {
	if resp.Header.Get(v1.RepositoryHeader) != "" {
		return false
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		var told v1.Error
		return json.Unmarshal(body, &told) != nil
	}
	return false
}

// unreachable is what to say when err came in an answer's place. When the caller's context ended, that is the reason.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return &Unreachable{Hub: c.Address(), Wanted: c.repository, Err: err}
}

// refusal reads the body of an answer outside 2xx, which need not be a hub's: a proxy may stand between.
func refusal(resp *http.Response, body []byte) *Error {
	var told v1.Error
	if json.Unmarshal(body, &told) != nil || told.Message == "" {
		told = v1.Error{Message: strings.ToLower(http.StatusText(resp.StatusCode))}
	}
	if told.Message == "" {
		told.Message = "no reason given"
	}
	return &Error{
		Status: resp.StatusCode, Message: told.Message, Fix: told.Fix,
		Hub: resp.Request.URL.Scheme + "://" + resp.Request.URL.Host, Cluster: clusterIn(resp.Request.URL.Path),
	}
}

// waitsFor is the cluster from which the hub has to get what a path asks for; empty where it knows it by itself, as it does of the
// connections of a cluster, and of what it has its agent look at.
func waitsFor(path string) string {
	if _, below, _ := strings.Cut(path, "/v1/clusters/"); strings.HasSuffix(below, "/connections") || strings.HasSuffix(below, "/sync") {
		return ""
	}
	return clusterIn(path)
}

// clusterIn is the cluster that a path of the hub's leads into, by its API or by what is live there.
func clusterIn(path string) string {
	_, below, found := strings.Cut(path, "/v1/clusters/")
	if !found {
		_, below, _ = strings.Cut(path, "/k8s/")
	}
	cluster, _, further := strings.Cut(below, "/")
	if !further {
		return "" // the hub answers of the cluster by itself
	}
	return cluster
}
