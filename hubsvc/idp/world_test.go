package idp_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/oauth2"

	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/idp"
	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/hubsvc/natsd"
	"github.com/pluralsh/plural/hubsvc/oidc"
	"github.com/pluralsh/plural/hubsvc/onetime"
	"github.com/pluralsh/plural/hubsvc/signin"
	"github.com/pluralsh/plural/hubsvc/signing"
	"github.com/pluralsh/plural/internal/principal"
	"github.com/pluralsh/plural/test/support/issuer"
	"github.com/pluralsh/plural/workspace/fleet"
)

const (
	secret   = "a client secret that is long enough to be one"
	redirect = "https://grafana.example.com/login/generic_oauth"
)

// world is a fleet with a provider named corp, and the applications grafana, which has a secret, and cli, which has none. Its hub has two
// replicas.
type world struct {
	testing.TB
	corp   *issuer.Issuer
	nats   *natsd.Server
	people *auth.People
	keys   *idtoken.Keys
	// url is the hub's, which a load balancer of its own serves: each request goes to the other replica.
	url      string
	replicas []http.Handler
	turn     atomic.Int64
	logged   *recorder
	records  []record
	ahead    atomic.Int64 // how far the hub's clock is ahead

	mu        sync.Mutex // guards what follows
	f         fleet.Fleet
	directory *auth.Directory
}

type record struct {
	person, application string
	allowed             bool
}

// recorder keeps what the hub's log says.
type recorder struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

var sharedKeys = sync.OnceValues(func() (map[string]string, error) { return idtoken.Rotate(nil, time.Now().Add(-time.Hour), false) })

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, corp: issuer.Start(t), logged: new(recorder)}
	file, err := sharedKeys()
	if err != nil {
		t.Fatal(err)
	}
	if w.keys, err = idtoken.Parse(file); err != nil {
		t.Fatal(err)
	}
	if w.nats, err = natsd.Start(t.Context(), natsd.Options{Dir: t.TempDir(), Name: "test", Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.nats.Close() })
	balancer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.replicas[int(w.turn.Add(1))%len(w.replicas)].ServeHTTP(rw, r)
	}))
	t.Cleanup(balancer.Close)
	w.url = balancer.URL
	w.serve(fleet.Fleet{
		Users: []fleet.User{{Metadata: fleet.Metadata{Name: "ada"}, Spec: fleet.UserSpec{
			Groups: []string{"staff"}, Identities: []fleet.Identity{{Provider: "corp", Subject: "00u1abc"}},
		}}},
		Providers: []fleet.Provider{{Metadata: fleet.Metadata{Name: "corp"}, Spec: fleet.ProviderSpec{Issuer: w.corp.URL, ClientID: "plural"}}},
		Applications: []fleet.Application{
			{Metadata: fleet.Metadata{Name: "grafana"}, Spec: fleet.ApplicationSpec{
				RedirectURIs: []string{redirect}, LogoutURIs: []string{"https://grafana.example.com/"}, SecretHash: fleet.HashToken(secret),
				Allow: fleet.Members{Groups: []string{"platform"}, Users: []string{"ada"}},
				Roles: map[string]fleet.Members{"Admin": {Users: []string{"ada"}}, "Editor": {Groups: []string{"platform"}}},
			}},
			{Metadata: fleet.Metadata{Name: "cli"}, Spec: fleet.ApplicationSpec{
				RedirectURIs: []string{"http://127.0.0.1/callback"}, Allow: fleet.Members{Groups: []string{"platform"}},
			}},
			{Metadata: fleet.Metadata{Name: "old"}, Spec: fleet.ApplicationSpec{
				RedirectURIs: []string{"https://old.example.com/"}, SecretHash: fleet.HashToken(secret), WithoutPKCE: true, Allow: fleet.Members{Users: []string{"ada"}},
			}},
		},
	})
	w.replicas = []http.Handler{w.replica(), w.replica()}
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) serve(f fleet.Fleet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.f, w.directory = f, auth.NewDirectory(&f)
}

func (w *world) current() *auth.Directory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.directory
}

