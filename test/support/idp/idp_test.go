package idp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"github.com/pluralsh/plural/test/support/idp"
)

// eachProvider runs a test with each provider, by http and by https.
func eachProvider(t *testing.T, o idp.Options, test func(*testing.T, *idp.Provider)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB, idp.Options) *idp.Provider{"zitadel": idp.Start, "node": idp.StartNode} {
		for _, tls := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, TLS %v", name, tls), func(t *testing.T) {
				o := o
				o.TLS = tls
				test(t, start(t, o))
			})
		}
	}
}

func ada() idp.User {
	return idp.User{
		Subject: "s-1", Name: "ada", FullName: "Ada Lovelace", Password: "engine", Email: "ada@example.com",
		Groups: []string{"platform", "on-call"}, Claims: map[string]any{"department": "R&D"},
	}
}

func bob() idp.User {
	return idp.User{Subject: "s-2", Name: "bob", Password: "x", Email: "bob@example.com", EmailUnverified: true}
}

// claims are what an ID token says of a person.
type claims struct {
	Sub        string   `json:"sub"`
	User       string   `json:"preferred_username"`
	Name       string   `json:"name"`
	Email      string   `json:"email"`
	Verified   *bool    `json:"email_verified"`
	Groups     []string `json:"groups"`
	Department string   `json:"department"`
}

func ofAda() claims {
	return claims{
		Sub: "s-1", User: "ada", Name: "Ada Lovelace", Email: "ada@example.com", Verified: new(true),
		Groups: []string{"platform", "on-call"}, Department: "R&D",
	}
}

// cli is a program that signs a person in by a browser, as RFC 8252 says.
type cli struct {
	brings   *http.Client
	config   *oauth2.Config
	verifier *oidc.IDTokenVerifier
	arrived  chan url.Values
}

// newCLI listens on a port that nobody registered.
func newCLI(t *testing.T, p *idp.Provider, path string) *cli {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), p.Client())
	found, err := oidc.NewProvider(ctx, p.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	c := &cli{brings: p.Client(), verifier: found.Verifier(&oidc.Config{ClientID: idp.ClientID}), arrived: make(chan url.Values, 1)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.arrived <- r.URL.Query()
		fmt.Fprint(w, "<p>You may close this <b>window</b>.")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	endpoint := found.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams
	c.config = &oauth2.Config{
		ClientID: idp.ClientID, Endpoint: endpoint, RedirectURL: "http://" + listener.Addr().String() + path,
		Scopes: []string{oidc.ScopeOpenID, oidc.ScopeOfflineAccess, "profile", "email", "groups"},
	}
	return c
}

func (c *cli) context(t *testing.T) context.Context { return oidc.ClientContext(t.Context(), c.brings) }

// signIn is the code flow, with PKCE.
func (c *cli) signIn(t *testing.T, b *idp.Browser) *oauth2.Token {
	t.Helper()
	state, nonce, secret := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	landed, err := b.Open(c.config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(secret),
		oauth2.SetAuthURLParam("prompt", "consent")))
	if err != nil {
		t.Fatalf("at %s: %v", landed, err)
	}
	if !strings.HasPrefix(landed, c.config.RedirectURL+"?") || b.Page() != "You may close this window ." {
		t.Errorf("the browser landed at %s, where it read %q", landed, b.Page())
	}
	arrived := <-c.arrived
	if arrived.Get("state") != state {
		t.Fatalf("the provider sent %v", arrived)
	}
	if _, err := c.config.Exchange(c.context(t), arrived.Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier())); err == nil {
		t.Fatal("a code is exchanged without the secret of who asked for it")
	}
	// A refused exchange may have used the code up, so that a second one takes another.
	if _, err := b.Open(c.config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(secret),
		oauth2.SetAuthURLParam("prompt", "consent"))); err != nil {
		t.Fatal(err)
	}
	token, err := c.config.Exchange(c.context(t), (<-c.arrived).Get("code"), oauth2.VerifierOption(secret))
	if err != nil {
		t.Fatal(err)
	}
	if verified, _ := c.verify(t, token); verified.Nonce != nonce {
		t.Errorf("nonce %q, want %q", verified.Nonce, nonce)
	}
	return token
}

func (c *cli) verify(t *testing.T, token *oauth2.Token) (*oidc.IDToken, claims) {
	t.Helper()
	raw, _ := token.Extra("id_token").(string)
	verified, err := c.verifier.Verify(c.context(t), raw)
	if err != nil {
		t.Fatalf("ID token %q: %v", raw, err)
	}
	var said claims
	if err := verified.Claims(&said); err != nil {
		t.Fatal(err)
	}
	return verified, said
}

