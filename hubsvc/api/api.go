// Package api owns the HTTP interface for people's tools, /v1.
//
// It computes nothing: answers come ready from the view, and this package turns them into bounded JSON and streams of changes.
// It refuses to know who people are and what they may do: that is decided by the function that it is given.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/filter"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/internal/quota"
)

// What a person may do to a fleet, as Allow is asked.
const (
	VerbView = "view"
	VerbSync = "sync"
	VerbEdit = "edit"
)

// View is what can be read. Errors of lists are those of packages filter and paging. It is large because it has a method for each list
// of the API.
type View interface {
	Status() *v1.Status
	Summary() *v1.Summary
	Cluster(name string) (v1.ClusterDetail, bool)
	Service(name string) (v1.Service, bool)
	Deployment(cluster, service string) (v1.Deployment, bool)
	// Targets are the clusters that a service is meant for.
	Targets(service string) ([]string, bool)
	Clusters(paging.Query) (*v1.List[v1.Cluster], error)
	Services(paging.Query) (*v1.List[v1.Service], error)
	Deployments(paging.Query) (*v1.List[v1.Deployment], error)
	ListSources(paging.Query) (*v1.List[v1.Source], error)
	ListUpgrades(paging.Query) (*v1.List[v1.Upgrade], error)
	Upgrade(name string) (v1.Upgrade, bool)
	Events(paging.Query) (*v1.List[v1.Event], error)
}

// Follower reads changes, step by step.
type Follower interface {
	// Wait is closed when there is more than the last step looked at.
	Wait() <-chan struct{}
	// Next is the next step, with the token after it.
	Next() (parts []v1.StreamEvent, token string)
}

// Options of the interface. Those that say so may be nil; then what they are for is refused, with what to do instead.
type Options struct {
	View    View
	Sources func() []v1.Source
	// Follow begins to follow changes after a token, or from now: of the rows that items name, or of all. The error is that of a filter.
	Follow func(since string, kinds []v1.ChangeKind, items []string, filters func(v1.ChangeKind) string) (Follower, error)
	Hub    func() *v1.Hub
	// Allow says who asks, unless they may not do the verb: the error is a *Refused, or any other for somebody unknown. It is
	// asked again and again while a stream lasts.
	Allow func(r *http.Request, verb string) (principal.Person, error)
	// Look has a source looked at now, and says whether there is such a source.
	Look func(source string) bool
	// Sync asks a cluster's agent for a pass over services, or all; an error says that it is not connected. May be nil.
	Sync func(ctx context.Context, cluster string, services []string) error
	// Edit commits a change, and says what it is. A *Refused is answered as such. May be nil.
	Edit func(ctx context.Context, by principal.Person, e Edit) (*v1.Edited, error)
	// Connections are those that a cluster's agents keep open, wherever. May be nil.
	Connections func(ctx context.Context, cluster string) ([]v1.Connection, error)
	// History are the commits that made one service what it is or, where none is named, the fleet. Revision is one of them. A *Refused
	// is answered as such; other errors are those of packages filter and paging. May be nil.
	History  func(ctx context.Context, service string, q paging.Query) (*v1.List[v1.Revision], error)
	Revision func(ctx context.Context, commit string) (*v1.Revision, error)
	// Views are those that the people of the fleet share.
	Views func() v1.ViewList
	// Document is the interface's own description, as JSON.
	Document []byte
	// Leaving is closed when streams have to end. May be nil.
	Leaving <-chan struct{}
	Now     func() time.Time
}

// API serves people's tools.
type API struct {
	Options
	requests, streams *quota.Quota
}

// Refused is an error that is answered with its own status.
type Refused struct {
	Status       int
	Message, Fix string
	// Problems are what is wrong, each at its place, where there are such.
	Problems []v1.Problem
}

// Error is the message.
func (e *Refused) Error() string { return e.Message }

// New is an interface over what its options give.
func New(o Options) *API {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &API{Options: o, requests: quota.Requests(), streams: quota.Streams()}
}

// Routes adds the paths below /v1 to mux.
func (a *API) Routes(mux *http.ServeMux) {
	get := func(path string, h handler) { mux.HandleFunc("GET "+path, a.allowed(VerbView, h)) }
	get("/v1/status", read(func() any { return a.View.Status() }))
	get("/v1/summary", read(func() any { return a.View.Summary() }))
	get("/v1/hub", read(func() any { return a.Hub() }))
	get("/v1/clusters", list(a.View.Clusters))
	get("/v1/clusters/{name}", one("cluster", a.View.Cluster))
	get("/v1/clusters/{name}/connections", a.connections)
	get("/v1/services", list(a.View.Services))
	get("/v1/services/{name}", one("service", a.View.Service))
	get("/v1/deployments", list(a.View.Deployments))
	get("/v1/deployments/{cluster}/{service}", a.deployment)
	get("/v1/sources", list(a.View.ListSources))
	get("/v1/sources/{name}", one("source", a.source))
	get("/v1/upgrades", list(a.View.ListUpgrades))
	get("/v1/upgrades/{name}", one("package", a.View.Upgrade))
	get("/v1/events", list(a.View.Events))
	get("/v1/views", read(func() any { return a.Views() }))
	get("/v1/history", a.history)
	get("/v1/history/{name}", a.revision)
	get("/v1/services/{name}/history", a.history)
	mux.HandleFunc("GET /v1/stream", a.stream)
	mux.HandleFunc("GET /v1/openapi.json", a.document)
	mux.HandleFunc("POST /v1/sources/{name}/sync", a.allowed(VerbSync, a.look))
	mux.HandleFunc("POST /v1/clusters/{name}/sync", a.allowed(VerbSync, a.syncCluster))
	mux.HandleFunc("POST /v1/services/{name}/sync", a.allowed(VerbSync, a.syncService))
	a.editRoutes(mux)
	mux.HandleFunc("/v1/", a.allowed(VerbView, nothing))
}

