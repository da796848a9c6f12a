// Package faultproxy owns a proxy before an API server that injects faults.
//
// It knows requests and answers, and nothing of what they are about. A [Proxy] passes everything on to the real server,
// but what a [Rule] matches: that meets the rule's [Fault], which may answer itself, spoil the server's answer, or lose it
// after the server has done what it was asked. Rules are put in and lifted while requests are under way.
package faultproxy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// Rule says which requests meet a fault. It must not be changed once it is in use.
type Rule struct {
	// Method is an HTTP method, or WATCH; empty fits all. A watch is no GET here.
	Method string
	// Path is matched against the path with its query, such as "/api/v1/namespaces/web/configmaps?limit=500"; nil fits all.
	Path *regexp.Regexp
	// Skip is how many of the requests that fit are left alone first, Times how many meet the fault then; all when zero.
	Skip, Times int
	Fault       Fault
}

// Fault answers a request. Next is the way to the server; a fault may go there at most once.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Watch is the method of a rule for watches.
const Watch = "WATCH"

// Request is one that came to the proxy.
type Request struct {
	Method string // Watch for watches
	// Path has the query with it.
	Path string
	// Faulty requests met a fault.
	Faulty bool
}

// Proxy stands in front of one API server. It is safe for concurrent use.
type Proxy struct {
	address string
	server  *http.Server
	next    http.Handler
	serving sync.WaitGroup

	mu    sync.Mutex // guards what follows
	rules []*counted
	seen  []Request
}

type counted struct {
	Rule
	met int
}

// New listens on the loopback interface for requests to the server of config, and makes them as config's user.
func New(ctx context.Context, config *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("connect to API server: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen before API server: %w", err)
	}
	p := &Proxy{address: listener.Addr().String(), next: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     transport,
		FlushInterval: -1,                                                      // events of a watch are passed on one by one
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // broken answers are what this is for
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // the server is away: so is the proxy
		},
	}}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // it ends with Close
	return p, nil
}

// Close ends the proxy with all its connections.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.serving.Wait()
	return err
}

// Config reaches the server through the proxy. It carries no credential: the proxy has one.
func (p *Proxy) Config() *rest.Config {
	return &rest.Config{Host: "http://" + p.address, QPS: -1}
}

// Add puts a rule in, behind those that are there; the first that fits a request counts. Lift takes it out.
func (p *Proxy) Add(rule Rule) (lift func()) {
	added := &counted{Rule: rule}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, added)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		kept := make([]*counted, 0, len(p.rules))
		for _, r := range p.rules {
			if r != added {
				kept = append(kept, r)
			}
		}
		p.rules = kept
	}
}

// Requests are those that have come, in order.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.seen...)
}

// Unmet says whether there is a rule whose fault no request has met.
func (p *Proxy) Unmet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.rules, func(r *counted) bool { return r.met <= r.Skip })
}

// ServeHTTP passes a request on, or to its fault.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := p.take(r); fault != nil {
		fault(w, r, p.next)
		return
	}
	p.next.ServeHTTP(w, r)
}

// take notes the request, and returns the fault that it meets.
func (p *Proxy) take(r *http.Request) Fault {
	request := Request{Method: r.Method, Path: r.URL.RequestURI()}
	if isWatch(r) {
		request.Method = Watch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var fault Fault
	for _, rule := range p.rules {
		if rule.fits(request) {
			if rule.met++; rule.met > rule.Skip && (rule.Times == 0 || rule.met <= rule.Skip+rule.Times) {
				fault = rule.Fault
			}
			break
		}
	}
	request.Faulty = fault != nil
	p.seen = append(p.seen, request)
	return fault
}

func (r *Rule) fits(request Request) bool {
	return (r.Method == "" || r.Method == request.Method) && (r.Path == nil || r.Path.MatchString(request.Path))
}

func isWatch(r *http.Request) bool {
	asked := r.URL.Query().Get("watch")
	return asked == "true" || asked == "1"
}
