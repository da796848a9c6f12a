package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

// Pages of lists, as a query asks for them.

// DeploymentsPage is one page of services on clusters, by cluster unless it is sorted otherwise.
func (c *Client) DeploymentsPage(ctx context.Context, q paging.Query) (*v1.List[v1.Deployment], error) {
	return get[v1.List[v1.Deployment]](ctx, c, "/v1/deployments", q.Values())
}

// ClustersPage is one page of clusters.
func (c *Client) ClustersPage(ctx context.Context, q paging.Query) (*v1.List[v1.Cluster], error) {
	return get[v1.List[v1.Cluster]](ctx, c, "/v1/clusters", q.Values())
}

// ServicesPage is one page of services.
func (c *Client) ServicesPage(ctx context.Context, q paging.Query) (*v1.List[v1.Service], error) {
	return get[v1.List[v1.Service]](ctx, c, "/v1/services", q.Values())
}

// SourcesPage is one page of sources.
func (c *Client) SourcesPage(ctx context.Context, q paging.Query) (*v1.List[v1.Source], error) {
	return get[v1.List[v1.Source]](ctx, c, "/v1/sources", q.Values())
}

// EventsPage is one page of what happened lately, the newest first.
func (c *Client) EventsPage(ctx context.Context, q paging.Query) (*v1.List[v1.Event], error) {
	return get[v1.List[v1.Event]](ctx, c, "/v1/events", q.Values())
}

// All goes through the items of a list from the page that the query asks for: page is one of the methods above. An error ends it.
func All[T any](ctx context.Context, page func(context.Context, paging.Query) (*v1.List[T], error), q paging.Query) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			list, err := page(ctx, q)
			if err != nil {
				yield(*new(T), err)
				return
			}
			for _, item := range list.Items {
				if !yield(item, nil) {
					return
				}
			}
			if q.Continue = list.Next; list.Next == "" {
				return
			}
		}
	}
}

// Summary is the fleet in figures.
func (c *Client) Summary(ctx context.Context) (*v1.Summary, error) {
	return get[v1.Summary](ctx, c, "/v1/summary", nil)
}

// Deployment is one service on one cluster, with all that is known of it.
func (c *Client) Deployment(ctx context.Context, cluster, service string) (*v1.Deployment, error) {
	return get[v1.Deployment](ctx, c, "/v1/deployments/"+url.PathEscape(cluster)+"/"+url.PathEscape(service), nil)
}

// SyncCluster asks a cluster's agent for a pass over services, or over all.
func (c *Client) SyncCluster(ctx context.Context, name string, services []string) (*v1.Synced, error) {
	return post[v1.Synced](ctx, c, "/v1/clusters/"+url.PathEscape(name)+"/sync", v1.SyncRequest{Services: services})
}

// Edit has the hub commit a change to a service: action is suspend, resume or ack.
func (c *Client) Edit(ctx context.Context, service, action string, how v1.EditRequest) (*v1.Edited, error) {
	return post[v1.Edited](ctx, c, "/v1/services/"+url.PathEscape(service)+"/"+action, how)
}

// complete adds what an answer had no room for: rows of which less is told.
func (c *Client) complete(ctx context.Context, rows []v1.Deployment, key, name string) ([]v1.Deployment, error) {
	known := make(map[[2]string]bool, len(rows))
	for i := range rows {
		known[[2]string{rows[i].Cluster, rows[i].Service}] = true
	}
	q := paging.Query{Filter: key + ":" + strconv.Quote(name), Limit: paging.MaxLimit}
	for row, err := range All(ctx, c.DeploymentsPage, q) {
		if err != nil {
			return nil, err
		}
		if !known[[2]string{row.Cluster, row.Service}] {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b v1.Deployment) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Service, b.Service))
	})
	return rows, nil
}

// refusedFor says that the hub understood a request, and will not do it however often it is asked.
func refusedFor(status int) bool {
	return status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}
