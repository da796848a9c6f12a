package hubsvc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/hooks"
	"github.com/pluralsh/plural/internal/person"
)

// toolRoutes add what load balancers, Prometheus and git hosts ask for.
func (h *hub) toolRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", h.ready)
	metrics := promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if refused := h.refused(r, access.Metrics); refused != nil {
			http.Error(w, refused.Text, refused.Status)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	hooks.New(hooks.Options{
		Secret: func() []byte { return h.HookSecret }, Hint: h.hint, Log: h.Log, Metrics: h.registry,
		Check: func(r *http.Request) error {
			if refused := h.refused(r, access.Hint); refused != nil {
				return refused
			}
			return nil
		},
	}).Routes(mux)
}

// refused says why whoever sends r may not do verb; nil when they may. From where it comes counts for nothing: the sidecar of a
// mesh, or a proxy, sends everybody's requests from this machine.
func (h *hub) refused(r *http.Request, verb string) *hooks.Refused {
	who, err := h.people.Person(r)
	if err != nil {
		status, message, fix := person.Answer(err)
		if !errors.As(err, new(*person.Rejected)) {
			fix = "send the token of a user who has the verb " + verb + ": plural auth token create USER"
		}
		return &hooks.Refused{Status: status, Text: message + ": " + fix}
	}
	if err := h.planner.access().Fleet(who, verb); err != nil {
		return &hooks.Refused{Status: http.StatusForbidden, Text: err.Error()}
	}
	return nil
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
// planner does is told in words, and to programs by a header.
func (h *hub) ready(w http.ResponseWriter, _ *http.Request) {
	now := time.Now()
	w.Header().Set(v1.PlannerHeader, h.planner.pace.state(now))
	select {
	case <-h.left:
		http.Error(w, "this replica is about to end", http.StatusServiceUnavailable)
		return
	default:
	}
	if h.planner.plan().desired.Served.ID == "" {
		http.Error(w, "no good commit of the installation repo yet: "+h.planner.pace.say(now), http.StatusServiceUnavailable)
		return
	}
	_, _ = fmt.Fprintf(w, "ready: %s\n", h.planner.pace.say(now)) // who does not hear it has gone
}
