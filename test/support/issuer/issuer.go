// Package issuer owns an issuer whose tokens tests sign as they like: with the claims of GitHub or GitLab, or forged.
package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
)

// Issuer is a server with a discovery document and keys. It ends with its test.
type Issuer struct {
	testing.TB
	URL string
	// Requests counts those for keys.
	Requests atomic.Int64

	mu     sync.Mutex // guards what follows
	keys   []jose.JSONWebKey
	answer func(w http.ResponseWriter) bool
}

// Start is an issuer with one key, which is named "one".
func Start(t testing.TB) *Issuer {
	t.Helper()
	return StartAt(t, "")
}

// StartAt is Start, for an issuer whose URL has a path.
func StartAt(t testing.TB, path string) *Issuer {
	t.Helper()
	i := &Issuer{TB: t}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path+"/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.reply(w, map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys", "id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	mux.HandleFunc("GET "+path+"/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Requests.Add(1)
		i.mu.Lock()
		set, answer := jose.JSONWebKeySet{}, i.answer
		for _, key := range i.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		i.mu.Unlock()
		if answer != nil && answer(w) {
			return
		}
		i.reply(w, set)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL + path
	i.Rotate("one")
	return i
}

func (i *Issuer) reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		i.Error(err)
	}
}

// Rotate has the issuer sign with a new key of that name, and no other.
func (i *Issuer) Rotate(name string) {
	i.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = []jose.JSONWebKey{{Key: key, KeyID: name, Algorithm: string(jose.ES256), Use: "sig"}}
}

// Answers has requests for keys answered by f where it says so; nil: as they should be.
func (i *Issuer) Answers(f func(w http.ResponseWriter) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = f
}

// Key is the one that signs.
func (i *Issuer) Key() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[0]
}

// KeySet is what it answers when it is asked for its keys.
func (i *Issuer) KeySet() []byte {
	key := i.Key()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	if err != nil {
		i.Fatal(err)
	}
	return text
}

// Public is its public half.
func (i *Issuer) Public() crypto.PublicKey {
	key := i.Key()
	return key.Public().Key
}

// Claims are those of a good token about somebody for an audience, made at a time and good for five minutes, with more, which replaces
// them; nil takes one away.
func (i *Issuer) Claims(subject, audience string, now time.Time, more map[string]any) map[string]any {
	claims := map[string]any{
		"iss": i.URL, "sub": subject, "aud": audience, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	for name, value := range more {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// Token is a token with claims, signed with the issuer's key.
func (i *Issuer) Token(claims map[string]any) string {
	i.Helper()
	return i.Signed(jose.SigningKey{Algorithm: jose.ES256, Key: i.Key()}, claims)
}

// Signed is a token with claims, signed with any key.
func (i *Issuer) Signed(with jose.SigningKey, claims map[string]any) string {
	i.Helper()
	signer, err := jose.NewSigner(with, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		i.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		i.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		i.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		i.Fatal(err)
	}
	return raw
}
