package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/workspace/fleet"
)

type key struct{}

func (key) Current(context.Context) (string, []byte, error) { return "one", make([]byte, 32), nil }
func (key) Find(_ context.Context, id string) ([]byte, bool, error) {
	return make([]byte, 32), id == "one", nil
}

// hub is the pages of a hub whose requests come from a person, or from nobody, and how often its provider was asked how to log in and for
// tokens.
func hub(t *testing.T, who principal.Person, person error) (http.Handler, *atomic.Int64, *atomic.Int64) {
	t.Helper()
	asked, tokens := new(atomic.Int64), new(atomic.Int64)
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": server.URL, "jwks_uri": server.URL + "/keys", "authorization_endpoint": server.URL + "/auth", "token_endpoint": server.URL + "/token",
		})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) { tokens.Add(1); w.WriteHeader(http.StatusBadRequest) })
	pages := signin.New(signin.Options{
		URL: func() string { return "https://hub.example.com" },
		Providers: func() map[string]fleet.ProviderSpec {
			return map[string]fleet.ProviderSpec{
				"corp":   {Issuer: server.URL, ClientID: "plural"},
				"sealed": {Issuer: server.URL, ClientID: "plural", Page: fleet.ProviderPage{ClientID: "page", Secret: "secrets/hub/corp.yaml"}},
			}
		},
		Secret: func(string) (oidcflow.Secret, bool) { return "", false },
		Person: func(*http.Request) (principal.Person, error) { return who, person },
		Keys:   key{}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	routes := http.NewServeMux()
	pages.Routes(routes)
	return signin.Guard(routes), asked, tokens
}

func TestCallbacksOfOneAddressAreLimitedAndAWrongStateAsksNobody(t *testing.T) {
	h, asked, tokens := hub(t, principal.Person{}, errors.New("nobody"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/login?provider=corp", nil))
	cookie := w.Result().Cookies()[0]
	at, _ := url.Parse(w.Header().Get("Location"))
	for range 300 {
		r := httptest.NewRequest(http.MethodGet, "/auth/callback?state=wrong&code=x", nil)
		r.AddCookie(cookie)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("300 callbacks with a wrong state ask the provider %d times", n)
	}
	for range 300 {
		r := httptest.NewRequest(http.MethodGet, "/auth/callback?state="+at.Query().Get("state")+"&code=x", nil)
		r.AddCookie(cookie)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := tokens.Load(); n > 110 {
		t.Errorf("300 codes of one login: %d token requests", n)
	}
}

func TestAnotherSiteLogsNobodyOut(t *testing.T) {
	h, _, _ := hub(t, principal.Person{}, nil)
	r := httptest.NewRequest(http.MethodPost, "https://hub.example.com/auth/logout", nil) // a strict cookie does not come along
	r.Header.Set("Origin", "https://evil.example")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code == http.StatusOK && strings.Contains(w.Header().Get("Set-Cookie"), auth.SessionCookie+"=;") {
		t.Error("a form of another site logs out:", w.Header().Get("Set-Cookie"))
	}
}

func TestASessionIsNotForgottenWhileItCannotBeTold(t *testing.T) {
	h, _, _ := hub(t, principal.Person{}, &principal.Rejected{Message: "the hub cannot reach the keys of sessions now", Later: true})
	r := httptest.NewRequest(http.MethodGet, "/auth/", nil)
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: "good"})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if strings.Contains(w.Header().Get("Set-Cookie"), auth.SessionCookie+"=;") {
		t.Error("a session that may be good is forgotten:", w.Code, w.Header().Get("Set-Cookie"))
	}
}

func TestWhatOthersChooseIsEscapedOnPages(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	h, _, _ := hub(t, principal.Person{
		Name: "corp:" + evil, Groups: []string{evil}, Session: &principal.Session{Provider: evil, Subject: evil, Shown: evil},
	}, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/", http.NoBody))
	if text := w.Body.String(); strings.Contains(text, "<script>") || strings.Contains(text, "<img") || !strings.Contains(text, "&lt;script&gt;") {
		t.Error(text)
	}
}

func TestNobodyIsSentToAProviderThatTheHubCannotAskAfterwards(t *testing.T) {
	h, asked, _ := hub(t, principal.Person{}, errors.New("nobody"))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/login?provider=sealed", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "spec.page.secret") || asked.Load() != 0 || len(w.Result().Cookies()) != 0 {
		t.Errorf("%d after %d requests: %s", w.Code, asked.Load(), w.Body)
	}
}

// begun is the answer to somebody whom an application has sent to a hub with these providers.
func begun(t *testing.T, anew bool, providers ...string) *httptest.ResponseRecorder {
	t.Helper()
	known := map[string]fleet.ProviderSpec{}
	for _, name := range providers {
		known[name] = fleet.ProviderSpec{Issuer: "https://login.example.com", ClientID: "plural"}
	}
	pages := signin.New(signin.Options{
		Providers: func() map[string]fleet.ProviderSpec { return known }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	w := httptest.NewRecorder()
	pages.Begin(w, httptest.NewRequest(http.MethodGet, "/oidc/continue", http.NoBody), "/oidc/continue?a=b&c=d", anew)
	return w
}

func TestWhoeverAnApplicationSendsChoosesAmongProvidersWhereThereAreSeveral(t *testing.T) {
	if w := begun(t, false); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "add a Provider to access/") {
		t.Errorf("of none: %d %s", w.Code, w.Body)
	}
	const to = "/auth/login?provider=corp&return=%2Foidc%2Fcontinue%3Fa%3Db%26c%3Dd"
	if w := begun(t, false, "corp"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != to {
		t.Errorf("of one: %d %s", w.Code, w.Header().Get("Location"))
	}
	if w := begun(t, true, "corp"); w.Header().Get("Location") != "/auth/login?prompt=login&provider=corp&return=%2Foidc%2Fcontinue%3Fa%3Db%26c%3Dd" {
		t.Errorf("anew: %s", w.Header().Get("Location"))
	}
	for anew, prompt := range map[bool]string{false: "", true: "&amp;prompt=login"} {
		text := begun(t, anew, "partner", "corp").Body.String()
		for _, provider := range []string{"corp", "partner"} {
			if !strings.Contains(text, `href="/auth/login?provider=`+provider+"&amp;return=%2foidc%2fcontinue%3fa%3db%26c%3dd"+prompt+`"`) {
				t.Errorf("of two: %s", text)
			}
		}
	}
}

// A path that is not taken leads to the page: nobody is sent half of what an application asked.
func TestALoginLeadsToNoPathThatIsTooLong(t *testing.T) {
	h, _, _ := hub(t, principal.Person{}, errors.New("nobody"))
	for length, taken := range map[int]bool{1536: true, 1537: false} {
		w := httptest.NewRecorder()
		path := "/oidc/continue?" + strings.Repeat("a", length-len("/oidc/continue?"))
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/auth/login?provider=corp&return="+url.QueryEscape(path), http.NoBody))
		cookies := w.Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		var login struct{ Return string }
		if err := auth.Unseal(t.Context(), key{}, "plural login", cookies[0].Value, &login); err != nil || (login.Return == path) != taken || !taken && login.Return != "/" {
			t.Errorf("%d bytes lead to %.30q, %v", length, login.Return, err)
		}
		if len(cookies[0].String()) > 4096 {
			t.Errorf("a browser keeps no cookie of %d bytes", len(cookies[0].String()))
		}
	}
}

func TestTheSignedOutPageLeadsBackToWhereSomebodyWanted(t *testing.T) {
	h, _, _ := hub(t, principal.Person{}, errors.New("nobody"))
	get := func(h http.Handler, path string) string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
		return w.Body.String()
	}
	for path, want := range map[string]string{
		"/auth/":                          `href="/auth/login?provider=corp">`,
		"/auth/?return=/services%3Fa%3D1": `href="/auth/login?provider=corp&amp;return=%2fservices%3fa%3d1">`,
		"/auth/?return=https://evil":      `href="/auth/login?provider=corp">`,
		"/auth/?return=/auth/logout":      `href="/auth/login?provider=corp">`,
		"/auth/?return=/x/../auth/open":   `href="/auth/login?provider=corp">`,
		"/auth/?return=/x/%252e%252e/k8s": `href="/auth/login?provider=corp">`,
	} {
		if text := get(h, path); !strings.Contains(text, want) || !strings.Contains(text, "plural hub open") {
			t.Errorf("%s: %s", path, text)
		}
	}
	h, _, _ = hub(t, principal.Person{Name: "ada"}, nil)
	if text := get(h, "/auth/?return=/services"); !strings.Contains(text, `href="/services">Go on`) || strings.Contains(text, "/auth/login") {
		t.Error(text)
	}
	pages := signin.New(signin.Options{
		Providers: func() map[string]fleet.ProviderSpec { return nil }, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Person: func(*http.Request) (principal.Person, error) { return principal.Person{}, errors.New("nobody") },
	})
	mux := http.NewServeMux()
	pages.Routes(mux)
	if text := get(mux, "/auth/"); !strings.Contains(text, "no identity provider") || !strings.Contains(text, "plural hub open") || strings.Contains(text, "href") {
		t.Error(text)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/auth/logout", http.NoBody))
	if !strings.Contains(w.Body.String(), `content="0;url=/auth/"`) {
		t.Error(w.Body)
	}
}
