// Package oidcflow owns the flows of OpenID Connect by which somebody logs in: with a code and PKCE, on a device, by a refresh token.
//
// It knows neither who logs in where nor what becomes of tokens. An [Attempt] is one login by code; its answer has to repeat what it
// sent, and to come from the provider that was asked (RFC 9207).
package oidcflow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pluralsh/plural/internal/httpclient"
)

const (
	// maxAnswer bounds an answer of the provider, in bytes, and requestTimeout one request.
	maxAnswer      = 1 << 20
	requestTimeout = 30 * time.Second
)

// Tokens are what a login brings.
type Tokens struct {
	// ID is the ID token. Refresh is empty where the provider gives none.
	ID, Refresh string
}

// Options say how a provider is talked to.
type Options struct {
	// Name is the fleet's for the provider, for errors.
	Name string
	// Issuer is its URL, ClientID the client's there.
	Issuer, ClientID string
	// Secret is the client's; empty: it is a public one.
	Secret Secret
	// Scopes are asked for besides openid; empty: profile, email and, where the provider has it, groups.
	Scopes []string
	// Offline asks for a refresh token as well, where the provider gives them and Scopes is empty.
	Offline bool
	// NoLoopback refuses a provider on this machine.
	NoLoopback bool
}

// Secret is that of a client. It prints as "[redacted]".
type Secret string

const redacted = "[redacted]"

// String hides the secret.
func (Secret) String() string { return redacted }

