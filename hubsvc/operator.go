package hubsvc

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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
	mux.HandleFunc("POST /hooks/git", func(w http.ResponseWriter, r *http.Request) {
		if check(r) != nil {
			http.Error(w, "the hook wants the hub's token", http.StatusUnauthorized)
			return
		}
		h.repos.Hint() // what the body says is not believed: every repository is asked itself
		w.WriteHeader(http.StatusAccepted)
	})
}

// ready is yes once there is a fleet to serve: from then on nothing upstream can take it away.
func (h *hub) ready(w http.ResponseWriter, _ *http.Request) {
	if h.planner.plan().desired.Served.ID == "" {
		http.Error(w, "no good commit of the installation repo yet", http.StatusServiceUnavailable)
	}
}

// fromThisMachine says whether a request comes straight from the loopback interface, through no proxy.
func fromThisMachine(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("Forwarded") == ""
}

// registerMetrics adds the figures that are read where they are kept.
func registerMetrics(registry prometheus.Registerer, h *hub) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("plural_hub_clusters", "Clusters in the commit being served.", func() float64 {
		return float64(len(h.planner.plan().desired.Fleet.Clusters))
	})
	gauge("plural_hub_services", "Services in the commit being served.", func() float64 {
		return float64(len(h.planner.plan().desired.Fleet.Services))
	})
	gauge("plural_hub_refused_errors", "Errors for which the newest commit is refused.", func() float64 {
		return float64(len(h.planner.plan().desired.Refused))
	})
}
