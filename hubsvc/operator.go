package hubsvc

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pluralsh/plural/hubsvc/hooks"
)

// operatorRoutes adds what load balancers, Prometheus and git hosts ask for.
func (h *hub) operatorRoutes(mux *http.ServeMux, check func(*http.Request) error) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", h.ready)
	metrics := promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !fromThisMachine(r) && check(r) != nil {
			http.Error(w, "metrics want the hub's token from other machines", http.StatusUnauthorized)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	hooks.New(hooks.Options{
		Secret: func() []byte { return h.HookSecret }, Check: check, Hint: h.hint, Log: h.Log, Metrics: h.registry,
	}).Routes(mux)
}

// hint has upstreams looked at that somebody says have changed: those of the given URLs, or all. It says whether there
// are any.
func (h *hub) hint(urls []string) (known bool) {
	plan := h.planner.plan()
	named := map[string]string{h.planner.upstreams.own.ID: h.planner.upstreams.own.Name}
	for i := range plan.desired.Fleet.Sources {
		s := &plan.desired.Fleet.Sources[i]
		named[plan.ids[s.Metadata.Name]] = s.URL()
	}
	for id, name := range named {
		same := func(url string) bool { return hooks.SameRepository(url, name) }
		if len(urls) == 0 || slices.ContainsFunc(urls, same) {
			known = true
			h.replica.hint(id)
		}
	}
	return known
}

// sync has one source looked at; "." is the installation repo. It says whether there is such a source.
func (h *hub) sync(source string) bool {
	id, ok := h.planner.plan().ids[source]
	if source == "." {
		id, ok = h.planner.upstreams.own.ID, true
	}
	if ok {
		h.replica.hint(id)
	}
	return ok
}

// ready is yes once there is a fleet to serve: from then on nothing upstream can take it away, only the replica's own end. Nor
// can a planner that is stuck: the last good state goes on being served, and no other replica would have a newer one. How the
// planner does is told in words.
func (h *hub) ready(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-h.left:
		http.Error(w, "this replica is about to end", http.StatusServiceUnavailable)
		return
	default:
	}
	if h.planner.plan().desired.Served.ID == "" {
		http.Error(w, "no good commit of the installation repo yet: "+h.planner.pace.say(time.Now()), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintf(w, "ready: %s\n", h.planner.pace.say(time.Now())) // who does not hear it has gone
}

// fromThisMachine says whether a request comes straight from the loopback interface, through no proxy.
func fromThisMachine(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == ""
}
