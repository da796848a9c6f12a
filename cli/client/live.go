package client

import (
	"context"
	"net/url"
	"strconv"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

// ServiceObjects are a service's objects on a cluster, with all that hangs below them.
func (c *Client) ServiceObjects(ctx context.Context, cluster, service string) (*v1.List[v1.Object], error) {
	return list[v1.Object](ctx, c, servicePath(cluster, service)+"/objects")
}

// ServiceEvents are what Kubernetes says happened to them.
func (c *Client) ServiceEvents(ctx context.Context, cluster, service string) (*v1.List[v1.ObjectEvent], error) {
	return list[v1.ObjectEvent](ctx, c, servicePath(cluster, service)+"/events")
}

// Connections are those that a cluster's agents keep open to the hub.
func (c *Client) Connections(ctx context.Context, cluster string) (*v1.List[v1.Connection], error) {
	return list[v1.Connection](ctx, c, "/v1/clusters/"+url.PathEscape(cluster)+"/connections")
}

// ClusterEvents are what the hub saw happen on a cluster lately, the newest first, and no more of it than a page.
func (c *Client) ClusterEvents(ctx context.Context, cluster string) (*v1.List[v1.Event], error) {
	return c.EventsPage(ctx, paging.Query{Filter: "cluster:" + strconv.Quote(cluster)})
}

func servicePath(cluster, service string) string {
	return "/v1/clusters/" + url.PathEscape(cluster) + "/services/" + url.PathEscape(service)
}
