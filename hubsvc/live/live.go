// Package live owns the API for live objects of clusters: watches, logs, shells, actions.
//
// It refuses to know what a fleet should be, who somebody is, and how a cluster is reached: it asks. What is seen comes from
// the agents' views (feed.go), one stream for all people who look at the same thing; what is done goes to the cluster's own API
// server as the person who asked for it (act.go, exec.go, logs.go).
//
// Nothing is answered from memory before the person was let through. A service's own objects are what agents report anyway: who
// may view the fleet may see them. Of everything else the cluster decides, by the very request that the person could have made
// (rights.go), so that whatever stands in the way of that one, at the hub, in the agent or in the cluster, stands in the way of
// this one.
package live

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pluralsh/plural/api/tunnelapi"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/logring"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/internal/quota"
)

const (
	// patience is how long a cluster may take to show what is looked at.
	patience = 15 * time.Second
	// stalled is how long a client may take to read a part of a stream.
	stalled = 30 * time.Second
	// recheck lies between two looks at whether somebody may still see what is streamed.
	recheck = 2 * time.Second
	// heartbeat lies between two signs of life of a stream.
	heartbeat = 15 * time.Second
	// maxBody bounds what is sent here, in bytes.
	maxBody = 64 << 10
)

// Agent is the way to one cluster's agent.
type Agent interface {
	tunnelapi.ClusterClient
	// Release lets go of it.
	Release()
}

// Options are the neighbours, each by what is needed of it. All must be set but Log, Idle and Now.
type Options struct {
	// Person says who asks.
	Person func(*http.Request) (principal.Person, error)
	// Allow returns an error, fit to be shown, for what somebody may not do to the fleet: "view" it, or "admin" it.
	Allow func(p principal.Person, verb string) error
	// Sees says whether somebody may know that there is such a cluster.
	Sees func(p principal.Person, cluster string) bool
	// Runs says whether a service is meant for a cluster, or is still there.
	Runs func(cluster, service string) bool
	// Reach finds a cluster's agent; an error, fit to be shown, means that there is no way to it now.
	Reach func(ctx context.Context, cluster string) (Agent, error)
	// Do sends a request to a cluster's API server as a person, by all that stands in a person's way. Errors that the hub itself
	// answers are *StatusError of k8s.io/apimachinery. The answer to a switch of protocols has a Body that is an
	// io.ReadWriteCloser with CloseWrite.
	Do func(ctx context.Context, p principal.Person, cluster string, r *http.Request) (*http.Response, error)
	// Own is this hub's own log.
	HubLog *logring.Ring
	Log    *slog.Logger
	// Idle is how long what nobody looks at is kept up; a minute when zero.
	Idle time.Duration
	Now  func() time.Time
}

// API serves what is live. It is safe for concurrent use.
type API struct {
	o     Options
	feeds *feeds
	asked singleflight.Group

	// streams, and the requests that are none, are bounded: each holds a place on its agent's connection, which all people share.
	streams, requests *quota.Quota

	mu     sync.Mutex // guards what follows
	rights map[right]verdict
}

// New returns an API. Run has to run.
func New(o Options) *API {
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &API{
		o: o, feeds: newFeeds(o.Reach, o.Idle), rights: map[right]verdict{}, streams: quota.Streams(), requests: quota.Requests(),
	}
}

// Run follows what people look at until ctx ends, whose error it returns. It is called once.
func (a *API) Run(ctx context.Context) error { return a.feeds.run(ctx) }

