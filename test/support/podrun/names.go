package podrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// place is a port of a pod, or of a Service.
type place struct {
	namespace, name string
	port            int
}

// names know where ports of the cluster are on this machine.
type names struct {
	node   *Node
	ctx    context.Context //nolint:containedctx // of the goroutines that carry connections, until close
	server *http.Server
	at     string // of the proxy

	mu       sync.Mutex // guards what follows
	pods     map[place]string
	services map[place]string
	taken    map[string]bool
	closers  []io.Closer
	carrying sync.WaitGroup
}

func newNames(n *Node) *names {
	return &names{node: n, pods: map[place]string{}, services: map[place]string{}, taken: map[string]bool{}}
}

// serve starts the proxy.
func (n *names) serve(ctx context.Context) error {
	n.ctx = ctx
	listener, err := n.listen()
	if err != nil {
		return err
	}
	n.at = listener.Addr().String()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, address) },
	}
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			reverse.ServeHTTP(w, r)
			return
		}
		n.connect(w, r)
	}
	n.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(handle)}
	n.carrying.Go(func() {
		if err := n.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.node.log("podrun: proxy: %v", err)
		}
	})
	return nil
}

func (n *names) proxy() string { return "http://" + n.at }

func (n *names) close() {
	_ = n.server.Close() // nobody listens any more
	n.mu.Lock()
	for _, c := range n.closers {
		_ = c.Close()
	}
	n.mu.Unlock()
	n.carrying.Wait()
}

func (n *names) listen() (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(n.ctx, "tcp", "127.0.0.1:0")
}

// connect carries what a client of the proxy says to whom it named.
func (n *names) connect(w http.ResponseWriter, r *http.Request) {
	far, err := n.dial(r.Context(), r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = far.Close()
		return
	}
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_, _ = near.Close(), far.Close()
		return
	}
	n.carry(near, far, buffered)
}

// carry joins two connections until either ends, or the node does. What was read of near already comes from early.
func (n *names) carry(near, far net.Conn, early io.Reader) {
	stop := context.AfterFunc(n.ctx, func() { _, _ = near.Close(), far.Close() })
	defer stop()
	var both sync.WaitGroup
	pass := func(to net.Conn, from io.Reader) {
		_, _ = io.Copy(to, from) // however it ends, it has ended
		if tcp, ok := to.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}
	both.Go(func() { pass(far, early) })
	both.Go(func() { pass(near, far) })
	both.Wait()
	_, _ = near.Close(), far.Close()
}

// pod gives a port of a pod one of this machine.
func (n *names) pod(namespace, name string, port int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := place{namespace, name, port}
	for n.pods[at] == "" {
		listener, err := n.listen()
		if err != nil {
			n.node.log("podrun: no port for %v: %v", at, err)
			return ""
		}
		if address := listener.Addr().String(); !n.taken[address] {
			n.pods[at], n.taken[address] = address, true
		}
		_ = listener.Close()
	}
	return n.pods[at]
}

// service gives a port of a Service one of this machine, and listens there.
func (n *names) service(namespace, name string, port int) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := place{namespace, name, port}
	if known := n.services[at]; known != "" {
		return known
	}
	listener, err := n.listen()
	if err != nil {
		n.node.log("podrun: no port for %v: %v", at, err)
		return ""
	}
	n.services[at] = listener.Addr().String()
	n.taken[n.services[at]] = true
	n.closers = append(n.closers, listener)
	n.carrying.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			n.carrying.Go(func() { n.relay(at, near) })
		}
	})
	return n.services[at]
}

func (n *names) relay(at place, near net.Conn) {
	address, err := n.endpoint(n.ctx, at)
	if err == nil {
		var far net.Conn
		if far, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(n.ctx, "tcp", address); err == nil {
			n.carry(near, far, near)
			return
		}
	}
	_ = near.Close()
}

// endpoint is where a Service's port is: a pod that is ready, another one in turn.
func (n *names) endpoint(ctx context.Context, at place) (string, error) {
	raw, err := n.node.kube.Resource(resourceOf("", "services")).Namespace(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var service corev1.Service
	if err := convert(raw, &service); err != nil {
		return "", err
	}
	where := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == at.port })
	if where < 0 || len(service.Spec.Selector) == 0 {
		return "", fmt.Errorf("service %s/%s has no port %d, or no pods", at.namespace, at.name, at.port)
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	n.node.mu.Lock()
	defer n.node.mu.Unlock()
	for _, p := range n.node.pods { // in an order of chance
		serves := p.namespace == at.namespace && selector.Matches(labels.Set(p.object.Labels))
		if !serves || !p.isReady() && !service.Spec.PublishNotReadyAddresses {
			continue
		}
		if port := p.port(service.Spec.Ports[where].TargetPort.String()); port > 0 {
			return n.pod(p.namespace, p.name, port), nil
		}
	}
	return "", fmt.Errorf("service %s/%s has no pod that is ready", at.namespace, at.name)
}

// dial reaches an address as the cluster's pods do.
func (n *names) dial(ctx context.Context, address string) (net.Conn, error) {
	if here, ok := n.here(address); ok {
		address = here
	}
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
}

// inCluster matches NAME.NAMESPACE.svc and POD.NAME.NAMESPACE.svc.
var inCluster = regexp.MustCompile(`^(?:([a-z0-9-]+)\.)?([a-z0-9-]+)\.([a-z0-9-]+)\.svc(?:\.cluster\.local)?$`)

// here is where HOST:PORT is on this machine, when it is one of the cluster's.
func (n *names) here(address string) (string, bool) {
	host, text, err := net.SplitHostPort(address)
	port, bad := strconv.Atoi(text)
	match := inCluster.FindStringSubmatch(strings.ToLower(host))
	switch {
	case err != nil || bad != nil || match == nil:
		return "", false
	case match[1] != "":
		return n.pod(match[3], match[1], port), true
	}
	return n.service(match[3], match[2], port), true
}