// handler answers somebody who may ask.
type handler func(w http.ResponseWriter, r *http.Request, by principal.Person)

// allowed lets through who may do the verb, a bounded number of requests of each person at a time.
func (a *API) allowed(verb string, next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		by, err := a.Allow(r, verb)
		if err != nil {
			refuseError(w, err)
			return
		}
		done, ok := a.requests.Take(r.Context(), by)
		if !ok {
			tooMany(w, "requests at a time")
			return
		}
		defer done()
		next(w, r, by)
	}
}

func tooMany(w http.ResponseWriter, what string) {
	w.Header().Set("Retry-After", "1")
	refuse(w, http.StatusTooManyRequests, v1.Error{Message: "too many " + what, Fix: "wait for some to end"})
}

// refuseError answers with what an error says of itself.
func refuseError(w http.ResponseWriter, err error) {
	var refused *Refused
	if errors.As(err, &refused) {
		refuse(w, refused.Status, v1.Error{Message: refused.Message, Fix: refused.Fix, Problems: refused.Problems})
		return
	}
	refuseNobody(w, err)
}

// refuseNobody answers a request of nobody that is known.
func refuseNobody(w http.ResponseWriter, err error) {
	status, message, fix := principal.Answer(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	refuse(w, status, v1.Error{Message: message, Fix: fix})
}

// own gives the installation repo the name that it has everywhere but in paths.
func own(name string) string {
	if name == v1.OwnSource {
		return "."
	}
	return name
}

// nothing answers what no other path does.
func nothing(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, v1.Error{Message: r.Method + " does nothing here", Fix: "change the installation repo, and push"})
		return
	}
	refuse(w, http.StatusNotFound, v1.Error{Message: "no such path: " + strconv.Quote(r.URL.Path)})
}

func (a *API) source(name string) (v1.Source, bool) {
	name = own(name)
	for _, s := range a.Sources() {
		if s.Name == name {
			return s, true
		}
	}
	return v1.Source{}, false
}

func (a *API) deployment(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	cluster, service := r.PathValue("cluster"), r.PathValue("service")
	found, ok := a.View.Deployment(cluster, service)
	if !ok {
		refuse(w, http.StatusNotFound, v1.Error{
			Message: "no service " + strconv.Quote(service) + " on cluster " + strconv.Quote(cluster), Fix: "plural service list",
		})
		return
	}
	reply(w, http.StatusOK, found)
}

func (a *API) connections(w http.ResponseWriter, r *http.Request, _ principal.Person) {
	name := r.PathValue("name")
	if _, ok := a.View.Cluster(name); !ok {
		missing(w, "cluster", name)
		return
	}
	out := v1.List[v1.Connection]{Items: []v1.Connection{}}
	if a.Connections != nil {
		found, err := a.Connections(r.Context(), name)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, v1.Error{Message: "the other replicas could not be asked: " + err.Error(), Fix: "try again"})
			return
		}
		out.Items = append(out.Items, found...)
	}
	out.Total = len(out.Items)
	reply(w, http.StatusOK, out)
}

// document is open to all: it says nothing of the fleet.
func (a *API) document(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(a.Document)
}

func read(get func() any) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ principal.Person) { reply(w, http.StatusOK, get()) }
}

func one[T any](kind string, get func(string) (T, bool)) handler {
	return func(w http.ResponseWriter, r *http.Request, _ principal.Person) {
		name := r.PathValue("name")
		item, ok := get(name)
		if !ok {
			missing(w, kind, name)
			return
		}
		reply(w, http.StatusOK, item)
	}
}

func missing(w http.ResponseWriter, kind, name string) {
	refuse(w, http.StatusNotFound, notThere(kind, name))
}

func notThere(kind, name string) v1.Error {
	return v1.Error{Message: "no " + kind + " " + strconv.Quote(name), Fix: "plural " + kind + " list"}
}

// list answers with a page: ?filter=, ?sort=, ?limit=, ?continue=, and ?name=, a part of a name.
func list[T any](get func(paging.Query) (*v1.List[T], error)) handler {
	return func(w http.ResponseWriter, r *http.Request, _ principal.Person) {
		values := r.URL.Query()
		q, err := paging.FromURL(values)
		var page *v1.List[T]
		if err == nil {
			if part := values.Get("name"); part != "" {
				q.Filter += " " + strconv.Quote(part)
			}
			page, err = get(q)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, wrong(err))
			return
		}
		replyList(w, r, page)
	}
}

// wrong says what is to be changed about a query.
func wrong(err error) v1.Error {
	out := v1.Error{Message: err.Error()}
	if e := new(filter.Error); errors.As(err, &e) {
		out.Fix = e.Fix
	}
	if e := new(paging.Error); errors.As(err, &e) {
		out.Fix = e.Fix
	}
	return out
}

func refuse(w http.ResponseWriter, code int, e v1.Error) { reply(w, code, e) }

// reply says it as a whole, or that it cannot be said.
func reply(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"message": "the hub cannot write its answer"}`)
	}
	say(w, code, append(text, '\n'))
}

func say(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a reader that went away asks again
}
