// Package idtoken owns the keys with which the hub signs ID tokens for applications.
//
// It knows neither who logs in nor where the keys lie. They are kept in one sealed file of the installation repo, each under the time
// from when it signs, so that every replica has the same and a hub that is built anew is believed as before. A new key is shown to
// applications for an hour before it signs, and the one before goes on to be shown until the next.
package idtoken

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// Shown is how long a new key is shown before it signs: applications keep what they have read for some minutes, and replicas take
	// up a commit one after the other.
	Shown = time.Hour
	// nameLayout is how a key is called in the file: the time from when it signs, in UTC.
	nameLayout = "20060102T150405Z"
	keyBits    = 2048
	maxBits    = 8192
	// maxKeys bounds the keys of a file.
	maxKeys = 8
)

// Algorithm signs ID tokens. Each relying party has to know it (OpenID Connect Core 1.0, section 15.1).
const Algorithm = jose.RS256

// Keys are what a hub signs ID tokens with, by the time from when each does. Nil: none. They do not change, and print as
// "[redacted]".
type Keys struct{ keys []key }

type key struct {
	id      string
	from    time.Time
	private *rsa.PrivateKey
}

// String hides the keys.
func (*Keys) String() string { return "[redacted]" }

// GoString is String.
func (*Keys) GoString() string { return "[redacted]" }

// Parse reads the keys of an opened file: PEM by name. No error repeats one.
func Parse(file map[string]string) (*Keys, error) {
	if len(file) == 0 || len(file) > maxKeys {
		return nil, fmt.Errorf("it holds %d keys in place of 1 to %d", len(file), maxKeys)
	}
	var all Keys
	for _, name := range slices.Sorted(maps.Keys(file)) { // which is the order of time
		from, err := time.Parse(nameLayout, name)
		if err != nil || from.Format(nameLayout) != name { // a fraction of a second is taken, too
			return nil, errors.New("a key in it is not named by the time from when it signs")
		}
		private, err := parsePEM(file[name])
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		thumbprint, err := (&jose.JSONWebKey{Key: private.Public()}).Thumbprint(crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", name, err)
		}
		all.keys = append(all.keys, key{base64.RawURLEncoding.EncodeToString(thumbprint[:12]), from, private})
	}
	return &all, nil
}

func parsePEM(text string) (*rsa.PrivateKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(rest) > 0 && string(rest) != "\n" {
		return nil, errors.New("it is no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is no PKCS #8 private key")
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok || private.N.BitLen() < keyBits || private.N.BitLen() > maxBits {
		return nil, fmt.Errorf("it is no RSA key of %d to %d bits", keyBits, maxBits)
	}
	return private, nil
}

// Newest is the time from when the newest key signs.
func (k *Keys) Newest() time.Time { return k.keys[len(k.keys)-1].from }

// signing is the key that signs now: the newest whose time has come.
func (k *Keys) signing(now time.Time) *key {
	at := 0
	for i := range k.keys {
		if !k.keys[i].from.After(now) {
			at = i
		}
	}
	return &k.keys[at]
}

// Sign is claims as a signed token.
func (k *Keys) Sign(claims map[string]any, now time.Time) (string, error) {
	by := k.signing(now)
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims(claims))
	token.Header["kid"] = by.id
	signed, err := token.SignedString(by.private)
	if err != nil {
		return "", fmt.Errorf("sign an ID token: %w", err)
	}
	return signed, nil
}

// Subject is of whom, and for which application, one of our tokens is, although it may have expired: whoever logs out shows an old one.
func (k *Keys) Subject(raw, issuer string) (subject, application string, err error) {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation(),
	)
	var claims jwt.RegisteredClaims
	_, err = parser.ParseWithClaims(raw, &claims, func(t *jwt.Token) (any, error) {
		id, _ := t.Header["kid"].(string)
		for i := range k.keys {
			if k.keys[i].id == id {
				return k.keys[i].private.Public(), nil
			}
		}
		return nil, errors.New("no key of the hub's has this ID")
	})
	if err != nil {
		return "", "", fmt.Errorf("verify an ID token: %w", err)
	}
	if claims.Issuer != issuer || len(claims.Audience) != 1 {
		return "", "", errors.New("verify an ID token: it is not one of the hub's")
	}
	return claims.Subject, claims.Audience[0], nil
}

// Set is the public halves, as a JSON Web Key Set.
func (k *Keys) Set() ([]byte, error) {
	var set jose.JSONWebKeySet
	for i := range k.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{
			Key: k.keys[i].private.Public(), KeyID: k.keys[i].id, Algorithm: string(Algorithm), Use: "sig",
		})
	}
	return json.Marshal(set)
}

// TooSoonError says that the newest key does not sign yet: another one after it would only be in its way.
type TooSoonError struct{ Until time.Time }

func (e *TooSoonError) Error() string {
	return "the newest key signs only from " + e.Until.UTC().Format(time.RFC3339)
}

// Rotate is a file with one more key, which signs in an hour, or at once where there is none yet. The keys before the one that signs now
// are dropped. Where one was seen by somebody, none of the old stays, and the new one signs at once.
func Rotate(file map[string]string, now time.Time, seen bool) (map[string]string, error) {
	from, next := now, map[string]string{}
	if len(file) > 0 && !seen {
		old, err := Parse(file)
		if err != nil {
			return nil, err
		}
		if newest := old.Newest(); newest.After(now) {
			return nil, &TooSoonError{Until: newest}
		}
		signs := old.signing(now).from.Format(nameLayout)
		next[signs], from = file[signs], now.Add(Shown)
	}
	private, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	next[from.UTC().Format(nameLayout)] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
	return next, nil
}
