package auth

import (
	"context"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// oneKey is a ring with one key, which has the ID "one".
type oneKey []byte

func (k oneKey) Current(context.Context) (string, []byte, error) { return "one", k, nil }

func (k oneKey) Find(_ context.Context, id string) ([]byte, bool, error) { return k, id == "one", nil }

// U9: a token with the right signature, and claims that the hub never makes, as by a mistake in another release of it.
func TestClaimsOfATokenForAClusterAreHeldToTheirBounds(t *testing.T) {
	now := time.Now()
	key := oneKey("a key of the hub")
	k := newKubeTokens(key, func() time.Time { return now })
	tests := map[string]struct {
		change func(*kubeClaims)
		want   bool
	}{
		"as made":            {func(*kubeClaims) {}, true},
		"no expiry":          {func(c *kubeClaims) { c.ExpiresAt = nil }, false},
		"expiry far away":    {func(c *kubeClaims) { c.ExpiresAt = jwt.NewNumericDate(now.Add(time.Hour)) }, false},
		"expired":            {func(c *kubeClaims) { c.ExpiresAt = jwt.NewNumericDate(now.Add(-time.Minute)) }, false},
		"made in the future": {func(c *kubeClaims) { c.IssuedAt = jwt.NewNumericDate(now.Add(time.Hour)) }, false},
		"made at no time":    {func(c *kubeClaims) { c.IssuedAt = nil }, false},
		"not yet good":       {func(c *kubeClaims) { c.NotBefore = jwt.NewNumericDate(now.Add(time.Hour)) }, false},
		"another issuer":     {func(c *kubeClaims) { c.Issuer = "somebody" }, false},
		"no audience":        {func(c *kubeClaims) { c.Audience = nil }, false},
		"two audiences":      {func(c *kubeClaims) { c.Audience = append(c.Audience, "kubernetes/edge-2") }, false},
		"no parent":          {func(c *kubeClaims) { c.Parent = "" }, false},
	}
	for name, test := range tests {
		claims := kubeClaims{Parent: "hub", RegisteredClaims: jwt.RegisteredClaims{
			Issuer: kubeIssuer, Subject: operator, Audience: jwt.ClaimStrings{kubeAudience + "edge-1"},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(KubeLifetime)),
		}}
		test.change(&claims)
		unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, claims)
		unsigned.Header["kid"] = "one"
		raw, err := unsigned.SignedString([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.verify(t.Context(), raw, "edge-1"); (err == nil) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
