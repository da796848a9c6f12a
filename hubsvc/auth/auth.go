// Package auth owns the authentication of requests to the hub.
//
// It knows no routes. An agent is the cluster whose key signed its token. A person is the user whose token's hash stands in
// the fleet, or, as operator, whoever holds the hub's own token. Somebody whom an identity provider of the fleet knows, and a
// program that has a token from elsewhere, exchange that for a session of some hours or minutes, which the hub signs and keeps nothing
// of. For the API of a single cluster each may be given a token that lasts some minutes. What is asked for is not looked at here: the
// rooms behind decide what a cluster or a person may have.
package auth

import (
	"errors"
	"net/http"
	"strings"
)

// ErrUnauthenticated says that a request carries no credential that is good here.
var ErrUnauthenticated = errors.New("not logged in")

// maxBearer bounds the token of a person: a session, or one for a cluster, which holds the session.
const maxBearer = MaxSessionBytes + 1<<10

// bearer is the token that a request carries, of at most so many bytes.
func bearer(r *http.Request, most int) (string, bool) {
	scheme, raw, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return raw, ok && strings.EqualFold(scheme, "Bearer") && len(raw) <= most
}
