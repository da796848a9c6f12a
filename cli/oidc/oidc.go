// Package oidc owns logging in with an OpenID Connect provider from a terminal.
//
// It knows neither the hub nor where tokens are kept. A login is the authorization code flow with PKCE, which ends at a port of this
// machine (RFC 8252) or with a URL that the person pastes; or the device flow (RFC 8628). What comes back is an ID token, whose nonce
// and signature are checked, and where the provider gives one a refresh token.
package oidc

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/httpclient"
)

const (
	// maxAnswer bounds an answer of the provider, in bytes, and requestTimeout one request.
	maxAnswer      = 1 << 20
	requestTimeout = 30 * time.Second
	// CallbackPath is that of the redirect URI, whose host is 127.0.0.1 with any port.
	CallbackPath = "/callback"
)

// Tokens are what a login brings.
type Tokens struct {
	// ID is the ID token. Refresh is empty where the provider gives none.
	ID, Refresh string
}

// Client talks to one provider.
type Client struct {
	verifier *goidc.IDTokenVerifier
	config   oauth2.Config
	issuer   string
	http     *http.Client
	// namesItself says that the provider's answers have its issuer in them (RFC 9207).
	namesItself bool
}

// Discover asks a provider how it is talked to.
func Discover(ctx context.Context, p *v1.LoginProvider) (*Client, error) {
	u, err := httpclient.ParseURL(p.Issuer, "https", "http")
	if err != nil {
		return nil, fmt.Errorf("issuer of provider %s: %w", p.Name, err)
	}
	if u.Scheme == "http" && !httpclient.Loopback(u.Hostname()) {
		return nil, fmt.Errorf("issuer of provider %s: %s has no TLS, so whoever is on the way could log in as you", p.Name, p.Issuer)
	}
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: maxAnswer, OtherHosts: true})
	if err != nil {
		return nil, err
	}
	client.Timeout = requestTimeout
	found, err := goidc.NewProvider(goidc.ClientContext(ctx, client), p.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask provider %s how to log in: %w", p.Name, err)
	}
	var more struct {
		Scopes      []string `json:"scopes_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("ask provider %s how to log in: %w", p.Name, err)
	}
	scopes := append([]string{goidc.ScopeOpenID}, p.Scopes...)
	if len(p.Scopes) == 0 {
		scopes = append(scopes, "profile", "email")
		for _, more := range slices.DeleteFunc([]string{"groups", goidc.ScopeOfflineAccess}, func(s string) bool { return !slices.Contains(more.Scopes, s) }) {
			scopes = append(scopes, more)
		}
	}
	endpoint := found.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret that could be tried in a header first
	return &Client{
		verifier: found.Verifier(&goidc.Config{ClientID: p.ClientID}), issuer: p.Issuer, http: client, namesItself: more.NamesItself,
		config: oauth2.Config{ClientID: p.ClientID, Endpoint: endpoint, Scopes: slices.Compact(scopes)},
	}, nil
}

func (c *Client) context(ctx context.Context) context.Context { return goidc.ClientContext(ctx, c.http) }

// tokens takes what the provider gave. nonce is what the ID token has to repeat; empty where nothing was sent.
func (c *Client) tokens(ctx context.Context, given *oauth2.Token, nonce string) (*Tokens, error) {
	raw, _ := given.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the provider gave no ID token: see that the client may have scope openid")
	}
	token, err := c.verifier.Verify(c.context(ctx), raw)
	if err != nil {
		return nil, fmt.Errorf("the provider's ID token is not good: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 && nonce != "" {
		return nil, errors.New("the provider's ID token is of another login (nonce)")
	}
	return &Tokens{ID: raw, Refresh: given.RefreshToken}, nil
}

// Refresh has the provider say again who somebody is. A refusal is an *oauth2.RetrieveError.
func (c *Client) Refresh(ctx context.Context, refresh string) (*Tokens, error) {
	given, err := c.config.TokenSource(c.context(ctx), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return nil, fmt.Errorf("refresh the login: %w", err)
	}
	return c.tokens(ctx, given, "")
}

// Device logs in with a code that the person types in on another device. show tells them where, and which.
func (c *Client) Device(ctx context.Context, show func(address, code string, until time.Time)) (*Tokens, error) {
	if c.config.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the provider offers no login by code")
	}
	started, err := c.config.DeviceAuth(c.context(ctx))
	if err != nil {
		return nil, fmt.Errorf("begin to log in: %w", err)
	}
	show(started.VerificationURI, started.UserCode, started.Expiry)
	given, err := c.config.DeviceAccessToken(c.context(ctx), started)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	return c.tokens(ctx, given, "")
}

// attempt is one login by code.
type attempt struct {
	*Client
	state, nonce, verifier string
	config                 oauth2.Config
}

func (c *Client) begin(redirect string) *attempt {
	a := &attempt{Client: c, state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), config: c.config}
	a.config.RedirectURL = redirect
	return a
}

func (a *attempt) url() string {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.verifier), goidc.Nonce(a.nonce)}
	if slices.Contains(a.config.Scopes, goidc.ScopeOfflineAccess) { // OpenID Connect gives a refresh token to those alone who are asked
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	return a.config.AuthCodeURL(a.state, options...)
}

// errElsewhere means that an answer is not to this attempt: whoever sent it is told so, and the attempt goes on.
var errElsewhere = errors.New("this is not the answer to the login that waits here")

// code takes the provider's answer, which came to the redirect URI.
func (a *attempt) code(answer url.Values) (string, error) {
	state, issuer := answer.Get("state"), answer.Get("iss")
	switch {
	case subtle.ConstantTimeCompare([]byte(state), []byte(a.state)) != 1:
		return "", errElsewhere
	case issuer != a.issuer && (issuer != "" || a.namesItself):
		return "", fmt.Errorf("the answer is of another provider than was asked (%q)", issuer)
	case answer.Get("error") != "":
		return "", fmt.Errorf("the provider says no: %s", said(answer))
	case answer.Get("code") == "":
		return "", errors.New("the provider's answer has no code")
	}
	return answer.Get("code"), nil
}

// said are a provider's words for its no, bounded.
func said(answer url.Values) string {
	text := answer.Get("error")
	if more := answer.Get("error_description"); more != "" {
		text += ": " + more
	}
	const most = 300
	return text[:min(len(text), most)]
}

func (a *attempt) exchange(ctx context.Context, code string) (*Tokens, error) {
	given, err := a.config.Exchange(a.context(ctx), code, oauth2.VerifierOption(a.verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code of the login: %w", err)
	}
	return a.tokens(ctx, given, a.nonce)
}
