package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

// adas is the token of user ada, and operators the hub's own.
const (
	adas      = "a token of ada's that is long enough"
	operators = "the hub's own token, long enough"
)

// opening is a hub at whose page people log in with what they have in the terminal.
type opening struct {
	testing.TB
	people *auth.People
	pages  *signin.Pages
	now    time.Time
	f      fleet.Fleet
	file   string
	used   sync.Map
	// unsure has nobody tell whether a ticket was used, unwritten nothing be written down.
	unsure, unwritten bool
	records           []principal.Person
}

func newOpening(t testing.TB) *opening {
	t.Helper()
	o := &opening{TB: t, now: time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC), file: filepath.Join(t.TempDir(), "token")}
	o.f = fleet.Fleet{Users: []fleet.User{
		{Metadata: fleet.Metadata{Name: "ada"}, Spec: fleet.UserSpec{Groups: []string{"staff"}, Tokens: []fleet.UserToken{{Name: "laptop", Hash: fleet.HashToken(adas)}}}},
		{Metadata: fleet.Metadata{Name: "eve"}},
	}}
	o.write(operators)
	people, err := auth.NewPeople(auth.Options{
		File: o.file, Directory: func() *auth.Directory { return auth.NewDirectory(&o.f) }, Keys: key{}, SessionKeys: key{},
		Now: func() time.Time { return o.now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	o.people, o.pages = people, o.replica(people)
	return o
}

func (o *opening) write(token string) {
	o.Helper()
	if err := os.WriteFile(o.file, []byte(token), 0o600); err != nil {
		o.Fatal(err)
	}
}

// replica is one more of the hub's.
func (o *opening) replica(people *auth.People) *signin.Pages {
	return signin.New(signin.Options{
		URL: func() string { return "https://hub.example.com" }, Providers: func() map[string]fleet.ProviderSpec { return nil },
		Person: people.Person, Current: people.Current, Open: people.Open, Keys: key{}, Now: func() time.Time { return o.now },
		Spend: func(_ context.Context, id string) (bool, error) {
			if o.unsure {
				return false, errors.New("no server answers")
			}
			_, used := o.used.LoadOrStore(id, true)
			return !used, nil
		},
		Record: func(_ *http.Request, who *principal.Person) error {
			if o.unwritten {
				return errors.New("the disk is full")
			}
			o.records = append(o.records, *who)
			return nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
}

// ticket is one for whoever has a token.
func (o *opening) ticket(token string) string {
	o.Helper()
	who, err := o.people.Person(o.asks(token))
	if err != nil {
		o.Fatal(err)
	}
	sealed, expires, err := o.pages.Ticket(o.Context(), &who)
	if err != nil || !expires.Equal(o.now.Add(time.Minute)) {
		o.Fatal(err, expires)
	}
	return sealed
}

func (o *opening) asks(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/v1/me", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// shows has the page of a replica send a ticket.
func (o *opening) shows(pages *signin.Pages, ticket, as string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	o.Helper()
	body, err := json.Marshal(map[string]string{"ticket": ticket, "as": as})
	if err != nil {
		o.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "https://hub.example.com/auth/open", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range change {
		c(r)
	}
	mux, w := http.NewServeMux(), httptest.NewRecorder()
	pages.Routes(mux)
	signin.Guard(mux).ServeHTTP(w, r)
	return w
}

// session is the cookie that an answer sets; nil: none.
func session(w *httptest.ResponseRecorder) *http.Cookie {
	for _, c := range w.Result().Cookies() {
		if c.Name == auth.SessionCookie && c.Value != "" {
			return c
		}
	}
	return nil
}

// person is who a browser with this cookie is.
func (o *opening) person(c *http.Cookie) (principal.Person, error) {
	r := httptest.NewRequest(http.MethodGet, "/v1/me", http.NoBody)
	r.AddCookie(c)
	return o.people.Person(r)
}

func (o *opening) login(token, as string) *http.Cookie {
	o.Helper()
	w := o.shows(o.pages, o.ticket(token), as)
	c := session(w)
	if w.Code != http.StatusOK || c == nil {
		o.Fatal(w.Code, w.Body)
	}
	return c
}

func TestATicketLogsABrowserInOnceAndOnAnyReplica(t *testing.T) {
	o := newOpening(t)
	ticket := o.ticket(adas)
	for range 2 { // to ask is not to use
		if w := o.shows(o.pages, ticket, ""); w.Code != http.StatusOK || w.Body.String() != `{"name":"ada"}`+"\n" || session(w) != nil {
			t.Fatal(w.Code, w.Body)
		}
	}
	if w := o.shows(o.pages, ticket, "eve"); w.Code != http.StatusConflict || session(w) != nil {
		t.Error("as somebody else:", w.Code, w.Body)
	}
	other := o.replica(o.people)
	w := o.shows(other, ticket, "ada")
	c := session(w)
	if w.Code != http.StatusOK || c == nil || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
		strings.Contains(w.Body.String(), c.Value) {
		t.Fatal(w.Code, w.Body, c)
	}
	for name, replica := range map[string]*signin.Pages{"the same": other, "another": o.pages} {
		if w := o.shows(replica, ticket, "ada"); w.Code != http.StatusUnauthorized || session(w) != nil || !strings.Contains(w.Body.String(), "used before") {
			t.Errorf("again at %s: %d %s", name, w.Code, w.Body)
		}
	}
	who, err := o.person(c)
	if err != nil || who.Name != "ada" || who.Operator || len(who.Groups) != 1 || who.Session.Through() != "token" ||
		!who.Expires.Equal(o.now.Add(12*time.Hour)) || !c.Expires.Equal(who.Expires) {
		t.Errorf("%+v, %v", who, err)
	}
	if len(o.records) != 1 || o.records[0].Name != "ada" {
		t.Errorf("%+v", o.records)
	}
	if w := o.shows(o.pages, o.ticket(operators), "", func(r *http.Request) { r.AddCookie(c) }); !strings.Contains(w.Body.String(), `"now":"ada"`) ||
		!strings.Contains(w.Body.String(), `"operator":true`) {
		t.Error("a browser in which somebody else is logged in:", w.Body)
	}
}

func TestATicketIsRefusedThatIsNotGoodOrNotShownByTheHubsOwnPage(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *opening)
		sent   func(r *http.Request)
		want   int
	}{
		"a minute later":           {change: func(o *opening) { o.now = o.now.Add(time.Minute) }, want: http.StatusUnauthorized},
		"its token is withdrawn":   {change: func(o *opening) { o.f.Users[0].Spec.Tokens = nil }, want: http.StatusUnauthorized},
		"its token is another's":   {change: func(o *opening) { o.f.Users[0].Metadata.Name, o.f.Users[1].Metadata.Name = "eve", "ada" }, want: http.StatusUnauthorized},
		"nobody knows if used":     {change: func(o *opening) { o.unsure = true }, want: http.StatusServiceUnavailable},
		"it cannot be written":     {change: func(o *opening) { o.unwritten = true }, want: http.StatusServiceUnavailable},
		"another origin":           {sent: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, want: http.StatusForbidden},
		"a sibling":                {sent: func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, want: http.StatusForbidden},
		"no origin":                {sent: func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "null") }, want: http.StatusForbidden},
		"text":                     {sent: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, want: http.StatusUnsupportedMediaType},
		"a form":                   {sent: func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, want: http.StatusUnsupportedMediaType},
		"a form with a token":      {sent: func(r *http.Request) { r.Header.Set("Authorization", "Bearer x"); r.Header.Del("Content-Type") }, want: http.StatusUnsupportedMediaType},
		"what the page never asks": {sent: body(`{"ticket": "x", "as": "ada", "admin": true}`), want: http.StatusBadRequest},
		"two of it":                {sent: body(`{"ticket": "x"} {}`), want: http.StatusBadRequest},
		"too much":                 {sent: body(`{"ticket": "` + strings.Repeat("x", 9<<10) + `"}`), want: http.StatusBadRequest},
		"nobody's":                 {sent: body(`{"ticket": "one.AAAA", "as": "ada"}`), want: http.StatusUnauthorized},
		"none":                     {sent: body(`{"as": "ada"}`), want: http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOpening(t)
			ticket := o.ticket(adas)
			if test.change != nil {
				test.change(o)
			}
			sent := test.sent
			if sent == nil {
				sent = func(*http.Request) {}
			}
			w := o.shows(o.pages, ticket, "ada", sent)
			var told v1.Error
			if w.Code != test.want || session(w) != nil || json.Unmarshal(w.Body.Bytes(), &told) != nil || told.Message == "" || told.Fix == "" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), ticket) {
				t.Error("the answer has the ticket in it")
			}
		})
	}
}

