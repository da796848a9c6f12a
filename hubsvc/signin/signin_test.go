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
	r := httptest.NewRequest(http.MethodGet, "/", nil)
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
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
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
