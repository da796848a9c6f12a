// Package token owns the agent's credential: a short-lived statement, signed with the key whose public half stands in
// the cluster's file in git, that says which cluster asks which hub.
//
// It knows no transport. An agent signs with Signer; a hub verifies with Verify, giving it the public keys that the
// desired state names now, so that removing a cluster's file revokes its agent at the next request.
package token

import (
	"crypto/ed25519"
	"errors"
	"fmt"
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

// Signer makes tokens for one cluster and one hub; it is safe for concurrent use.
type Signer struct {
	key           ed25519.PrivateKey
	cluster, hub  string
	now           func() time.Time
	mu            sync.Mutex // guards the two below
	current       string
	currentExpiry time.Time
}

// NewSigner returns a Signer for the named cluster at the hub with the given URL.
func NewSigner(key ed25519.PrivateKey, cluster, hubURL string, now func() time.Time) *Signer {
	return &Signer{key: key, cluster: cluster, hub: Audience(hubURL), now: now}
}

// Token returns a token that is good for at least half of Lifetime.
func (s *Signer) Token() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.current != "" && now.Add(Lifetime/2).Before(s.currentExpiry) {
		return s.current, nil
	}
	expiry := now.Add(Lifetime)
	raw, err := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.RegisteredClaims{
		Subject:   s.cluster,
		Audience:  jwt.ClaimStrings{s.hub},
		IssuedAt:  jwt.NewNumericDate(now),
		ExpiresAt: jwt.NewNumericDate(expiry),
	}).SignedString(s.key)
	if err != nil {
		return "", fmt.Errorf("sign agent token: %w", err)
	}
	s.current, s.currentExpiry = raw, expiry
	return raw, nil
}

// Verify returns the cluster that raw speaks for. keyOf gives a cluster's public key, or nil when it has none.
func Verify(raw, hubURL string, now time.Time, keyOf func(cluster string) ed25519.PublicKey) (string, error) {
	if len(raw) > MaxBytes {
		return "", ErrInvalid
	}
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(raw, &claims, func(*jwt.Token) (any, error) {
		if key := keyOf(claims.Subject); key != nil {
			return key, nil
		}
		return nil, ErrInvalid
	},
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithAudience(Audience(hubURL)),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(Leeway), jwt.WithTimeFunc(func() time.Time { return now }))
	if err != nil || claims.IssuedAt == nil || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > Lifetime {
		return "", ErrInvalid
	}
	return claims.Subject, nil
}

// Audience is a hub's URL in the form that tokens name it by.
func Audience(hubURL string) string { return strings.TrimRight(strings.ToLower(hubURL), "/") }
