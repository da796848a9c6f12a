// Package httpstream owns one HTTP request and its response over one gRPC stream.
//
// At the hub a cluster is an http.RoundTripper, at the agent an http.Handler, and this is what lies between. It knows
// neither how streams are opened nor who may send what.
package httpstream

import (
	"context"

	"github.com/pluralsh/plural/api/tunnelapi"
)

// Call is what an exchange carries beside HTTP.
type Call struct {
	// ID names the exchange.
	ID       string
	Identity *tunnelapi.Identity
	Class    tunnelapi.Class
}

type callKey struct{}

// WithCall says for a request what else it carries.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// CallOf is what the request carries beside HTTP.
func CallOf(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(callKey{}).(Call)
	return c, ok
}
