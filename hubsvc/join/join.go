// Package join owns the hub's side of a cluster's joining by a token.
//
// It refuses to know git and who may look at the fleet: the token is the only credential, and what is committed is somebody
// else's work.
package join

import (
	"context"
	"net/http"

	"github.com/pluralsh/plural/api"
)

// Options are what a Door needs.
type Options struct {
	// Commit registers the keys for as long as the token is good at the tip of the installation repo.
	Commit func(ctx context.Context, r api.JoinRequest) error
}

// Door lets clusters in that show a join token.
type Door struct{ Options }

// New is a door.
func New(o Options) *Door { return &Door{o} }

// Routes adds its paths to mux.
func (d *Door) Routes(*http.ServeMux) {}