func TestAPersonSignsInAndStaysSignedIn(t *testing.T) {
	eachProvider(t, idp.Options{Users: []idp.User{ada(), bob()}, IDTokenLifetime: 7 * time.Minute}, func(t *testing.T, p *idp.Provider) {
		c := newCLI(t, p, "/callback")
		token := c.signIn(t, p.Browser(t, "ada"))
		verified, said := c.verify(t, token)
		if diff := cmp.Diff(ofAda(), said); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
		if held := verified.Expiry.Sub(verified.IssuedAt); held != 7*time.Minute {
			t.Errorf("the ID token holds for %v", held)
		}

		moved := ada()
		moved.Groups = []string{}
		p.SetUsers(t, moved)
		next := c.refresh(t, token)
		want := ofAda()
		want.Groups = []string{}
		if _, said := c.verify(t, next); cmp.Diff(want, said) != "" {
			t.Errorf("claims after a refresh (-want +got):\n%s", cmp.Diff(want, said))
		}
		if _, err := c.tryRefresh(t, token); err == nil {
			t.Error("a refresh token holds twice")
		}
		p.SetUsers(t)
		var refused *oauth2.RetrieveError
		if _, err := c.tryRefresh(t, next); !errors.As(err, &refused) || refused.ErrorCode != "invalid_grant" {
			t.Errorf("who is gone refreshes: %v", err)
		}
	})
}

func (c *cli) tryRefresh(t *testing.T, token *oauth2.Token) (*oauth2.Token, error) {
	return c.config.TokenSource(c.context(t), &oauth2.Token{RefreshToken: token.RefreshToken}).Token()
}

func (c *cli) refresh(t *testing.T, token *oauth2.Token) *oauth2.Token {
	t.Helper()
	next, err := c.tryRefresh(t, token)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestWhoHasNoGroupsHasNoClaim(t *testing.T) {
	eachProvider(t, idp.Options{Users: []idp.User{ada(), bob()}}, func(t *testing.T, p *idp.Provider) {
		c := newCLI(t, p, "/callback")
		_, said := c.verify(t, c.signIn(t, p.Browser(t, "bob")))
		want := claims{Sub: "s-2", User: "bob", Name: "bob", Email: "bob@example.com", Verified: new(false)}
		if diff := cmp.Diff(want, said); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
	})
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	eachProvider(t, idp.Options{Users: []idp.User{ada()}}, func(t *testing.T, p *idp.Provider) {
		c := newCLI(t, p, "/callback")
		guess, stranger := p.Browser(t, "ada"), p.Browser(t, "eve")
		guess.Password = "motor"
		for _, b := range []*idp.Browser{guess, stranger} {
			landed, err := b.Open(c.config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
			if !errors.Is(err, idp.ErrRefused) || !strings.Contains(err.Error(), "wrong") || !strings.HasPrefix(landed, p.Issuer) {
				t.Errorf("%s, at %s: %v", b.User, landed, err)
			}
		}
		if len(c.arrived) > 0 {
			t.Errorf("the provider sent %v", <-c.arrived)
		}
	})
}

func TestOnlyTheCallbackOfALoopbackIsTaken(t *testing.T) {
	eachProvider(t, idp.Options{Users: []idp.User{ada()}}, func(t *testing.T, p *idp.Provider) {
		c := newCLI(t, p, "/callback")
		right := c.config.RedirectURL
		for _, wrong := range []string{right + "/more", strings.Replace(right, "127.0.0.1", "192.0.2.1", 1), "http://evil.example/callback"} {
			c.config.RedirectURL = wrong
			landed, err := p.Browser(t, "ada").Open(c.config.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())))
			if err == nil || !strings.HasPrefix(landed, p.Issuer) {
				t.Errorf("%s is taken, at %s: %v", wrong, landed, err)
			}
		}
	})
}

func TestADeviceIsSignedInByItsCode(t *testing.T) {
	eachProvider(t, idp.Options{Users: []idp.User{ada()}}, func(t *testing.T, p *idp.Provider) {
		c := newCLI(t, p, "/callback")
		device, err := c.config.DeviceAuth(c.context(t))
		if err != nil {
			t.Fatal(err)
		}
		if device.Interval != 1 {
			t.Errorf("a device polls each %d seconds", device.Interval)
		}
		if landed, err := p.Browser(t, "ada").Open(device.VerificationURIComplete); err != nil {
			t.Fatalf("at %s: %v", landed, err)
		}
		token, err := c.config.DeviceAccessToken(c.context(t), device)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []*oauth2.Token{token, c.refresh(t, token)} {
			if _, said := c.verify(t, token); cmp.Diff(ofAda(), said) != "" {
				t.Errorf("claims (-want +got):\n%s", cmp.Diff(ofAda(), said))
			}
		}
	})
}

func TestRequestsAreCountedAndRefused(t *testing.T) {
	eachProvider(t, idp.Options{Clients: []string{"other"}}, func(t *testing.T, p *idp.Provider) {
		ask := func() int {
			response, err := p.Client().Get(p.Issuer + "/.well-known/openid-configuration")
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.StatusCode
		}
		got := []int{ask()}
		p.Down(true)
		got = append(got, ask())
		p.Down(false)
		got = append(got, ask())
		if want := []int{200, 503, 200}; !slices.Equal(got, want) {
			t.Errorf("answers %v, want %v", got, want)
		}
		if p.Requests() != 3 {
			t.Errorf("%d requests were counted, want 3", p.Requests())
		}
		p.Close()
		if _, err := p.Client().Get(p.Issuer); err == nil {
			t.Error("a closed provider answers")
		}
	})
}
