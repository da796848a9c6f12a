package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/pluralsh/plural/internal/principal"
)

const (
	// KubeLifetime is the longest that a token for a cluster's API is good for.
	KubeLifetime = 10 * time.Minute
	// kubeLeeway is how far the clocks of two replicas may disagree.
	kubeLeeway = 30 * time.Second
	// kubeIssuer and kubeAudience tell these tokens from any others that were signed with the same key.
	kubeIssuer   = "plural-hub"
	kubeAudience = "kubernetes/"
	// clusterTokens is what the tokens are called.
	clusterTokens = "tokens for clusters"
)

// Keys are the hub's own for signing, the same on all of its replicas, and for tokens of one purpose alone.
type Keys interface {
	// Current is the key that signs now, with its ID.
	Current(ctx context.Context) (id string, key []byte, err error)
	// Find is the key of an ID that a token names. An error says that nobody can tell now.
	Find(ctx context.Context, id string) (key []byte, known bool, err error)
}

// KubeValidity is how long after it was made a token for a cluster may still be taken, on any replica.
const KubeValidity = KubeLifetime + kubeLeeway

// kubeTokens signs and verifies tokens for single clusters.
type kubeTokens struct {
	keys   Keys
	parser *jwt.Parser
}

func newKubeTokens(keys Keys, now func() time.Time) kubeTokens {
	return kubeTokens{keys: keys, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithIssuer(kubeIssuer), jwt.WithIssuedAt(), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(now), jwt.WithLeeway(kubeLeeway), jwt.WithStrictDecoding(),
	)}
}

// withoutKeys is the answer while nobody can sign, or tell what was signed.
func withoutKeys(of string, err error) error {
	return &principal.Rejected{
		Message: "the hub cannot reach the keys of " + of + " now",
		Fix:     "try again in a minute; plural logs hub says why", Later: true, Err: err,
	}
}

// signedBy finds the key that a token names, which is one of the hub's for such tokens or none.
func signedBy(ctx context.Context, keys Keys, of string) jwt.Keyfunc {
	return func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		key, known, err := keys.Find(ctx, id)
		switch {
		case err != nil:
			return nil, withoutKeys(of, err)
		case !known:
			return nil, errors.New("no key of the hub's has this ID")
		}
		return key, nil
	}
}

// kubeClaims say that whoever holds the token has shown the parent credential to the hub.
type kubeClaims struct {
	jwt.RegisteredClaims
	Parent string `json:"par"`
	// Session is the parent when it is one.
	Session *principal.Session `json:"ses,omitempty"`
}

// Issue makes a token with which p, who was found by Person, may ask for the API of one cluster. It is good for ttl, at most
// KubeLifetime, and never longer than what p has shown.
func (p *People) Issue(ctx context.Context, of principal.Person, cluster string, ttl time.Duration) (
	token string, expires time.Time, err error,
) {
	of, err = p.Current(of)
	if err != nil {
		return "", time.Time{}, err
	}
	id, key, err := p.kube.keys.Current(ctx)
	if err != nil {
		return "", time.Time{}, withoutKeys(clusterTokens, err)
	}
	now := p.now()
	expires = now.Add(min(ttl, KubeLifetime))
	if !of.Expires.IsZero() && of.Expires.Before(expires) {
		expires = of.Expires
	}
	expires = expires.Truncate(time.Second)
	unsigned := jwt.NewWithClaims(jwt.SigningMethodHS256, kubeClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: kubeIssuer, Subject: of.Name, Audience: jwt.ClaimStrings{kubeAudience + cluster},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(expires),
		},
		Parent: of.Credential, Session: of.Session,
	})
	unsigned.Header["kid"] = id
	token, err = unsigned.SignedString(key)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("sign token for cluster %s: %w", cluster, err)
	}
	return token, expires, nil
}

// KubePerson is who sent r to the API of cluster, by any credential that Person takes or by a token of Issue for that cluster.
// With the latter it is whom the credential that was shown for it names now.
func (p *People) KubePerson(r *http.Request, cluster string) (principal.Person, error) {
	raw, ok := bearer(r, maxBearer)
	if !ok {
		return principal.Person{}, ErrUnauthenticated
	}
	if strings.ContainsAny(raw, "\r\n") { // which base64 reads over
		return principal.Person{}, ErrUnauthenticated
	}
	if strings.Count(raw, ".") != 2 {
		return p.Person(r)
	}
	claims, err := p.kube.verify(r.Context(), raw, cluster)
	if err != nil { // a token that the hub was given, or a user's own, may look the same
		lasting, other := p.Person(r)
		if rejected := new(principal.Rejected); other != nil && errors.As(err, &rejected) {
			return lasting, rejected
		}
		return lasting, other
	}
	return p.still(claims.Parent, claims.Session, claims.Subject)
}

// verify trusts nothing that the token says of how it is to be verified. The key that it names is one of ours or none.
func (k *kubeTokens) verify(ctx context.Context, raw, cluster string) (*kubeClaims, error) {
	claims := &kubeClaims{}
	_, err := k.parser.ParseWithClaims(raw, claims, signedBy(ctx, k.keys, clusterTokens))
	if err != nil {
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
