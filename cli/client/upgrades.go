package client

import (
	"context"

	v1 "github.com/pluralsh/plural/api/v1"
)

// Upgrades are all installations of packages, with where they stand and what they wait for, by name.
func (c *Client) Upgrades(ctx context.Context) (*v1.List[v1.Upgrade], error) {
	return list[v1.Upgrade](ctx, c, "/v1/upgrades")
}
