// Package gateway owns the hub's API for agents.
//
// It knows neither git nor people. A poll is answered from memory, 304 when nothing changed; a bundle is a file that
// is served as it lies on disk, to clusters whose deployments name it and to nobody else; a report is bounded in size
// and pace, stamped with the hub's clock, then handed on.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/token"
)

// Options are the gateway's neighbours, each by what the gateway needs of it.
type Options struct {
	// Cluster tells who sent a request.
	Cluster func(*http.Request) (string, error)
	// Root is what a cluster should run now; nil while that is not known.
	Root func(cluster string) *Root
	// Edition names what the roots were made of, "STREAM-N".
	Edition func() string
	// Open returns a bundle by key, seekable so that ranges and sendfile work; the gateway closes it. The error is
	// fs.ErrNotExist when nobody can say any more what the key stands for.
	Open func(ctx context.Context, key string) (io.ReadSeekCloser, error)
	// Report takes a cluster's report in. It owns the report from then on. The error is ErrLeap when the agent should count anew.
	Report func(ctx context.Context, cluster string, report *api.Report) error
	// Excess is told of a cluster whose agent began to report more often than it may. It must not block. Nil: nobody wants to
	// know.
	Excess  func(cluster string)
	Now     func() time.Time
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// ErrLeap says that a report's number does not follow from the one before: the agent begins another count when it hears so.
var ErrLeap = errors.New("the report's number does not follow from the one before")

// Gateway serves agents.
type Gateway struct {
	Options
	// polls by their answer; each counter is found once, not with every poll
	unchanged, changed, early prometheus.Counter
	bundles, reports, refused prometheus.Counter
	pace                      pace
}

// New returns a gateway.
func New(o Options) *Gateway {
	polls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plural_hub_polls_total", Help: "Agents' polls by answer.",
	}, []string{"code"})
	g := &Gateway{
		Options:   o,
		unchanged: polls.WithLabelValues("304"), changed: polls.WithLabelValues("200"), early: polls.WithLabelValues("503"),
		bundles: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_bundle_requests_total", Help: "Requests for bundles that were served, whole or in part.",
		}),
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_reports_total", Help: "Reports taken in.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plural_hub_reports_refused_total", Help: "Reports refused because their cluster had sent too many.",
		}),
	}
	o.Metrics.MustRegister(polls, g.bundles, g.reports, g.refused)
	return g
}

// Routes adds the gateway's paths to mux.
func (g *Gateway) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET "+api.PollPath, g.authenticated(g.poll))
	mux.HandleFunc("GET "+api.BundlePath+"{key}", g.authenticated(g.bundle))
	mux.HandleFunc("POST "+api.ReportPath, g.authenticated(g.report))
}

func (g *Gateway) authenticated(next func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cluster, err := g.Cluster(r)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			if errors.Is(err, token.ErrElsewhere) {
				w.Header().Set(token.Elsewhere, "true")
			}
			http.Error(w, "unknown agent", http.StatusUnauthorized)
			return
		}
		next(w, r, cluster)
	}
}

func (g *Gateway) poll(w http.ResponseWriter, r *http.Request, cluster string) {
	root := g.Root(cluster)
	if root == nil {
		g.early.Inc()
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the hub does not know what this cluster should run", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("ETag", root.etag)
	w.Header().Set(api.EditionHeader, g.Edition())
	if strings.TrimPrefix(r.Header.Get("If-None-Match"), "W/") == root.etag { // proxies that compress weaken tags
		g.unchanged.Inc()
		w.WriteHeader(http.StatusNotModified)
		return
	}
	g.changed.Inc()
	w.Header().Set("Content-Type", api.ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(root.size))
	for piece := range root.body() {
		if _, err := w.Write(piece); err != nil {
			return // a reader that went away polls again
		}
	}
}

func (g *Gateway) bundle(w http.ResponseWriter, r *http.Request, cluster string) {
	key := r.PathValue("key")
	root := g.Root(cluster)
	if root == nil || !root.entitled(key) {
		http.Error(w, "no such bundle", http.StatusNotFound)
		return
	}
	bundle, err := g.Open(r.Context(), key)
	if err != nil {
		g.refuseBundle(w, cluster, key, err)
		return
	}
	defer func() { _ = bundle.Close() }()
	g.bundles.Inc()
	w.Header().Set("ETag", `"`+key+`"`)
	w.Header().Set("Content-Type", "application/zstd")
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bundle)
}

func (g *Gateway) refuseBundle(w http.ResponseWriter, cluster, key string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		http.Error(w, "no such bundle", http.StatusNotFound)
		return
	}
	if !errors.Is(err, context.Canceled) {
		g.Log.Error("bundle cannot be opened", "cluster", cluster, "key", key, "error", err)
	}
	http.Error(w, "the bundle cannot be opened now", http.StatusServiceUnavailable)
}

func (g *Gateway) report(w http.ResponseWriter, r *http.Request, cluster string) {
	if !g.paced(w, cluster) {
		return
	}
	report, fault := g.readReport(w, r, cluster)
	if fault != nil {
		http.Error(w, fault.text, fault.code)
		return
	}
	clip(report)
	report.ReceivedUnixMs = g.Now().UnixMilli()
	switch err := g.Report(r.Context(), cluster, report); {
	case errors.Is(err, ErrLeap):
		if g.pace.leap(cluster, g.Now()) {
			g.Log.Warn("report refused; its agent counts anew, or somebody reports with its token", "cluster", cluster, "error", err)
		}
		http.Error(w, "the report's number does not follow from the last one: count anew with another boot", http.StatusConflict)
	case err != nil:
		g.Log.Error("report cannot be stored", "cluster", cluster, "error", err)
		http.Error(w, "the report cannot be stored now", http.StatusServiceUnavailable)
	default:
		g.reports.Inc()
		w.WriteHeader(http.StatusNoContent)
	}
}

// paced refuses a report, unread, of a cluster that sends too many.
func (g *Gateway) paced(w http.ResponseWriter, cluster string) bool {
	wait, news := g.pace.take(cluster, g.Now())
	if wait == 0 {
		return true
	}
	g.refused.Inc()
	if news {
		g.Log.Warn("cluster reports more often than it may; what is more is refused", "cluster", cluster, "a_second", reportRate)
		if g.Excess != nil {
			g.Excess(cluster)
		}
	}
	w.Header().Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	http.Error(w, "this cluster has sent too many reports; the next one will do", http.StatusTooManyRequests)
	return false
}

// reportError is why a report is refused.
type reportError struct {
	code int
	text string
}

func (g *Gateway) readReport(w http.ResponseWriter, r *http.Request, cluster string) (*api.Report, *reportError) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxReportBytes))
	g.pace.charge(cluster, g.Now(), len(body))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, &reportError{http.StatusRequestEntityTooLarge, fmt.Sprintf("report is larger than %d bytes", tooLarge.Limit)}
	}
	if err != nil {
		return nil, &reportError{http.StatusBadRequest, "report was cut off"}
	}
	if err := checkEntries(body); err != nil {
		return nil, &reportError{http.StatusRequestEntityTooLarge, err.Error()}
	}
	report := new(api.Report)
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, report); err != nil {
		return nil, &reportError{http.StatusBadRequest, "report is not a plural.v1.Report"}
	}
	return report, nil
}
