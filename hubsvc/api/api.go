// Package api owns the HTTP interface for people's tools, /v1.
//
// It computes nothing: answers come ready from the view, and this package turns them into JSON lists that are filtered
// by name, paged, bounded. Who may ask is decided by the check it is given.
package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/pluralsh/plural/api/v1"
)

// View is what can be read.
type View interface {
	Status() *v1.Status
	Clusters() []v1.Cluster
	Cluster(name string) (v1.ClusterDetail, bool)
	Services() []v1.Service
	Service(name string) (v1.Service, bool)
}

// API serves people's tools.
type API struct {
	View    View
	Sources func() []v1.Source
	// Sync has a source looked at now, and says whether there is such a source.
	Sync func(source string) bool
	Hub  func() *v1.Hub
	// Check returns an error unless the request may read the fleet.
	Check func(*http.Request) error
}

// Routes adds the paths below /v1 to mux.
func (a *API) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/status", a.checked(func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.View.Status()) }))
	mux.HandleFunc("GET /v1/clusters", a.checked(func(w http.ResponseWriter, r *http.Request) {
		list(w, r, a.View.Clusters(), func(c v1.Cluster) string { return c.Name })
	}))
	mux.HandleFunc("GET /v1/clusters/{name}", a.checked(one("cluster", a.View.Cluster)))
	mux.HandleFunc("GET /v1/services", a.checked(func(w http.ResponseWriter, r *http.Request) {
		list(w, r, a.View.Services(), func(s v1.Service) string { return s.Name })
	}))
	mux.HandleFunc("GET /v1/services/{name}", a.checked(one("service", a.View.Service)))
	mux.HandleFunc("GET /v1/sources", a.checked(func(w http.ResponseWriter, r *http.Request) {
		list(w, r, a.Sources(), func(s v1.Source) string { return s.Name })
	}))
	mux.HandleFunc("GET /v1/sources/{name}", a.checked(one("source", a.source)))
	mux.HandleFunc("POST /v1/sources/{name}/sync", a.checked(a.sync))
	mux.HandleFunc("GET /v1/hub", a.checked(func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.Hub()) }))
	mux.HandleFunc("/v1/", a.checked(nothing))
}

// own gives the installation repo the name that it has everywhere but in paths.
func own(name string) string {
	if name == v1.OwnSource {
		return "."
	}
	return name
}

// sync answers at once: what came of it stands in the source's last fetch.
func (a *API) sync(w http.ResponseWriter, r *http.Request) {
	name := own(r.PathValue("name"))
	if !a.Sync(name) {
		refuse(w, http.StatusNotFound, v1.Error{Message: "no source " + strconv.Quote(name), Fix: "plural source list"})
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// nothing answers what no other path does.
func nothing(w http.ResponseWriter, r *http.Request) {
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

func (a *API) checked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.Check(r) != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, v1.Error{Message: "not logged in to this hub", Fix: "set PLURAL_TOKEN to the hub's token"})
			return
		}
		next(w, r)
	}
}

func one[T any](kind string, get func(string) (T, bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		item, ok := get(name)
		if !ok {
			refuse(w, http.StatusNotFound, v1.Error{Message: "no " + kind + " " + strconv.Quote(name), Fix: "plural " + kind + " list"})
			return
		}
		reply(w, http.StatusOK, item)
	}
}

const (
	defaultLimit = 200
	maxLimit     = 500
)

// list answers with a page: ?limit=, ?continue= (the name after which to go on), ?name= (part of a name).
func list[T any](w http.ResponseWriter, r *http.Request, items []T, name func(T) string) {
	query := r.URL.Query()
	limit, err := limitOf(query.Get("limit"))
	if err != nil {
		refuse(w, http.StatusBadRequest, v1.Error{Message: "limit " + strconv.Quote(query.Get("limit")) + " is not a number from 1 to " + strconv.Itoa(maxLimit)})
		return
	}
	page := v1.List[T]{Items: make([]T, 0, min(limit, len(items)))}
	after, part := query.Get("continue"), query.Get("name")
	for _, item := range items {
		if !strings.Contains(name(item), part) {
			continue
		}
		page.Total++
		switch {
		case after != "" && name(item) <= after:
		case len(page.Items) < limit:
			page.Items = append(page.Items, item)
		case page.Next == "":
			page.Next = name(page.Items[limit-1])
		}
	}
	reply(w, http.StatusOK, page)
}

func limitOf(s string) (int, error) {
	if s == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && (n < 1 || n > maxLimit) {
		err = strconv.ErrRange
	}
	return n, err
}

func refuse(w http.ResponseWriter, code int, e v1.Error) { reply(w, code, e) }

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a reader that went away asks again
}
