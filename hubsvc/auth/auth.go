// Package auth owns the answer to "who is asking?".
//
// It knows no routes. An agent is the cluster whose key signed its token; a person is whoever holds the hub's token.
// What is asked for is not looked at here: the rooms behind decide what a cluster or a person may have.
package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/pluralsh/plural/api/token"
)

// ErrUnauthenticated says that a request carries no credential that is good here.
var ErrUnauthenticated = errors.New("not logged in")

// bearer is the token that a request carries.
func bearer(r *http.Request) (string, bool) {
	scheme, raw, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return raw, ok && strings.EqualFold(scheme, "Bearer") && len(raw) <= token.MaxBytes
}
