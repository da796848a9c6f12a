package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// operatorPrefix begins every token of the hub's own that says when it expires: it is followed by that time, in Unix seconds, "_" and
// the secret. The hub knows the text as a whole, so nobody can change the time.
const operatorPrefix = TokenPrefix + "operator_"

const (
	// OperatorLifetime is how long a token of the hub's own is good, where nobody says otherwise.
	OperatorLifetime = 90 * 24 * time.Hour
	// OperatorRenewal is how long before its end it is renewed, and warned of.
	OperatorRenewal = 30 * 24 * time.Hour
)

// NewOperatorToken makes a token of the hub's own, of 256 random bits, that is good until expires.
func NewOperatorToken(expires time.Time) string {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return operatorPrefix + strconv.FormatInt(expires.Unix(), 10) + "_" + base64.RawURLEncoding.EncodeToString(secret)
}

// OperatorExpiry is when a token of the hub's own expires. False: it does not say, as those of earlier releases and those that
// somebody made up.
func OperatorExpiry(token string) (expires time.Time, ok bool) {
	rest, ok := strings.CutPrefix(token, operatorPrefix)
	if !ok {
		return time.Time{}, false
	}
	text, _, ok := strings.Cut(rest, "_")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0), true
}

// OperatorDue says whether a token of the hub's own is to be renewed: it expires soon, or does not say when.
func OperatorDue(token string, now time.Time) bool {
	expires, ok := OperatorExpiry(token)
	return !ok || !now.Before(expires.Add(-OperatorRenewal))
}
