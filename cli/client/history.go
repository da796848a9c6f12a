package client

import (
	"context"
	"net/url"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

// History is one page of the commits that made the fleet what it is, the newest first.
func (c *Client) History(ctx context.Context, q paging.Query) (*v1.List[v1.Revision], error) {
	return get[v1.List[v1.Revision]](ctx, c, "/v1/history", q.Values())
}

// ServiceHistory is History of what one service is made of.
func (c *Client) ServiceHistory(ctx context.Context, service string, q paging.Query) (*v1.List[v1.Revision], error) {
	return get[v1.List[v1.Revision]](ctx, c, "/v1/services/"+url.PathEscape(service)+"/history", q.Values())
}

// Revision is one commit of the history, by its id, with what became of it.
func (c *Client) Revision(ctx context.Context, commit string) (*v1.Revision, error) {
	return get[v1.Revision](ctx, c, "/v1/history/"+url.PathEscape(commit), nil)
}
