package auth

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/http"
	"time"

	"github.com/pluralsh/plural/api/token"
)

// Agents tells clusters from their requests. It is safe for concurrent use.
type Agents struct {
	hubURL   func() string
	key      func(cluster string) ed25519.PublicKey
	now      func() time.Time
	verified memory
}

// NewAgents returns Agents. Tokens must be meant for hubURL, which may change with the workspace; key is the public key of
// a cluster's agent as the desired state has it now, or nil.
func NewAgents(hubURL func() string, key func(cluster string) ed25519.PublicKey, now func() time.Time) *Agents {
	return &Agents{hubURL: hubURL, key: key, now: now}
}

// Cluster returns the cluster whose agent sent r, or ErrUnauthenticated, with a *token.Refusal where a token was shown; or
// token.ErrElsewhere, when a token was shown on another TLS connection than the one it is bound to. Checking a signature costs ten
// times the rest of a poll, and an agent sends one token again and again; so what was verified is remembered for as long as
// nothing that it was verified against has changed.
func (a *Agents) Cluster(r *http.Request) (string, error) {
	raw, ok := bearer(r, token.MaxBytes)
	if !ok {
		return "", ErrUnauthenticated
	}
	hub, now, sum := a.hubURL(), a.now(), sha256.Sum256([]byte(raw))
	known, ok := a.verified.find(sum)
	if !ok || !known.holds(hub, now, a.key(known.Cluster)) {
		var err error
		if known, err = verify(raw, hub, now, a.key); err != nil {
			return "", fmt.Errorf("%w: %w", ErrUnauthenticated, err)
		}
		a.verified.keep(sum, known)
	}
	if err := known.On(r.TLS); err != nil {
		return "", err
	}
	return known.Cluster, nil
}

// statement is that of a verified token, with all that it was verified against. It is good from when it was verified.
type statement struct {
	token.Statement
	hub  string
	key  ed25519.PublicKey
	from time.Time
}

// holds says whether verifying again would give the same answer. A nil key is that of a cluster that was revoked.
func (s statement) holds(hub string, now time.Time, key ed25519.PublicKey) bool {
	return key != nil && s.key.Equal(key) && s.hub == hub && !now.Before(s.from) && now.Before(s.Until)
}

func verify(raw, hub string, now time.Time, keyOf func(string) ed25519.PublicKey) (statement, error) {
	var used ed25519.PublicKey
	said, err := token.Verify(raw, hub, now, func(cluster string) ed25519.PublicKey {
		used = keyOf(cluster)
		return used
	})
	return statement{said, hub, used, now}, err
}
