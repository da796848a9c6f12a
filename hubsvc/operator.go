package hubsvc

import (
	"errors"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/webhook"
	"github.com/pluralsh/plural/internal/principal"
)

// toolRoutes add what load balancers, Prometheus and git hosts ask for.
func (h *hub) toolRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", h.status.Ready)
	metrics := promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if refused := h.refused(r, access.Metrics); refused != nil {
			http.Error(w, refused.Text, refused.Status)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	webhook.New(webhook.Options{
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
func (h *hub) refused(r *http.Request, verb string) *webhook.Refused {
	who, err := h.people.Person(r)
	if err != nil {
		status, message, fix := principal.Answer(err)
		if !errors.As(err, new(*principal.Rejected)) {
			fix = "send the token of a user who has the verb " + verb + ": plural auth token create USER"
		}
		return &webhook.Refused{Status: status, Text: message + ": " + fix}
	}
	if err := h.planner.Access().Fleet(who, verb); err != nil {
		return &webhook.Refused{Status: http.StatusForbidden, Text: err.Error()}
	}
	return nil
}

// hint has upstreams looked at that somebody says have changed: those of the given URLs, or all. It says whether there
// are any.
func (h *hub) hint(urls []string) (known bool) {
	plan := h.planner.Plan()
	named := map[string]string{h.sources.Own().ID: h.sources.Own().Name}
	for i := range plan.Desired.Fleet.Sources {
		s := &plan.Desired.Fleet.Sources[i]
		named[plan.IDs[s.Metadata.Name]] = s.URL()
	}
	for id, name := range named {
		same := func(url string) bool { return webhook.SameRepository(url, name) }
		if len(urls) == 0 || slices.ContainsFunc(urls, same) {
			known = true
			h.replica.Hint(id)
		}
	}
	return known
}

// sync has one source looked at; "." is the installation repo. It says whether there is such a source.
func (h *hub) sync(source string) bool {
	id, ok := h.planner.Plan().IDs[source]
	if source == "." {
		id, ok = h.sources.Own().ID, true
	}
	if ok {
		h.replica.Hint(id)
	}
	return ok
}
