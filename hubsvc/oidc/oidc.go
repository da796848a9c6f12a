// Package oidc owns the verification of tokens that identity providers sign.
//
// It knows neither who is believed nor what a token lets anybody do. An issuer's keys are found by discovery and kept in memory: a
// token with a known key costs no request. While the issuer is out of reach the keys in memory go on for a day.
package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	goidc "github.com/coreos/go-oidc/v3/oidc"
	jose "github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/pluralsh/plural/internal/httpclient"
)

// Bounds of what is asked of an issuer, and of what it says.
const (
	maxAnswer = 1 << 20
	maxKeys   = 100
	// timeout is for discovery and keys together: a person waits for it.
	timeout = 10 * time.Second
	// refetch lies between two requests for keys, so that tokens with made-up key IDs cost an issuer nothing.
	refetch = time.Minute
	// fresh is how long keys are taken without asking again, and stale how long while the issuer does not answer.
	fresh = time.Hour
	stale = 24 * time.Hour
	// Leeway is how far an issuer's clock may be off.
	Leeway = 30 * time.Second
)

// algorithms are those by which a token may be signed: with an issuer's private key, and no others.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
	}
}

// Unavailable means that an issuer's keys are not known and cannot be asked for now.
type Unavailable struct {
	Issuer string
	Err    error
}

// Error names the issuer.
func (u *Unavailable) Error() string { return fmt.Sprintf("ask %s for its keys: %v", u.Issuer, u.Err) }

// Unwrap is the cause.
func (u *Unavailable) Unwrap() error { return u.Err }

// Options of a Verifier. All but NoLoopback must be set.
type Options struct {
	// NoLoopback refuses issuers on this machine.
	NoLoopback bool
	Now        func() time.Time
	Log        *slog.Logger
}

// Verifier verifies tokens of issuers. It is safe for concurrent use.
type Verifier struct {
	Options
	mu      sync.Mutex // guards issuers
	issuers map[string]*issuer
}

// New is a verifier that has asked nobody yet.
func New(o Options) *Verifier { return &Verifier{Options: o, issuers: map[string]*issuer{}} }

// Keep forgets the issuers that are not listed.
func (v *Verifier) Keep(issuers []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name := range v.issuers {
		if !slices.Contains(issuers, name) {
			delete(v.issuers, name)
		}
	}
}

// Token is what a verified token says.
type Token struct {
	Subject         string
	Issued, Expires time.Time
	// Claims are all that it says, the registered ones included.
	Claims map[string]any
}

// stated are claims that are checked here.
type stated struct {
	Issuer   string       `json:"iss"`
	Party    string       `json:"azp"`
	Audience any          `json:"aud"`
	Issued   *json.Number `json:"iat"`
	Begins   *json.Number `json:"nbf"`
	// Events are in tokens that say that somebody has logged out.
	Events json.RawMessage `json:"events"`
}

// Verify says what a token says that issuer made for audience, and for nobody else. An *Unavailable says that this cannot be told
// now, any other error that the token is not good. Errors say nothing that the token holds but its times.
func (v *Verifier) Verify(ctx context.Context, raw, issuer, audience string) (*Token, error) {
	keys, err := v.keysOf(issuer)
	if err != nil {
		return nil, err
	}
	token, err := v.verify(ctx, raw, issuer, audience, keys)
	if fault := keys.unavailable(); err != nil && fault != nil { // go-oidc does not wrap it
		return nil, fault
	}
	return token, err
}

// VerifyWith is Verify for keys that are at hand, whose issuer is not asked. A token that none of them has signed is ErrUnsigned.
func (v *Verifier) VerifyWith(ctx context.Context, raw string, keys *Keys, audience string) (*Token, error) {
	if _, err := keys.VerifySignature(ctx, raw); err != nil {
		return nil, err
	}
	return v.verify(ctx, raw, keys.issuer, audience, keys)
}

