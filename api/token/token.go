// Package token owns the agent's credential: short-lived statements, signed with the key whose public half stands in the
// cluster's file in git, that say which cluster asks which hub.
//
// An agent signs with Signer; a hub verifies with Verify, giving it the public keys that the desired state names now, so that
// removing a cluster's file revokes its agent at the next request. Where nothing between them ends TLS, a token is bound to the
// connection over which it is shown, and worth nothing on another. On the connections over which a cluster is reached the agent
// proves besides that it holds the key at that moment (proof.go).
package token

import (
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// Lifetime is how long a token is good for.
	Lifetime = 5 * time.Minute
	// Leeway is how far the two clocks may disagree.
	Leeway = 5 * time.Minute
	// MaxBytes bounds what Verify looks at.
	MaxBytes = 2048
)

// ErrInvalid is returned for every token that is not good, so that a caller cannot tell why.
var ErrInvalid = errors.New("agent token is not valid")

// Refusal is an ErrInvalid with its reason, which is for those who run the hub: who shows the token is not told.
type Refusal struct {
	Reason Reason
	// Cluster is what the token says of itself, whoever made it.
	Cluster string
}

// Reason is one of the constants below.
type Reason string

// Why a token is not good.
const (
	Malformed Reason = "malformed"
	// NoKey: no such cluster has an agent now; it was removed, or never registered.
	NoKey Reason = "unknown cluster"
	// OtherKey: it was signed by another key than the cluster's file names.
	OtherKey Reason = "other key"
	// OtherHub: it was made for a hub of another URL.
	OtherHub Reason = "other hub"
	// Clock: it is from the future, or its time is over.
	Clock Reason = "clock"
)

// Error is that of ErrInvalid.
func (r *Refusal) Error() string { return ErrInvalid.Error() }

// Unwrap gives ErrInvalid.
func (r *Refusal) Unwrap() error { return ErrInvalid }

// refusal finds the reason in what the parser says.
func refusal(err error, cluster string) *Refusal {
	reason := Malformed
	switch {
	case errors.Is(err, ErrInvalid):
		reason = NoKey
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		reason = OtherKey
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		reason = OtherHub
	case errors.Is(err, jwt.ErrTokenExpired), errors.Is(err, jwt.ErrTokenUsedBeforeIssued), errors.Is(err, jwt.ErrTokenNotValidYet):
		reason = Clock
	}
	return &Refusal{reason, cluster}
}

// ErrElsewhere says that a token, good in itself, is bound to another TLS connection: it was taken from there, or something
// between agent and hub ends TLS.
var ErrElsewhere = errors.New("agent token is bound to another TLS connection")

// Elsewhere is the header of a hub's refusal because of ErrElsewhere. The agent then shows tokens that are bound to nothing.
const Elsewhere = "Plural-Tls-Elsewhere"

// Binding names a TLS connection, the same at both of its ends and at no other (RFC 9266). It is no secret. Nil: there is none.
func Binding(state *tls.ConnectionState) []byte {
	if state == nil {
		return nil
	}
	binding, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil { // a version of TLS that knows no such name
		return nil
	}
	return binding
}

// claims are what a token states.
type claims struct {
	jwt.RegisteredClaims
	// Binding is that of the one TLS connection on which the token is good, in base64; empty: it is good on any.
	Binding string `json:"tls_exporter,omitempty"`
}

// Signer makes tokens and proofs for one cluster and one hub; it is safe for concurrent use.
type Signer struct {
	key          ed25519.PrivateKey
	cluster, hub string
	now          func() time.Time
	mu           sync.Mutex // guards made
	// made are the tokens that are young enough to be shown again, by what they are bound to.
	made map[string]made
}

type made struct {
	raw    string
	expiry time.Time
}

func (m made) young(now time.Time) bool { return now.Add(Lifetime / 2).Before(m.expiry) }

// NewSigner returns a Signer for the named cluster at the hub with the given URL.
func NewSigner(key ed25519.PrivateKey, cluster, hubURL string, now func() time.Time) *Signer {
	return &Signer{key: key, cluster: cluster, hub: Audience(hubURL), now: now, made: make(map[string]made)}
}

// Token returns a token that is good for at least half of Lifetime, on the TLS connection with the given Binding; nil: on any.
func (s *Signer) Token(binding []byte) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, bound := s.now(), base64.RawStdEncoding.EncodeToString(binding)
	if m, ok := s.made[bound]; ok && m.young(now) {
		return m.raw, nil
	}
	expiry := now.Add(Lifetime)
	raw, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{jwt.RegisteredClaims{
		Subject:   s.cluster,
		Audience:  jwt.ClaimStrings{s.hub},
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(expiry),
	}, bound}).SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("sign agent token: %w", err)
	}
	maps.DeleteFunc(s.made, func(_ string, m made) bool { return !m.young(now) })
	s.made[bound] = made{raw, expiry}
	return raw, nil
}

// Statement is what a verified token says.
type Statement struct {
	// Cluster is the one that it speaks for.
	Cluster string
	// Until is when it stops being good, the clocks' difference included.
	Until   time.Time
	binding string
}

// On returns ErrElsewhere unless the token is good on the given TLS connection; nil: one without TLS.
func (s Statement) On(state *tls.ConnectionState) error {
	if s.binding != "" && s.binding != base64.RawStdEncoding.EncodeToString(Binding(state)) {
		return ErrElsewhere
	}
	return nil
}

// Verify returns what raw states, or a *Refusal. Whether it is good on the connection on which it was shown, Statement.On says.
// keyOf gives a cluster's public key, or nil when it has none.
func Verify(raw, hubURL string, now time.Time, keyOf func(cluster string) ed25519.PublicKey) (Statement, error) {
	if len(raw) > MaxBytes {
		return Statement{}, &Refusal{Reason: Malformed}
	}
	var said claims
	_, err := jwt.ParseWithClaims(raw, &said, func(*jwt.Token) (any, error) {
		if key := keyOf(said.Subject); key != nil {
			return key, nil
		}
		return nil, ErrInvalid
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(Audience(hubURL)),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(Leeway), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil {
		return Statement{}, refusal(err, said.Subject)
	}
	if said.IssuedAt == nil || said.ExpiresAt.Sub(said.IssuedAt.Time) > Lifetime {
		return Statement{}, &Refusal{Malformed, said.Subject}
	}
	return Statement{Cluster: said.Subject, Until: said.ExpiresAt.Add(Leeway), binding: said.Binding}, nil
}

// Audience is a hub's URL in the form that tokens name it by.
func Audience(hubURL string) string { return strings.TrimRight(strings.ToLower(hubURL), "/") }
