package client

import (
	"context"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Restart has the pods of a service made anew on a cluster, a few at a time.
func (c *Client) Restart(ctx context.Context, cluster, service string) (*v1.Acted, error) {
	return post[v1.Acted](ctx, c, servicePath(cluster, service)+"/restart", struct{}{})
}
