package client

import (
	"context"
	"errors"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Diff is what applying a service's newest deployment would change in a cluster now.
func (c *Client) Diff(ctx context.Context, cluster, service string) (*v1.Diff, error) {
	return get[v1.Diff](ctx, c, servicePath(cluster, service)+"/diff", nil)
}

// Watching is what is told to who watches a service's objects.
type Watching struct {
	// Fresh says that what was told before is to be forgotten: all that there is comes anew.
	Fresh func() error
	// Changed is told what is new, Ready that all that there was when the stream began has been told.
	Changed func(v1.ObjectChanges) error
	Ready   func() error
	// Connected, if set, is told each time that the stream is there, with nil, or broken, with why.
	Connected func(error)
}

// WatchObjects follows a service's objects on a cluster until ctx ends or one of w's functions returns an error, which it returns.
func (c *Client) WatchObjects(ctx context.Context, cluster, service string, w Watching) error {
	return errors.New("not there yet")
}

// LiveObject is one live object of a cluster as its API server has it, JSON. The token is one for that cluster.
func (c *Client) LiveObject(ctx context.Context, cluster string, token v1.KubeToken, at v1.ObjectRef) ([]byte, error) {
	return nil, errors.New("not there yet")
}
