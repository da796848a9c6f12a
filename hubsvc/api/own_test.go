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
	"github.com/pluralsh/plural/workspace/fleet"
)

// own answers a person about themselves. Ada is a user, whose tokens are laptop and one that has expired.
func own(t *testing.T, who principal.Person, end func(principal.Person) (string, error)) func(method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	(&api.Me{
		Person: func(*http.Request) (principal.Person, error) { return who, nil },
		Tokens: func(user string) ([]fleet.UserToken, bool) {
			return []fleet.UserToken{
				{Name: "laptop", Hash: fleet.HashToken("laptop")}, {Name: "old", Hash: fleet.HashToken("old"), Expires: "2026-01-01T00:00:00Z"},
			}, user == "ada"
		},
		EndLogins: func(_ context.Context, by principal.Person) (*v1.Edited, error) {
			commit, err := end(by)
			return &v1.Edited{Commit: commit}, err
		},
		Now: func() time.Time { return time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC) },
	}).Routes(mux)
	return func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
		return w
	}
}

func TestPeopleSeeTheirTokensWithoutWhatLogsIn(t *testing.T) {
	laptop, expired := fleet.HashToken("laptop"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := v1.UserTokenList{Items: []v1.UserToken{
		{Name: "laptop", ID: laptop[len(laptop)-8:], Current: true}, {Name: "old", ID: fleet.HashToken("old")[len(laptop)-8:], Expires: &expired, Expired: true},
	}}
	for name, who := range map[string]principal.Person{
		"by the token":                  {Name: "ada", Credential: laptop},
		"by a login that the token had": {Name: "ada", Credential: "session:x", Session: &principal.Session{Token: laptop}},
	} {
		w := own(t, who, nil)(http.MethodGet, "/v1/me/tokens", "")
		var got v1.UserTokenList
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" || strings.Contains(w.Body.String(), laptop) {
			t.Errorf("%s: %s\n%s", name, diff, w.Body)
		}
	}
	for name, who := range map[string]principal.Person{"no user": {Name: "corp:eve"}, "the operator": {Name: "ada", Operator: true}} {
		if w := own(t, who, nil)(http.MethodGet, "/v1/me/tokens", ""); w.Body.String() != `{"items":[]}`+"\n" && name == "the operator" {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

func TestPeopleEndTheirOwnLogins(t *testing.T) {
	const path = "/v1/me/logout-everywhere"
	ended := 0
	ask := own(t, principal.Person{Name: "ada"}, func(by principal.Person) (string, error) { ended++; return "c0ffee of " + by.Name, nil })
	for _, body := range []string{"", "{}", "{}"} {
		if w := ask(http.MethodPost, path, body); w.Code != http.StatusOK || w.Body.String() != `{"commit":"c0ffee of ada"}`+"\n" {
			t.Error(w.Code, w.Body)
		}
	}
	if w := ask(http.MethodPost, path, ""); w.Code != http.StatusTooManyRequests || ended != 3 {
		t.Errorf("commits without end: %d after %d", w.Code, ended)
	}
	for name, test := range map[string]struct {
		who  principal.Person
		body string
		err  error
		want int
	}{
		"the operator":          {who: principal.Person{Name: "operator", Operator: true}, want: http.StatusConflict},
		"nobody of the fleet":   {who: principal.Person{Name: "corp:eve"}, want: http.StatusConflict},
		"a program":             {who: principal.Person{Name: "ada", Session: &principal.Session{Federation: "deploy"}}, want: http.StatusForbidden},
		"somebody else":         {who: principal.Person{Name: "ada"}, body: `{"user": "eve"}`, want: http.StatusBadRequest},
		"a hub that only reads": {who: principal.Person{Name: "ada"}, err: &api.Refused{Status: http.StatusForbidden, Message: "only reads", Fix: "plural auth end"}, want: http.StatusForbidden},
		"a repo that is away":   {who: principal.Person{Name: "ada"}, err: errors.New("away"), want: http.StatusBadGateway},
	} {
		w := own(t, test.who, func(principal.Person) (string, error) { return "", test.err })(http.MethodPost, path, test.body)
		var told v1.Error
		if err := json.Unmarshal(w.Body.Bytes(), &told); err != nil || w.Code != test.want || told.Fix == "" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
