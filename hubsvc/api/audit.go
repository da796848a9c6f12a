package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/internal/quota"
)

// VerbAudit is what Allow is asked of whoever reads the audit log.
const VerbAudit = "audit"

// Audit shows who did what. It is apart from API: reading the record needs a verb of its own, and is recorded.
type Audit struct {
	// Allow says who asks, as that of Options.
	Allow func(r *http.Request, verb string) (principal.Person, error)
	// List, Chunk and People are those of all replicas. A token that is refused is a *paging.Error.
	List   func(ctx context.Context, q v1.AuditQuery, continued string) (*v1.AuditList, error)
	Chunk  func(ctx context.Context, since time.Time, continued string) (*v1.AuditChunk, error)
	People func(ctx context.Context) (*v1.AuditPeople, error)
	Now    func() time.Time
}

// Routes adds the paths to mux.
func (a *Audit) Routes(mux *http.ServeMux) {
	limit := quota.Scans()
	get := func(path string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			by, err := a.Allow(r, VerbAudit)
			if err != nil {
				refuseError(w, err)
				return
			}
			done, ok := limit.Take(r.Context(), by)
			if !ok {
				tooMany(w, "requests at a time")
				return
			}
			defer done()
			body, err := answer(r)
			var wrongQuery *paging.Error
			switch {
			case errors.As(err, &wrongQuery):
				refuse(w, http.StatusBadRequest, wrong(err))
			case err != nil:
				refuse(w, http.StatusServiceUnavailable, v1.Error{Message: "the audit log cannot be read now", Fix: "see the hub's log"})
			default:
				reply(w, http.StatusOK, body)
			}
		})
	}
	get("/v1/audit", a.list)
	get("/v1/audit/chain", a.chain)
	get("/v1/audit/people", func(r *http.Request) (any, error) { return a.People(r.Context()) })
}

// AuditRoutes describe the paths of Audit.
func AuditRoutes() []openapi.Route {
	get := func(path, summary string, response any, query ...openapi.Param) openapi.Route {
		return openapi.Route{Method: http.MethodGet, Path: path, Summary: summary, Response: response, Query: query}
	}
	since := openapi.Param{
		Name: "since", Description: "What was written from this time on: RFC 3339, or a duration back from now, such as 24h.",
	}
	return []openapi.Route{
		get("/v1/audit", "Who did what where, on all replicas, the newest first", v1.AuditList{},
			openapi.Param{Name: "person", Description: "Whose records, by the exact name."},
			openapi.Param{Name: "cluster", Description: "Of which cluster."},
			openapi.Param{Name: "verb", Description: "Of which verb, such as get, create, post or login."},
			openapi.Param{Name: "decision", Description: "allowed, denied or limited."},
			since,
			openapi.Param{Name: "until", Description: "What was written before this time, as since."},
			openapi.Param{Name: "limit", Description: "From 1 to 500; 200 when left out. A page may have fewer, or none, and go on.", Example: 0},
			openapi.Param{Name: "continue", Description: "Next of the page before, with the same conditions."}),
		get("/v1/audit/chain", "The audit log of all replicas byte by byte, the oldest lines of each first", v1.AuditChunk{},
			since, openapi.Param{Name: "continue", Description: "Next of the piece before."}),
		get("/v1/audit/people", "When everybody did something last, as far back as is looked", v1.AuditPeople{}),
	}
}

func (a *Audit) list(r *http.Request) (any, error) {
	values := r.URL.Query()
	page, err := paging.FromURL(values)
	if err != nil {
		return nil, err
	}
	q := v1.AuditQuery{
		Person: values.Get("person"), Cluster: values.Get("cluster"), Verb: values.Get("verb"), Decision: values.Get("decision"),
		Limit: page.Limit,
	}
	if q.Since, err = a.moment(r, "since"); err != nil {
		return nil, err
	}
	if q.Until, err = a.moment(r, "until"); err != nil {
		return nil, err
	}
	return a.List(r.Context(), q, page.Continue)
}

func (a *Audit) chain(r *http.Request) (any, error) {
	since, err := a.moment(r, "since")
	if err != nil {
		return nil, err
	}
	return a.Chunk(r.Context(), since, r.URL.Query().Get("continue"))
}

// moment is a time of the query, or so long ago; zero where none is given.
func (a *Audit) moment(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return a.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, &paging.Error{Message: name + " " + strconv.Quote(text) + " is no time", Fix: "write 2026-11-22T10:00:00Z, or 24h"}
	}
	return at, nil
}
