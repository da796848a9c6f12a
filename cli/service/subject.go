package service

import (
	"context"
	"fmt"
	"slices"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
)

// subject is what an agreement is about, and where it is written.
type subject interface {
	// ask is what waits now.
	ask(ctx context.Context, hub *client.Client) (*findings, error)
	// home is the service in whose document the agreement is written, or empty: the workspace's.
	home() string
	// message is that of the commit.
	message() string
}

// ofService are deletions of a service's objects, on some clusters or on all.
type ofService struct {
	name     string
	clusters []string
}

func (s ofService) home() string { return s.name }

func (s ofService) message() string { return "Agree to deletions of " + s.name }

func (s ofService) ask(ctx context.Context, hub *client.Client) (*findings, error) {
	service, err := hub.Service(ctx, s.name)
	if err != nil {
		return nil, err
	}
	for _, name := range s.clusters {
		if !slices.ContainsFunc(service.Deployments, func(d v1.Deployment) bool { return d.Cluster == name }) {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("service %s does not run on cluster %q", s.name, name), Fix: "plural service get " + s.name, Doc: ui.DocNotFound,
			}
		}
	}
	return waitingFor(service, s.clusters), nil
}

// waitingFor is what waits for an agreement about a service, on some clusters or, where none are named, on all. What the hub
// cannot check is agreed to only where the cluster is named: its agent might show the token of another cluster's objects.
func waitingFor(service *v1.Service, clusters []string) *findings {
	found := &findings{waiting: map[string]bool{}}
	names := map[string][]string{}
	for i := range service.Deployments {
		d := &service.Deployments[i]
		if d.Held == nil {
			continue
		}
		agreement := d.Held.Agreement(d.Cluster)
		found.waiting[agreement] = true
		if len(d.Held.Names) > 0 {
			names[agreement] = d.Held.Names // an answer has them once
		}
		switch {
		case len(clusters) == 0 && d.Held.Unchecked:
			found.unchecked = append(found.unchecked, matterOf(d.Held, "objects", d.Cluster))
		case len(clusters) == 0 || slices.Contains(clusters, d.Cluster):
			found.chosen = append(found.chosen, matterOf(d.Held, "objects", d.Cluster))
		}
	}
	found.chosen = gather(found.chosen)
	for i := range found.chosen {
		found.chosen[i].names = names[found.chosen[i].token]
	}
	return found
}

func matterOf(held *v1.Waiting, what, cluster string) matter {
	return matter{
		token: held.Agreement(cluster), unchecked: held.Unchecked, message: held.Message,
		count: held.Count, what: what, names: held.Names, clusters: []string{cluster},
	}
}

// ofCluster are removals of whole services from one cluster.
type ofCluster string

func (ofCluster) home() string { return "" }

func (c ofCluster) message() string { return "Agree to removals from " + string(c) }

func (c ofCluster) ask(ctx context.Context, hub *client.Client) (*findings, error) {
	cluster, err := hub.Cluster(ctx, string(c))
	if err != nil {
		return nil, err
	}
	found, _, err := askFleet(ctx, hub)
	if err == nil && cluster.Held != nil {
		found.chosen = []matter{matterOf(cluster.Held, "services", string(c))}
	}
	return found, err
}

// ofCommit are services that the newest commit takes away, or stops, which the hub refuses.
type ofCommit struct{}

func (ofCommit) home() string { return "" }

func (ofCommit) message() string { return "Agree to what is taken away" }

func (ofCommit) ask(ctx context.Context, hub *client.Client) (*findings, error) {
	found, refused, err := askFleet(ctx, hub)
	if err == nil {
		found.chosen = refused
	}
	return found, err
}

// askFleet is all that waits for an agreement in plural.yaml, and what of it the hub refuses in the newest commit.
func askFleet(ctx context.Context, hub *client.Client) (found *findings, refused []matter, err error) {
	found = &findings{waiting: map[string]bool{}}
	clusters, err := hub.Clusters(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range clusters.Items {
		if held := clusters.Items[i].Held; held != nil {
			found.waiting[held.Agreement(clusters.Items[i].Name)] = true
		}
	}
	status, err := hub.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range status.Refused {
		if p.Token == "" {
			continue
		}
		m := matter{token: p.Token, message: p.Message, services: p.Services}
		for _, token := range m.tokens() {
			found.waiting[token] = true
		}
		refused = append(refused, m)
	}
	return found, refused, nil
}