// Routes adds the paths to mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/clusters/{cluster}/services/{service}/objects", a.inService(a.tree))
	mux.HandleFunc("GET /v1/clusters/{cluster}/services/{service}/events", a.inService(a.events))
	mux.HandleFunc("GET /v1/clusters/{cluster}/services/{service}/diff", a.inService(a.diff))
	mux.HandleFunc("POST /v1/clusters/{cluster}/services/{service}/restart", a.inService(a.restartService))
	mux.HandleFunc("GET /v1/clusters/{cluster}/objects", a.inCluster(a.objects))
	mux.HandleFunc("POST /v1/clusters/{cluster}/objects/restart", a.inCluster(a.restart))
	mux.HandleFunc("POST /v1/clusters/{cluster}/objects/scale", a.inCluster(a.scale))
	mux.HandleFunc("GET /v1/clusters/{cluster}/pods/{namespace}/{pod}/logs", a.inCluster(a.podLogs))
	mux.HandleFunc("GET /v1/clusters/{cluster}/agent/logs", a.inCluster(a.agentLogs))
	mux.HandleFunc("GET /v1/clusters/{cluster}/exec", a.exec)
	mux.HandleFunc("GET /v1/hub/logs", a.hubLogs)
}

// asker is who asks for something, of which cluster.
type asker struct {
	principal.Person
	cluster string
	// from is their own request; nil: there is none.
	from *http.Request
	// done gives back the place of the request; nil: it has none.
	done func()
}

// releaseRequest gives the place of the request back: it has become a stream, which is counted elsewhere.
func (w asker) releaseRequest() {
	if w.done != nil {
		w.done()
	}
}

// do has a cluster's API server asked as the person, on record with where their own request came from.
func (a *API) do(ctx context.Context, who asker, r *http.Request) (*http.Response, error) {
	if who.from != nil {
		r.RemoteAddr = who.from.RemoteAddr
		for _, name := range []string{"User-Agent", "X-Forwarded-For", "X-Request-Id"} {
			if values := who.from.Header[name]; len(values) > 0 {
				r.Header[name] = values
			}
		}
	}
	return a.o.Do(ctx, who.Person, who.cluster, r)
}

// inCluster lets those through who may view the fleet and know of the cluster, a bounded number of requests of each at a time.
func (a *API) inCluster(next func(http.ResponseWriter, *http.Request, asker) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := a.admit(r)
		if err == nil {
			who.done, err = a.begin(r.Context(), who.Person)
		}
		if err == nil {
			defer who.done()
			err = next(w, r, who)
		}
		if err != nil {
			answer(w, err)
		}
	}
}

// inService also wants the service to be one of the cluster's.
func (a *API) inService(next func(http.ResponseWriter, *http.Request, asker) error) http.HandlerFunc {
	return a.inCluster(func(w http.ResponseWriter, r *http.Request, who asker) error {
		if service := r.PathValue("service"); !a.o.Runs(who.cluster, service) {
			return notFound("service", service)
		}
		return next(w, r, who)
	})
}

// admit says who asks, if they may view the fleet and know of the cluster that the path names.
func (a *API) admit(r *http.Request) (asker, error) {
	p, err := a.known(r, "view")
	if err != nil {
		return asker{}, err
	}
	cluster := r.PathValue("cluster")
	if !a.o.Sees(p, cluster) {
		return asker{}, notFound("cluster", cluster)
	}
	return asker{Person: p, cluster: cluster, from: r}, nil
}

// known says who asks, if they may do the verb to the fleet.
func (a *API) known(r *http.Request, verb string) (principal.Person, error) {
	p, err := a.o.Person(r)
	if err != nil {
		status, message, fix := principal.Answer(err)
		return p, &Refusal{Status: status, Message: message, Fix: fix}
	}
	if err := a.o.Allow(p, verb); err != nil {
		return p, &Refusal{Status: http.StatusForbidden, Message: err.Error()}
	}
	return p, nil
}

// reply says it as a whole, or that it cannot be said.
func reply(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"message": "the hub cannot write its answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a reader that went away asks again
}

// answer says why there is nothing else to say. An answer that has begun is broken off.
func answer(w http.ResponseWriter, err error) {
	var begun *partialAnswerError
	if errors.As(err, &begun) {
		return
	}
	no := refusalOf(err)
	switch no.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	reply(w, no.Status, v1.Error{Message: no.Message, Fix: no.Fix})
}

// read decodes what was sent.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return &Refusal{Status: http.StatusBadRequest, Message: "the body is not what is wanted here: " + err.Error(), Fix: "see GET /v1/openapi.json"}
	}
	return nil
}
