package auth

import (
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/internal/person"
)

const (
	// KubeLifetime is the longest that a token for a cluster's API is good for.
	KubeLifetime = 10 * time.Minute
	// kubeLeeway is how far the clocks of two replicas may disagree.
	kubeLeeway = 30 * time.Second
	// kubeIssuer and kubeAudience tell these tokens from any others that were signed with the same key.
	kubeIssuer   = "plural-hub"
	kubeAudience = "kubernetes/"
)

// kubeTokens signs and verifies tokens for single clusters. Its key is made of the hub's own token, so all replicas have the
// same, and a new hub's token ends them all.
type kubeTokens struct {
	key    []byte
	now    func() time.Time
	parser *jwt.Parser
}

func newKubeTokens(secret string, now func() time.Time) (kubeTokens, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "plural kubernetes token v1", sha256.Size)
	if err != nil {
		return kubeTokens{}, fmt.Errorf("derive key of cluster tokens: %w", err)
	}
	return kubeTokens{key: key, now: now, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(kubeIssuer), jwt.WithIssuedAt(), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(now), jwt.WithLeeway(kubeLeeway), jwt.WithStrictDecoding(),
	)}, nil
}

// kubeClaims say that whoever holds the token has shown the parent credential to the hub.
type kubeClaims struct {
	jwt.RegisteredClaims
	Parent string `json:"par"`
}

// Issue makes a token with which p, who was found by Person, may ask for the API of one cluster. It is good for ttl, at most
// KubeLifetime, and never longer than what p has shown.
func (p *People) Issue(of person.Person, cluster string, ttl time.Duration) (token string, expires time.Time, err error) {
	of, err = p.Current(of)
	if err != nil {
		return "", time.Time{}, err
	}
	now := p.now()
	expires = now.Add(min(ttl, KubeLifetime))
	if !of.Expires.IsZero() && of.Expires.Before(expires) {
		expires = of.Expires
	}
	expires = expires.Truncate(time.Second)
	token, err = jwt.NewWithClaims(jwt.SigningMethodHS256, kubeClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: kubeIssuer, Subject: of.Name, Audience: jwt.ClaimStrings{kubeAudience + cluster},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
		},
		Parent: of.Credential,
	}).SignedString(p.kube.key)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign token for cluster %s: %w", cluster, err)
	}
	return token, expires, nil
}

// KubePerson is who sent r to the API of cluster, by any credential that Person takes or by a token of Issue for that cluster.
// With the latter it is whom the credential that was shown for it names now.
func (p *People) KubePerson(r *http.Request, cluster string) (person.Person, error) {
	raw, ok := bearer(r)
	if !ok {
		return person.Person{}, ErrUnauthenticated
	}
	if strings.ContainsAny(raw, "\r\n") { // which base64 reads over
		return person.Person{}, ErrUnauthenticated
	}
	if strings.Count(raw, ".") != 2 {
		return p.Person(r)
	}
	claims, err := p.kube.verify(raw, cluster)
	if err != nil { // a token that the hub was given, or a user's own, may look the same
		return p.Person(r)
	}
	found, err := p.byCredential(claims.Parent)
	if err != nil || found.Name != claims.Subject {
		return person.Person{}, ErrUnauthenticated
	}
	return found, nil
}

// verify trusts nothing that the token says of how it is to be verified.
func (k *kubeTokens) verify(raw, cluster string) (*kubeClaims, error) {
	claims := &kubeClaims{}
	if _, err := k.parser.ParseWithClaims(raw, claims, func(*jwt.Token) (any, error) { return k.key, nil }); err != nil {
		return nil, err
	}
	switch {
	case len(claims.Audience) != 1 || claims.Audience[0] != kubeAudience+cluster:
		return nil, errors.New("token is for another cluster")
	case claims.IssuedAt == nil || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > KubeLifetime:
		return nil, errors.New("token lives too long")
	case claims.Parent == "":
		return nil, errors.New("token without a parent")
	}
	return claims, nil
}