// replica is a hub of its own, which shares NATS with the others.
func (w *world) replica() http.Handler {
	w.Helper()
	log := slog.New(slog.NewTextHandler(w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ring := func(purpose string, lifetime time.Duration) *signing.Ring {
		return signing.New(signing.Options{JetStream: w.nats.JetStream(), Replicas: 1, Purpose: purpose, Lifetime: lifetime, Now: w.now, Log: log})
	}
	people, err := auth.NewPeople(auth.Options{
		File: filepath.Join(w.TempDir(), "token"), Directory: w.current, URL: func() string { return w.url }, Keys: ring("kube", auth.KubeValidity),
		SessionKeys: ring("session", auth.SessionValidity), Verifier: oidc.New(oidc.Options{Now: w.now, Log: log}), Now: w.now, Log: log,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.people = people
	keys := ring("login", max(signin.Lifetime, idp.Validity))
	pages := signin.New(signin.Options{
		URL: func() string { return w.url }, Providers: func() map[string]fleet.ProviderSpec { return w.current().Providers() }, Admit: people.Admit,
		Person: people.Person, Record: func(*http.Request, *principal.Person) error { return nil }, Keys: keys, Now: w.now, Log: log,
	})
	mux := http.NewServeMux()
	pages.Routes(mux)
	idp.New(idp.Options{
		URL: func() string { return w.url }, SigningKeys: func() *idtoken.Keys { return w.keys },
		Application: func(name string) (*fleet.ApplicationSpec, bool) { return w.current().Application(name) },
		Person:      people.Person, Current: people.Current, Pages: pages, Keys: keys, Spend: onetime.New(w.nats.JetStream(), 1).Spend,
		Record: func(_ *http.Request, who *principal.Person, application string, allowed bool) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.records = append(w.records, record{who.Name, application, allowed})
			return nil
		},
		Now: w.now, Log: log, Metrics: prometheus.NewRegistry(),
	}).Routes(mux)
	return signin.Guard(mux)
}

// browser is one in which somebody has logged in to the hub; empty: nobody has. It follows no redirect.
func (w *world) browser(subject string, groups ...string) *http.Client {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	client := &http.Client{
		Jar: jar, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if subject == "" {
		return client
	}
	raw := w.corp.Token(w.corp.Claims(subject, "plural", w.now(), map[string]any{
		"groups": groups, "preferred_username": "shown-" + subject, "email": subject + "@example.com", "email_verified": true,
	}))
	session, _, err := w.people.Exchange(w.Context(), raw)
	if err != nil {
		w.Fatal(err)
	}
	at, err := url.Parse(w.url)
	if err != nil {
		w.Fatal(err)
	}
	jar.SetCookies(at, []*http.Cookie{{Name: auth.SessionCookie, Value: session, Path: "/"}}) // Secure would keep it from http
	return client
}

// application is grafana as a relying party has it: go-oidc and x/oauth2, by the hub's discovery.
func (w *world) application() (*goidc.Provider, *oauth2.Config) {
	w.Helper()
	found, err := goidc.NewProvider(w.Context(), w.url+"/oidc")
	if err != nil {
		w.Fatal(err)
	}
	return found, &oauth2.Config{
		ClientID: "grafana", ClientSecret: secret, Endpoint: found.Endpoint(), RedirectURL: redirect, Scopes: []string{goidc.ScopeOpenID, "groups"},
	}
}

// answered is what came back to the application from a browser that it sent to the hub.
func (w *world) answered(browser *http.Client, at string) url.Values {
	w.Helper()
	status, to, body := w.get(browser, at)
	if status != http.StatusSeeOther {
		w.Fatalf("answered %d: %s", status, body)
	}
	u, err := url.Parse(to)
	if err != nil {
		w.Fatal(err)
	}
	return u.Query()
}

func (w *world) get(browser *http.Client, at string) (status int, location, body string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, at, nil)
	if err != nil {
		w.Fatal(err)
	}
	return w.do(browser, r)
}

// post sends a form.
func (w *world) post(path string, form url.Values, header ...string) (status int, body string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	status, _, body = w.do(http.DefaultClient, r)
	return status, body
}

func (w *world) do(browser *http.Client, r *http.Request) (status int, location, body string) {
	w.Helper()
	answer, err := browser.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if _, err := copyBounded(&text, answer.Body); err != nil {
		w.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("Location"), text.String()
}

// login is a whole one: the tokens that grafana gets for whoever uses the browser.
func (w *world) login(ctx context.Context, browser *http.Client) (*oauth2.Token, *goidc.IDToken) {
	w.Helper()
	found, config := w.application()
	verifier := oauth2.GenerateVerifier()
	answer := w.answered(browser, config.AuthCodeURL("state-1", oauth2.S256ChallengeOption(verifier), goidc.Nonce("nonce-1")))
	if answer.Get("state") != "state-1" || answer.Get("iss") != w.url+"/oidc" || answer.Get("code") == "" {
		w.Fatal(answer)
	}
	tokens, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		w.Fatal(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	id, err := found.Verifier(&goidc.Config{ClientID: "grafana"}).Verify(ctx, raw)
	if err != nil {
		w.Fatal(err)
	}
	return tokens, id
}
