package token_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/api/token"
)

const hub = "https://hub.example.com"

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func newKey(t *testing.T) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func keysOf(keys map[string]ed25519.PublicKey) func(string) ed25519.PublicKey {
	return func(cluster string) ed25519.PublicKey { return keys[cluster] }
}

func TestVerifyNamesTheClusterThatSigned(t *testing.T) {
	public, private := newKey(t)
	raw, err := token.NewSigner(private, "edge-1", hub+"/", func() time.Time { return now }).Token(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := token.Verify(raw, "https://HUB.example.com", now, keysOf(map[string]ed25519.PublicKey{"edge-1": public}))
	if err != nil || got.Cluster != "edge-1" {
		t.Fatalf("Verify = %+v, %v", got, err)
	}
}

func TestSignerReusesATokenUntilHalfOfItsLifetime(t *testing.T) {
	_, private := newKey(t)
	clock := now
	signer := token.NewSigner(private, "edge-1", hub, func() time.Time { return clock })
	first, _ := signer.Token(nil)
	clock = now.Add(token.Lifetime/2 - time.Second)
	if again, _ := signer.Token(nil); again != first {
		t.Error("a fresh token was made while the old one was young")
	}
	clock = now.Add(token.Lifetime/2 + time.Second)
	if again, _ := signer.Token(nil); again == first {
		t.Error("an old token was handed out")
	}
}

func TestTokensOfConnectionsAreKeptApart(t *testing.T) {
	_, private := newKey(t)
	clock := now
	signer := token.NewSigner(private, "edge-1", hub, func() time.Time { return clock })
	one, _ := signer.Token([]byte("one"))
	two, _ := signer.Token([]byte("two"))
	if again, _ := signer.Token([]byte("one")); one == two || again != one {
		t.Error("a connection is given the token of another, or not its own")
	}
}

func TestABoundTokenIsNotGoodWithoutTLS(t *testing.T) {
	public, private := newKey(t)
	signer := token.NewSigner(private, "edge-1", hub, func() time.Time { return now })
	for _, test := range []struct {
		binding []byte
		want    error
	}{{nil, nil}, {[]byte("one"), token.ErrElsewhere}} {
		raw, _ := signer.Token(test.binding)
		said, err := token.Verify(raw, hub, now, keysOf(map[string]ed25519.PublicKey{"edge-1": public}))
		if err != nil {
			t.Fatal(err)
		}
		if err := said.On(nil); !errors.Is(err, test.want) {
			t.Errorf("bound to %q: %v", test.binding, err)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	public, private := newKey(t)
	otherPublic, otherPrivate := newKey(t)
	keys := keysOf(map[string]ed25519.PublicKey{"edge-1": public, "edge-2": otherPublic})
	sign := func(key ed25519.PrivateKey, cluster, hubURL string) string {
		raw, err := token.NewSigner(key, cluster, hubURL, func() time.Time { return now }).Token(nil)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	claims := func(change func(*jwt.RegisteredClaims)) jwt.RegisteredClaims {
		c := jwt.RegisteredClaims{
			Subject: "edge-1", Audience: jwt.ClaimStrings{hub},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(token.Lifetime)),
		}
		change(&c)
		return c
	}
	signed := func(method jwt.SigningMethod, key any, c jwt.RegisteredClaims) string {
		raw, err := jwt.NewWithClaims(method, c).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	good := sign(private, "edge-1", hub)
	tests := map[string]struct {
		raw string
		at  time.Time
	}{
		"another cluster's key": {sign(otherPrivate, "edge-1", hub), now},
		"a cluster not in git":  {sign(private, "edge-9", hub), now},
		"another hub":           {sign(private, "edge-1", "https://evil.example.com"), now},
		"expired":               {good, now.Add(token.Lifetime + token.Leeway + time.Second)},
		"issued in the future":  {good, now.Add(-token.Leeway - time.Second)},
		"year 9999": {signed(jwt.SigningMethodEdDSA, private, claims(func(c *jwt.RegisteredClaims) {
			c.ExpiresAt = jwt.NewNumericDate(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
		})), now},
		"no expiry":              {signed(jwt.SigningMethodEdDSA, private, claims(func(c *jwt.RegisteredClaims) { c.ExpiresAt = nil })), now},
		"no time of issue":       {signed(jwt.SigningMethodEdDSA, private, claims(func(c *jwt.RegisteredClaims) { c.IssuedAt = nil })), now},
		"algorithm none":         {signed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(func(*jwt.RegisteredClaims) {})), now},
		"the public key as HMAC": {signed(jwt.SigningMethodHS256, []byte(public), claims(func(*jwt.RegisteredClaims) {})), now},
		"empty":                  {"", now},
		"many dots":              {strings.Repeat(".", token.MaxBytes), now},
		"one megabyte":           {strings.Repeat("a", 1<<20), now},
		"a changed subject":      {tamper(t, good), now},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if cluster, err := token.Verify(test.raw, hub, test.at, keys); err == nil {
				t.Errorf("Verify = %+v, want an error", cluster)
			}
		})
	}
}

func tamper(t *testing.T, raw string) string {
	t.Helper()
	parts := strings.Split(raw, ".")
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(payload), "edge-1", "edge-2", 1)))
	return strings.Join(parts, ".")
}

func FuzzVerify(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJzdWIiOiJlZGdlLTEifQ.")
	f.Fuzz(func(t *testing.T, raw string) {
		public, _, _ := ed25519.GenerateKey(nil)
		if _, err := token.Verify(raw, hub, now, func(string) ed25519.PublicKey { return public }); err == nil {
			t.Fatalf("a token nobody signed was accepted: %q", raw)
		}
	})
}
