package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/internal/principal"
)

// me answers about ada, who may view the fleet and sees edge-1, and knows nobody without a token.
func me(t *testing.T, expires time.Time) func(method, path, token, body string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	(&api.Me{
		Person: func(r *http.Request) (principal.Person, error) {
			if r.Header.Get("Authorization") != "Bearer good" {
				return principal.Person{}, errors.New("nobody")
			}
			return principal.Person{Name: "ada", Groups: []string{"staff"}, Expires: expires}, nil
		},
		Ticket: func(_ context.Context, p *principal.Person) (string, time.Time, error) {
			return "ticket of " + p.Name, time.Unix(60, 0), nil
		},
		May: func(_ principal.Person, verb string) error {
			if verb == "view" {
				return nil
			}
			return errors.New("denied")
		},
		Verbs: []string{"view", "sync"},
		Sees:  func(_ principal.Person, cluster string) bool { return cluster == "edge-1" },
		Issue: func(_ context.Context, p principal.Person, cluster string, ttl time.Duration) (string, time.Time, error) {
			return p.Name + " at " + cluster, time.Unix(0, 0).Add(ttl), nil
		},
	}).Routes(mux)
	return func(method, path, token, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
}

func TestPeopleAreToldWhoTheyAre(t *testing.T) {
	expires := time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC)
	for _, end := range []time.Time{{}, expires} {
		w := me(t, end)(http.MethodGet, "/v1/me", "good", "")
		want := v1.Me{Name: "ada", Groups: []string{"staff"}, Verbs: []string{"view"}}
		if !end.IsZero() {
			want.Expires = &end
		}
		var got v1.Me
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%d, %v", w.Code, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhoIsNobodyGetsNoAnswer(t *testing.T) {
	ask := me(t, time.Time{})
	for _, w := range []*httptest.ResponseRecorder{
		ask(http.MethodGet, "/v1/me", "", ""), ask(http.MethodPost, "/v1/kube/token", "bad", `{"cluster": "edge-1"}`),
	} {
		if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "edge") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}

func TestATokenForAClusterIsGivenToWhoSeesIt(t *testing.T) {
	w := me(t, time.Time{})(http.MethodPost, "/v1/kube/token", "good", `{"cluster": "edge-1"}`)
	var got v1.KubeToken
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d, %v", w.Code, err)
	}
	if want := (v1.KubeToken{Token: "ada at edge-1", Expires: time.Unix(600, 0).UTC()}); got != want {
		t.Errorf("got %+v", got)
	}
}

// U10: a cluster that is not there and one that may not be seen are answered for alike.
func TestAClusterThatMayNotBeSeenIsNotThere(t *testing.T) {
	ask := me(t, time.Time{})
	hidden := ask(http.MethodPost, "/v1/kube/token", "good", `{"cluster": "edge-2"}`)
	none := ask(http.MethodPost, "/v1/kube/token", "good", `{"cluster": "edge-3"}`)
	if hidden.Code != http.StatusNotFound || none.Code != hidden.Code || strings.ReplaceAll(none.Body.String(), "edge-3", "edge-2") != hidden.Body.String() {
		t.Errorf("%d %s; %d %s", hidden.Code, hidden.Body, none.Code, none.Body)
	}
}

func TestAQuestionThatIsNoneIsRefused(t *testing.T) {
	ask := me(t, time.Time{})
	for _, body := range []string{
		"", "{", "[]", "null", "{}", `{"cluster": 1}`, `{"cluster": "edge-1", "ttl": "1y"}`, `{"cluster": "edge-1"}{"cluster": "edge-1"}`,
		`{"cluster": "` + strings.Repeat("x", 100) + `"}`, `{"cluster": "` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		if w := ask(http.MethodPost, "/v1/kube/token", "good", body); w.Code != http.StatusBadRequest || w.Body.Len() > 1000 {
			t.Errorf("%.40s: %d: %.200s", body, w.Code, w.Body)
		}
	}
}

func TestATicketForThePageIsGivenForATokenAlone(t *testing.T) {
	ask := me(t, time.Time{})
	w := ask(http.MethodPost, v1.TicketPath, "good", "")
	var got v1.PageTicket
	want := v1.PageTicket{Ticket: "ticket of ada", Path: "/auth/open", Expires: time.Unix(60, 0).UTC()}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !cmp.Equal(got, want) ||
		w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := ask(http.MethodPost, v1.TicketPath, "bad", ""); w.Code != http.StatusUnauthorized {
		t.Error(w.Code, w.Body)
	}
	for name, test := range map[string]struct {
		session *principal.Session
		bearer  bool
	}{"a browser that is logged in": {&principal.Session{Provider: "corp"}, false}, "a program": {&principal.Session{Federation: "deploy"}, true}} {
		mux, w := http.NewServeMux(), httptest.NewRecorder()
		(&api.Me{Person: func(*http.Request) (principal.Person, error) {
			return principal.Person{Name: "ada", Session: test.session}, nil
		}}).Routes(mux)
		r := httptest.NewRequest(http.MethodPost, v1.TicketPath, http.NoBody)
		if test.bearer {
			r.Header.Set("Authorization", "Bearer good")
		}
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "fix") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
