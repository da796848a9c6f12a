// Package release owns the step from a deployment to objects in a cluster on a person's machine.
package release

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/health"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Options tune how a cluster is worked on. The zero value is usable.
type Options struct {
	// Scripts runs the Lua of health rules; nil: there is none.
	Scripts health.Scripts
}

// Cluster is one cluster that is worked on.
type Cluster struct{ name string }

// Connect connects to no one yet: an unreachable API server shows in the first call.
func Connect(name string, _ *rest.Config, _ Options) (*Cluster, error) {
	return nil, errors.New("connect to cluster " + name + ": not built")
}

// Close ends the cluster's watches.
func (c *Cluster) Close() {}

// Outcome is what became of a deployment.
type Outcome struct{}

// Leftovers are what a removal left in a cluster.
type Leftovers struct{}

// Apply makes a deployment live, and waits until it is healthy or ctx ends.
func (c *Cluster) Apply(_ context.Context, _ *resolve.Deployment, _ *preview.Renderer, _ func(text string)) (*Outcome, error) {
	return nil, errors.New("apply to cluster " + c.name + ": not built")
}

// Remove takes a service out of the cluster.
func (c *Cluster) Remove(_ context.Context, _, _ string, _ func(string)) (*Leftovers, error) {
	return nil, errors.New("remove from cluster " + c.name + ": not built")
}