// body has a request say something else.
func body(text string) func(*http.Request) {
	return func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(text)) }
}

// What is sealed for something else is no ticket, and a ticket is no session.
func TestATicketIsNothingElse(t *testing.T) {
	o := newOpening(t)
	login, err := auth.Seal(t.Context(), key{}, "plural login", map[string]any{"id": "x", "who": "ada", "crd": fleet.HashToken(adas), "exp": o.now.Unix() + 60})
	if err != nil {
		t.Fatal(err)
	}
	if w := o.shows(o.pages, login, "ada"); w.Code != http.StatusUnauthorized || session(w) != nil {
		t.Error(w.Code, w.Body)
	}
	ticket := o.ticket(adas)
	if who, err := o.person(&http.Cookie{Name: auth.SessionCookie, Value: ticket}); err == nil {
		t.Error("a cookie:", who)
	}
	if who, err := o.people.Person(o.asks(ticket)); err == nil {
		t.Error("a bearer token:", who)
	}
}

func TestALoginWithATokenEndsWithIt(t *testing.T) {
	until := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	o := newOpening(t)
	o.f.Users[0].Spec.Tokens[0].Expires = until.Format(time.RFC3339)
	c := o.login(adas, "ada")
	if who, err := o.person(c); err != nil || !who.Expires.Equal(until) || !c.Expires.Equal(until) {
		t.Errorf("longer than its token: %+v, %v", who, err)
	}
	for name, change := range map[string]func(o *opening){
		"the token is withdrawn":        func(o *opening) { o.f.Users[0].Spec.Tokens = nil },
		"the user is removed":           func(o *opening) { o.f.Users = o.f.Users[1:] },
		"the token becomes another's":   func(o *opening) { o.f.Users[0].Metadata.Name, o.f.Users[1].Metadata.Name = "eve", "ada" },
		"the user's logins are ended":   func(o *opening) { o.f.Users[0].Spec.SessionsAfter = o.now.Add(time.Second).Format(time.RFC3339) },
		"the token gets an earlier end": func(o *opening) { o.f.Users[0].Spec.Tokens[0].Expires = o.now.Format(time.RFC3339) },
		"twelve hours are over":         func(o *opening) { o.now = o.now.Add(12*time.Hour + time.Minute) },
	} {
		o := newOpening(t)
		c := o.login(adas, "ada")
		before, err := o.person(c)
		if err != nil {
			t.Fatal(err)
		}
		change(o)
		rejected := new(principal.Rejected)
		if who, err := o.person(c); !errors.As(err, &rejected) || rejected.Fix == "" {
			t.Errorf("%s: still %+v, %v", name, who, err)
		}
		if _, err := o.people.Current(before); err == nil {
			t.Errorf("%s: what was opened goes on", name)
		}
	}
}

