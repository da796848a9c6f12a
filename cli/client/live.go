package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/paging"
)

// ServiceObjects are a service's objects on a cluster, with all that hangs below them.
func (c *Client) ServiceObjects(ctx context.Context, cluster, service string) (*v1.List[v1.Object], error) {
	return list[v1.Object](ctx, c, servicePath(cluster, service)+"/objects")
}

// HiddenPods is why the person sees no pods of a service's objects on a cluster: they may not list those that there are below a
// workload. It is nil where they may, and where this cannot be found out.
func (c *Client) HiddenPods(ctx context.Context, cluster string, objects []v1.Object) error {
	seen := map[string]bool{} // namespaces in which pods are shown, or were asked about
	for i := range objects {
		if o := &objects[i]; o.Group == "" && o.Kind == "Pod" {
			seen[o.Namespace] = true
		}
	}
	for i := range objects {
		o := &objects[i]
		if seen[o.Namespace] || !slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"}, o.Kind) {
			continue
		}
		seen[o.Namespace] = true
		query := url.Values{"resource": {"pods"}, "namespace": {o.Namespace}, "limit": {"1"}}
		_, err := get[v1.List[v1.Object]](ctx, c, "/v1/clusters/"+url.PathEscape(cluster)+"/objects", query)
		var refused *Error
		if errors.As(err, &refused) && refused.Status == http.StatusForbidden {
			return err
		}
	}
	return nil
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
