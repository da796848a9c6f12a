package api

import (
	"net/http"
	"slices"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
)

// APIRoutes describe the paths of an API.
func APIRoutes() []openapi.Route {
	get := func(path, summary string, response any, query ...openapi.Param) openapi.Route {
		return openapi.Route{Method: http.MethodGet, Path: path, Summary: summary, Response: response, Query: query}
	}
	routes := []openapi.Route{
		get("/v1/status", "The fleet at a glance, with what is wrong", v1.Status{}),
		get("/v1/summary", "The fleet in figures", v1.Summary{}),
		get("/v1/hub", "The hub itself, as the replica that answers sees it", v1.Hub{}),
		get("/v1/clusters", "Clusters, by name", v1.List[v1.Cluster]{},
			listQuery("name, cluster, health, kubernetes, agent, message; any other key is a tag", "name, health, services, ready, kubernetes, agent, reported")...),
		get("/v1/clusters/{name}", "One cluster, with its deployments", v1.ClusterDetail{}),
		get("/v1/clusters/{name}/connections", "What a cluster's agents keep open to the hub", v1.List[v1.Connection]{}),
		get("/v1/services", "Services, by name", v1.List[v1.Service]{},
			listQuery("name, service, health, source, ref, namespace, renderer, message", "name, health, source, namespace, renderer, clusters, ready")...),
		get("/v1/services/{name}", "One service, with its deployments", v1.Service{}),
		get("/v1/deployments", "Services on clusters, by cluster", v1.List[v1.Deployment]{},
			listQuery("cluster, service, health, namespace, source, version, suspended, message; any other key is a cluster's tag",
				"cluster, service, health, namespace, source, version, objects, ready")...),
		get("/v1/deployments/{cluster}/{service}", "One service on one cluster, with all that is known of it", v1.Deployment{}),
		get("/v1/sources", "Upstream repositories, by name", v1.List[v1.Source]{},
			listQuery("name, source, kind, url, ref, owner, error", "name, kind, age, failures")...),
		get("/v1/sources/{name}", "One upstream repository; _ is the installation repo", v1.Source{}),
		get("/v1/upgrades", "Installations of packages, where they stand and what they wait for", v1.List[v1.Upgrade]{},
			listQuery("installation, name, package, catalog, version, target, policy, state, reason", "installation, package, state")...),
		get("/v1/upgrades/{name}", "One installation, where it stands and what it waits for", v1.Upgrade{}),
		get("/v1/events", "What happened lately, the newest first", v1.List[v1.Event]{},
			listQuery("cluster, service, reason, warning, message", "newest")...),
		get("/v1/views", "The views that the people of the fleet share, by key", v1.ViewList{}),
		get("/v1/history", "The commits that made the fleet what it is, the newest first", v1.List[v1.Revision]{}, listQuery(historyKeys, "newest")...),
		get("/v1/history/{name}", "One of them, by its id or the beginning of it, with what became of it", v1.Revision{}),
		get("/v1/services/{name}/history", "The commits that made a service what it is, the newest first", v1.List[v1.Revision]{},
			listQuery(historyKeys, "newest")...),
		{
			Method: http.MethodGet, Path: "/v1/stream", Summary: "What changes, as server-sent events named by their kind",
			Stream: "text/event-stream", Query: streamQuery(),
			Events: map[string]any{
				string(v1.ChangedDeployments): v1.Changes[v1.Deployment]{}, string(v1.ChangedClusters): v1.Changes[v1.Cluster]{},
				string(v1.ChangedServices): v1.Changes[v1.Service]{}, string(v1.ChangedSources): v1.Changes[v1.Source]{},
				string(v1.ChangedUpgrades): v1.Changes[v1.Upgrade]{},
				string(v1.ChangedSummary):  v1.Summary{}, string(v1.Happened): v1.Changes[v1.Event]{}, string(v1.Reset): v1.Error{},
			},
		},
		{
			Method: http.MethodGet, Path: "/v1/openapi.json", Summary: "This document", Response: map[string]any{}, Open: true,
		},
	}
	return slices.Concat(routes, actionRoutes(), editDescriptions())
}

// historyKeys are what commits can be picked by.
const historyKeys = "commit, author, subject, file, result"

func actionRoutes() []openapi.Route {
	post := func(path, summary string, body, response any, status int) openapi.Route {
		return openapi.Route{Method: http.MethodPost, Path: path, Summary: summary, Body: body, Response: response, Status: status}
	}
	return []openapi.Route{
		post("/v1/sources/{name}/sync", "Look at a source now", nil, nil, http.StatusAccepted),
		post("/v1/clusters/{name}/sync", "Ask a cluster's agent for a pass now", v1.SyncRequest{}, v1.Synced{}, http.StatusAccepted),
		post("/v1/services/{name}/sync", "Ask the agents of a service's clusters for a pass now", v1.SyncRequest{}, v1.Synced{}, http.StatusAccepted),
	}
}

func listQuery(keys, columns string) []openapi.Param {
	return []openapi.Param{
		{Name: "filter", Description: "Terms that all have to hold, such as health:degraded env:prod message~image !web. Keys: " + keys + "."},
		{Name: "sort", Description: "Columns with commas between them, a leading - turns one round: " + columns + "."},
		{Name: "limit", Description: "From 1 to 500; 200 when left out. A page may have fewer, to stay below 100 KB.", Example: 0},
		{Name: "continue", Description: "Next of the page before, with the same sort."},
		{
			Name: "offset", Example: 0,
			Description: "How many of the first items to leave out, for those who jump; continue is cheaper, and stays true while items come and go.",
		},
		{Name: "name", Description: "A part of the name; the same as a term without a key."},
	}
}

func streamQuery() []openapi.Param {
	return []openapi.Param{
		{Name: "kind", Description: "What to send; all when left out.", Example: v1.ChangeKind(""), Repeated: true},
		{Name: "filter", Description: "As in lists, for every kind that is asked for; filter.KIND is for one kind alone."},
		{
			Name: "item", Repeated: true,
			Description: "A row whose changes are sent, and no others: CLUSTER/SERVICE of a deployment, the name of anything else, at most 300. " +
				"The figures and events are sent for all.",
		},
		{Name: "since", Description: "Since of a list, or the id of an event; the header Last-Event-ID counts before it. Left out: now."},
	}
}