func (v *Verifier) verify(ctx context.Context, raw, issuer, audience string, keys goidc.KeySet) (*Token, error) {
	if strings.ContainsAny(raw, " \t\r\n") { // which go-jose reads over
		return nil, errors.New("it is not a signed token")
	}
	config := &goidc.Config{ClientID: audience, Now: func() time.Time { return v.Now().Add(-Leeway) }}
	for _, alg := range algorithms() {
		config.SupportedSigningAlgs = append(config.SupportedSigningAlgs, string(alg))
	}
	token, err := goidc.NewVerifier(issuer, keys, config).Verify(ctx, raw)
	if err != nil {
		return nil, plain(err)
	}
	said := &Token{Subject: token.Subject, Issued: token.IssuedAt, Expires: token.Expiry}
	var more stated
	if err := errors.Join(token.Claims(&said.Claims), token.Claims(&more)); err != nil {
		return nil, errors.New("its claims cannot be read")
	}
	if err := more.check(issuer, audience, token.Audience, v.Now()); err != nil {
		return nil, err
	}
	return said, nil
}

// plain is an error of go-oidc without the token's text.
func plain(err error) error {
	if expired := new(goidc.TokenExpiredError); errors.As(err, &expired) {
		return fmt.Errorf("it expired at %s", expired.Expiry.UTC().Format(time.RFC3339))
	}
	return errors.New("its signature, issuer or audience is not what was expected")
}

// check is stricter than go-oidc: about whom a token of several audiences is for, and about clocks.
func (s *stated) check(issuer, audience string, audiences []string, now time.Time) error {
	switch {
	case s.Issuer != issuer:
		return errors.New("it is of another issuer")
	case len(s.Events) > 0:
		return errors.New("it tells of an event, and is no ID token")
	case s.Party != "" && s.Party != audience:
		return errors.New("it was made for another party (azp)")
	case len(audiences) > 1 && s.Party == "":
		return errors.New("it is for several audiences, and does not say for which party (azp)")
	}
	for name, number := range map[string]*json.Number{"iat": s.Issued, "nbf": s.Begins} {
		if number == nil {
			continue
		}
		at, err := number.Float64()
		if err != nil || time.Unix(int64(at), 0).After(now.Add(Leeway)) {
			return fmt.Errorf("it is not good yet (%s): see that the clocks of its issuer and of the hub are right", name)
		}
	}
	if s.Issued == nil {
		return errors.New("it does not say when it was made (iat)")
	}
	return nil
}

// issuer holds the keys of one. It implements go-oidc's KeySet.
type issuer struct {
	url    string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	asking singleflight.Group

	mu sync.Mutex // guards what follows
	// keys were fetched at a time; asked is when they were asked for last, and fault why that did not go well.
	keys           []jose.JSONWebKey
	fetched, asked time.Time
	fault          error
}

func (v *Verifier) keysOf(name string) (*issuer, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.issuers[name]; ok {
		return known, nil
	}
	u, err := url.Parse(name)
	if err != nil {
		return nil, errors.New("its issuer is not a URL")
	}
	client, err := httpclient.Client(httpclient.Options{For: u, MaxBytes: maxAnswer, NoLoopback: v.NoLoopback, OtherHosts: true, Stall: timeout})
	if err != nil {
		return nil, err
	}
	v.issuers[name] = &issuer{url: name, client: client, now: v.Now, log: v.Log}
	return v.issuers[name], nil
}

// ErrUnsigned says that a token is none of its issuer's, as far as keys say.
var ErrUnsigned = errors.New("no key of its issuer has signed it")

// Keys are the public keys of an issuer. They do not change once they are read, and implement go-oidc's KeySet.
type Keys struct {
	issuer string
	set    []jose.JSONWebKey
}

// ReadKeys reads a JSON Web Key Set of an issuer.
func ReadKeys(issuer string, set []byte) (*Keys, error) {
	keys, err := read(bytes.NewReader(set))
	if err != nil {
		return nil, err
	}
	return &Keys{issuer, keys}, nil
}

// VerifySignature finds the key that signed a token, which has to name it: a stranger's token may be held against the keys of many.
func (k *Keys) VerifySignature(_ context.Context, raw string) ([]byte, error) {
	signed, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if signed.Signatures[0].Header.KeyID == "" {
		return nil, ErrUnsigned
	}
	if payload, ok := verify(signed, k.set); ok {
		return payload, nil
	}
	return nil, ErrUnsigned
}

