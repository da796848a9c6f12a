package client

import (
	"context"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Me is whom the hub takes this client for.
func (c *Client) Me(ctx context.Context) (*v1.Me, error) {
	return get[v1.Me](ctx, c, "/v1/me", nil)
}