func TestTheOperatorsLoginEndsWhenTheHubsTokenIsReplaced(t *testing.T) {
	o := newOpening(t)
	c := o.login(operators, "operator")
	if who, err := o.person(c); err != nil || !who.Operator || who.Name != "operator" {
		t.Fatal(who, err)
	}
	if w := o.shows(o.pages, o.ticket(operators), ""); !strings.Contains(w.Body.String(), `"operator":true`) {
		t.Error(w.Body)
	}
	o.write("another token of the hub's own")
	o.now = o.now.Add(2 * time.Second)
	if who, err := o.person(c); err == nil {
		t.Error("still", who)
	}
}

// A session that opens the page again is no longer one: neither a stolen cookie nor a login of the CLI's prolongs itself.
func TestALoginProlongsNone(t *testing.T) {
	o := newOpening(t)
	c := o.login(adas, "ada")
	o.now = o.now.Add(11 * time.Hour)
	again := o.login(c.Value, "ada")
	if who, err := o.person(again); err != nil || who.Expires.After(o.now.Add(time.Hour)) || again.Value == c.Value {
		t.Errorf("%+v, %v", who, err)
	}
}

func TestThePageThatTakesATicketLeadsNowhereElseAndTrustsItsOwnScriptAlone(t *testing.T) {
	h, _, _ := hub(t, principal.Person{}, errors.New("nobody"))
	for written, path := range map[string]string{"/clusters/edge%3Fq=1": "/clusters/edge?q=1", "https://evil.example": "/", "//evil.example": "/", "javascript:alert(1)": "/", "": "/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/open?return="+written, http.NoBody))
		policy := w.Header().Get("Content-Security-Policy")
		_, nonce, _ := strings.Cut(policy, "script-src 'nonce-")
		nonce, _, _ = strings.Cut(nonce, "'")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `id="on" href="`+path+`"`) || nonce == "" ||
			strings.Count(w.Body.String(), `<script nonce="`+nonce+`">`) != 1 || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") ||
			w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Cross-Origin-Opener-Policy") != "same-origin" {
			t.Errorf("%q: %d %v\n%s", written, w.Code, w.Header(), w.Body)
		}
	}
}