// parse reads a token with one signature, which nobody has checked yet.
func parse(raw string) (*jose.JSONWebSignature, error) {
	signed, err := jose.ParseSigned(raw, algorithms())
	if err != nil || len(signed.Signatures) != 1 {
		return nil, errors.New("it is not a signed token")
	}
	if kind, _ := signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType].(string); kind != "" && !strings.EqualFold(kind, "JWT") {
		return nil, errors.New("it is a token of another kind") // an access token, say
	}
	return signed, nil
}

// VerifySignature finds the key that signed a token. A key that is not known is asked for, at most once in a while.
func (i *issuer) VerifySignature(ctx context.Context, raw string) ([]byte, error) {
	signed, err := parse(raw)
	if err != nil {
		return nil, err
	}
	if keys := i.current(fresh); keys != nil {
		if payload, ok := verify(signed, keys); ok {
			return payload, nil
		}
	}
	i.ask(ctx)
	if payload, ok := verify(signed, i.current(stale)); ok {
		return payload, nil
	}
	return nil, ErrUnsigned
}

func verify(signed *jose.JSONWebSignature, keys []jose.JSONWebKey) ([]byte, bool) {
	id := signed.Signatures[0].Header.KeyID
	for k := range keys {
		if id != "" && keys[k].KeyID != id {
			continue
		}
		if payload, err := signed.Verify(&keys[k]); err == nil {
			return payload, true
		}
	}
	return nil, false
}

// current are the keys, when they are no older.
func (i *issuer) current(most time.Duration) []jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fetched.IsZero() || i.now().Sub(i.fetched) > most {
		return nil
	}
	return i.keys
}

// unavailable says why there are no keys to verify with; nil when there are.
func (i *issuer) unavailable() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fault == nil || !i.fetched.IsZero() && i.now().Sub(i.fetched) <= stale {
		return nil
	}
	return &Unavailable{Issuer: i.url, Err: i.fault}
}

// ask fetches the keys, for all who wait, unless they were asked for a moment ago.
func (i *issuer) ask(ctx context.Context) {
	_, _, _ = i.asking.Do("", func() (any, error) {
		now := i.now()
		i.mu.Lock()
		since := now.Sub(i.asked)
		known := !i.fetched.IsZero()
		i.mu.Unlock()
		again := refetch
		if !known { // somebody tries to log in for the first time
			again = time.Second
		}
		if since >= 0 && since < again {
			return nil, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // others wait for it too
		defer cancel()
		keys, err := i.fetch(ctx)
		if err != nil {
			i.log.Warn("keys of an identity provider cannot be fetched; those in memory go on for a day", "issuer", i.url, "error", err)
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked, i.fault = now, err
		if err == nil {
			i.keys, i.fetched = keys, now
		}
		return nil, nil
	})
}

func (i *issuer) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	found, err := goidc.NewProvider(goidc.ClientContext(ctx, i.client), i.url)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", brief(err))
	}
	var place struct {
		Keys string `json:"jwks_uri"`
	}
	if err := found.Claims(&place); err != nil {
		return nil, fmt.Errorf("discover: %w", brief(err))
	}
	if _, err := httpclient.ParseURL(place.Keys, "https", "http"); err != nil {
		return nil, fmt.Errorf("discover: jwks_uri: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, place.Keys, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	answer, err := i.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	defer answer.Body.Close()
	if err := httpclient.CheckStatus(answer, httpclient.Credentials{}); err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	return read(answer.Body)
}

// read takes the keys that are for signatures. An issuer may have others, also of kinds that are not known here.
func read(from io.Reader) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(from).Decode(&set); err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("read keys: there are %d of them, more than %d", len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(text) == nil && key.IsPublic() && key.Valid() && (key.Use == "" || key.Use == "sig") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("read keys: none of them is a public key for signatures")
	}
	return keys, nil
}

// brief is an error without most of what a server said: go-oidc quotes answers as a whole.
func brief(err error) error {
	const most = 300
	if text := err.Error(); len(text) > most {
		return errors.New(strings.ToValidUTF8(text[:most], "") + " ...")
	}
	return err
}
