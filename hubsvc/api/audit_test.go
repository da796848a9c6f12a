package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/paging"
	"github.com/pluralsh/plural/internal/principal"
)

// asked is what an audit log was asked for.
type asked struct {
	Query     v1.AuditQuery
	Since     time.Time
	Continued string
}

// auditLog is open to whoever has the verb and the token good.
func auditLog(t *testing.T, fails error) (get func(path, token string) *httptest.ResponseRecorder, last *asked) {
	t.Helper()
	last = &asked{}
	mux := http.NewServeMux()
	(&api.Audit{
		Allow: func(r *http.Request, verb string) (principal.Person, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer good":
				if verb == "audit" {
					return principal.Person{Name: "ada"}, nil
				}
				fallthrough
			case "Bearer admin":
				return principal.Person{}, &api.Refused{Status: http.StatusForbidden, Message: "no", Fix: "ask"}
			}
			return principal.Person{}, errors.New("nobody")
		},
		List: func(_ context.Context, q v1.AuditQuery, continued string) (*v1.AuditList, error) {
			*last = asked{Query: q, Continued: continued}
			return &v1.AuditList{Items: []v1.AuditEntry{}, Missing: []string{}}, fails
		},
		Chunk: func(_ context.Context, since time.Time, continued string) (*v1.AuditChunk, error) {
			*last = asked{Since: since, Continued: continued}
			return &v1.AuditChunk{Text: []byte("a\n"), Missing: []string{}}, fails
		},
		People: func(context.Context) (*v1.AuditPeople, error) {
			return &v1.AuditPeople{Items: []v1.AuditPerson{}, Missing: []string{}}, fails
		},
		Now: func() time.Time { return time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC) },
	}).Routes(mux)
	return func(path, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}, last
}

func TestOnlyWhoHasTheVerbReadsTheAuditLog(t *testing.T) {
	get, _ := auditLog(t, nil)
	for _, route := range api.AuditRoutes() {
		for token, want := range map[string]int{"good": http.StatusOK, "admin": http.StatusForbidden, "": http.StatusUnauthorized} {
			if w := get(route.Path, token); w.Code != want {
				t.Errorf("%s with %q: %d %s", route.Path, token, w.Code, w.Body)
			}
		}
	}
}

func TestTheAuditLogIsAskedForWhatTheQuerySays(t *testing.T) {
	get, last := auditLog(t, nil)
	at := func(hour int) time.Time { return time.Date(2026, 11, 22, hour, 0, 0, 0, time.UTC) }
	for path, want := range map[string]asked{
		"/v1/audit": {},
		"/v1/audit?person=bob&cluster=edge&verb=get&decision=denied&since=2h&until=2026-11-22T09:00:00Z&limit=7&continue=x": {
			Query:     v1.AuditQuery{Person: "bob", Cluster: "edge", Verb: "get", Decision: "denied", Since: at(8), Until: at(9), Limit: 7},
			Continued: "x",
		},
		"/v1/audit/chain?since=2026-11-22T09:00:00Z&continue=y": {Since: at(9), Continued: "y"},
	} {
		if w := get(path, "good"); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if diff := cmp.Diff(want, *last); diff != "" {
			t.Error(path, diff)
		}
	}
	for _, path := range []string{"/v1/audit?since=yesterday", "/v1/audit?until=-2h", "/v1/audit?limit=0", "/v1/audit/chain?since=1"} {
		if w := get(path, "good"); w.Code != http.StatusBadRequest || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestWhatIsWrongWithTheAuditLogIsNotToldToPeople(t *testing.T) {
	for fails, want := range map[error]int{
		errors.New("open /data/audit: no such file"):   http.StatusServiceUnavailable,
		&paging.Error{Message: "no token", Fix: "fix"}: http.StatusBadRequest,
	} {
		get, _ := auditLog(t, fails)
		for _, path := range []string{"/v1/audit", "/v1/audit/chain"} {
			if w := get(path, "good"); w.Code != want || want == http.StatusServiceUnavailable && !cmp.Equal(w.Body.String(),
				`{"message":"the audit log cannot be read now","fix":"see the hub's log"}`+"\n") {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

func TestAnswersOfTheAuditLogAreAsTheDescriptionSays(t *testing.T) {
	document, err := openapi.Document("v1", api.AuditRoutes())
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Components struct {
			Schemas map[string]struct{ Required []string }
		}
	}
	if err := json.Unmarshal(document, &d); err != nil {
		t.Fatal(err)
	}
	for name, required := range map[string][]string{
		"AuditList": {"items", "missing"}, "AuditEntry": {"replica", "hash", "record"}, "AuditChunk": {"replica", "line", "text", "missing"},
	} {
		if diff := cmp.Diff(required, d.Components.Schemas[name].Required); diff != "" {
			t.Error(name, diff)
		}
	}
}