// GoString hides it from %#v.
func (Secret) GoString() string { return redacted }

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
func Discover(ctx context.Context, o Options) (*Client, error) {
	u, err := httpclient.ParseURL(o.Issuer, "https", "http")
	if err != nil {
		return nil, fmt.Errorf("issuer of provider %s: %w", o.Name, err)
	}
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: maxAnswer, OtherHosts: true, NoLoopback: o.NoLoopback})
	if err != nil {
		return nil, err
	}
	client.Timeout = requestTimeout
	found, err := goidc.NewProvider(goidc.ClientContext(ctx, client), o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("ask provider %s how to log in: %w", o.Name, err)
	}
	var more struct {
		Scopes      []string `json:"scopes_supported"`
		Methods     []string `json:"token_endpoint_auth_methods_supported"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := found.Claims(&more); err != nil {
		return nil, fmt.Errorf("ask provider %s how to log in: %w", o.Name, err)
	}
	endpoint := found.Endpoint()
	for _, at := range []string{endpoint.AuthURL, endpoint.TokenURL, cmp.Or(endpoint.DeviceAuthURL, endpoint.TokenURL)} {
		// The first is opened by the operating system, which opens files and starts programs by their addresses, too.
		if _, err := httpclient.ParseURL(at, "https", "http"); err != nil {
			return nil, fmt.Errorf("ask provider %s how to log in: %w", o.Name, err)
		}
	}
	scopes := append([]string{goidc.ScopeOpenID}, o.Scopes...)
	if len(o.Scopes) == 0 {
		scopes = append(scopes, "profile", "email")
		if slices.Contains(more.Scopes, "groups") {
			scopes = append(scopes, "groups")
		}
		if o.Offline && slices.Contains(more.Scopes, goidc.ScopeOfflineAccess) {
			scopes = append(scopes, goidc.ScopeOfflineAccess)
		}
	}
	endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client has no secret that could be tried in a header first
	inForm := slices.Contains(more.Methods, "client_secret_post") && !slices.Contains(more.Methods, "client_secret_basic")
	if o.Secret != "" && !inForm {
		endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	return &Client{
		verifier: found.Verifier(&goidc.Config{ClientID: o.ClientID}), issuer: o.Issuer, http: client, namesItself: more.NamesItself,
		config: oauth2.Config{ClientID: o.ClientID, ClientSecret: string(o.Secret), Endpoint: endpoint, Scopes: slices.Compact(scopes)},
	}, nil
}

func (c *Client) context(ctx context.Context) context.Context {
	return goidc.ClientContext(ctx, c.http)
}

// taken are the tokens that the provider gave, of which nothing is checked.
func taken(given *oauth2.Token) (*Tokens, error) {
	raw, _ := given.Extra("id_token").(string)
	if raw == "" {
		return nil, errors.New("the provider gave no ID token: see that the client may have scope openid")
	}
	return &Tokens{ID: raw, Refresh: given.RefreshToken}, nil
}

// redact takes the client's secret out of what the provider said, which may repeat what it was sent.
func (c *Client) redact(err error) error {
	said := new(oauth2.RetrieveError)
	if c.config.ClientSecret == "" || !errors.As(err, &said) {
		return err
	}
	for _, secret := range []string{c.config.ClientSecret, url.QueryEscape(c.config.ClientSecret)} {
		said.Body = bytes.ReplaceAll(said.Body, []byte(secret), []byte(redacted))
		for _, text := range []*string{&said.ErrorCode, &said.ErrorDescription, &said.ErrorURI} {
			*text = strings.ReplaceAll(*text, secret, redacted)
		}
	}
	return err
}

// Check says whether the ID token is the provider's for this client, and of the login that sent nonce; empty where none was sent.
func (c *Client) Check(ctx context.Context, tokens *Tokens, nonce string) error {
	token, err := c.verifier.Verify(c.context(ctx), tokens.ID)
	if err != nil {
		return fmt.Errorf("the provider's ID token is not good: %w", err)
	}
	if nonce != "" && subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 {
		return errors.New("the provider's ID token is of another login (nonce)")
	}
	return nil
}

// Refresh has the provider say again who somebody is. A refusal is an *oauth2.RetrieveError.
func (c *Client) Refresh(ctx context.Context, refresh string) (*Tokens, error) {
	given, err := c.config.TokenSource(c.context(ctx), &oauth2.Token{RefreshToken: refresh}).Token()
	if err != nil {
		return nil, fmt.Errorf("refresh the login: %w", c.redact(err))
	}
	return taken(given)
}

// Device logs in with a code that the person types in on another device. show tells them where, and which.
func (c *Client) Device(ctx context.Context, show func(address, code string, until time.Time)) (*Tokens, error) {
	if c.config.Endpoint.DeviceAuthURL == "" {
		return nil, errors.New("the provider offers no login by code")
	}
	started, err := c.config.DeviceAuth(c.context(ctx))
	if err != nil {
		return nil, fmt.Errorf("begin to log in: %w", c.redact(err))
	}
	show(started.VerificationURI, started.UserCode, started.Expiry)
	given, err := c.config.DeviceAccessToken(c.context(ctx), started)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", c.redact(err))
	}
	return taken(given)
}

// Attempt is one login by code. Whoever begins it keeps it until the answer comes.
type Attempt struct {
	// Redirect is the URL at which the login ends.
	Redirect string `json:"redirect"`
	// State and Nonce are random, and come back; Verifier proves that who began the login ends it (PKCE).
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Anew asks for the person, although the provider may know them by their browser.
	Anew bool `json:"anew,omitempty"`
}

// Begin is a new attempt that ends at redirect.
func Begin(redirect string) *Attempt {
	return &Attempt{Redirect: redirect, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
}

// URL is where a browser logs in.
func (c *Client) URL(a *Attempt) string {
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), goidc.Nonce(a.Nonce), redirect(a)}
	switch {
	case a.Anew:
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	case slices.Contains(c.config.Scopes, goidc.ScopeOfflineAccess): // OpenID Connect gives a refresh token to those alone who are asked
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	return c.config.AuthCodeURL(a.State, options...)
}

func redirect(a *Attempt) oauth2.AuthCodeOption {
	return oauth2.SetAuthURLParam("redirect_uri", a.Redirect)
}

// ErrElsewhere means that an answer is not to this attempt.
var ErrElsewhere = errors.New("this is not the answer to the login that waits here")

// Answers says whether what came to the redirect URL is the answer to this attempt.
func (a *Attempt) Answers(answer url.Values) bool {
	return a.State != "" && subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(a.State)) == 1
}

// Code takes the provider's answer, which came to the attempt's redirect URL.
func (c *Client) Code(a *Attempt, answer url.Values) (string, error) {
	issuer := answer.Get("iss")
	switch {
	case !a.Answers(answer):
		return "", ErrElsewhere
	case issuer != c.issuer && (issuer != "" || c.namesItself):
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

// Exchange has the provider give the tokens for a code. Nothing of them is checked.
func (c *Client) Exchange(ctx context.Context, a *Attempt, code string) (*Tokens, error) {
	given, err := c.config.Exchange(c.context(ctx), code, oauth2.VerifierOption(a.Verifier), redirect(a))
	if err != nil {
		return nil, fmt.Errorf("exchange the code of the login: %w", c.redact(err))
	}
	return taken(given)
}
