package live

import (
	"net/http"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/api/v1/openapi"
)

// APIRoutes describe the paths that are served here.
func APIRoutes() []openapi.Route {
	pages := []openapi.Param{
		{Name: "filter", Description: "words that pick items"},
		{Name: "sort", Description: "columns, with - before those that go down"},
		{Name: "limit", Description: "how many items a page has at most", Example: 1},
		{Name: "continue", Description: "next of the page before"},
	}
	watch := openapi.Param{
		Name: "watch", Description: "1: a stream of events named objects, whose data is ObjectChanges; limit, sort and continue mean nothing then", Example: 1,
	}
	tail := []openapi.Param{
		{Name: "tail", Description: "how many of the newest lines to begin with", Example: 1},
		{Name: "follow", Description: "go on with what comes", Example: true},
		{Name: "service", Description: "only lines that speak of this service"},
	}
	const in = "/v1/clusters/{cluster}"
	return []openapi.Route{
		{
			Method: http.MethodGet, Path: in + "/services/{service}/objects", Summary: "The objects of a service in a cluster, and what hangs below them, as a tree",
			Query: append([]openapi.Param{watch}, pages...), Response: v1.List[v1.Object]{},
		},
		{
			Method: http.MethodGet, Path: in + "/services/{service}/events", Summary: "What Kubernetes says happened to a service's objects, the newest first",
			Query: pages, Response: v1.List[v1.ObjectEvent]{},
		},
		{
			Method: http.MethodGet, Path: in + "/services/{service}/diff", Summary: "What applying a service would change in a cluster now",
			Response: v1.Diff{},
		},
		{
			Method: http.MethodPost, Path: in + "/services/{service}/restart", Summary: "Make the pods of a service anew, a few at a time",
			Response: v1.Acted{},
		},
		{
			Method: http.MethodGet, Path: in + "/objects", Summary: "The objects of one kind in a cluster",
			Query: append([]openapi.Param{
				{Name: "resource", Description: "the kind's name in paths, such as pods", Required: true},
				{Name: "group", Description: "its API group"},
				{Name: "version", Description: "its version, if not v1"},
				{Name: "namespace", Description: "only this namespace"},
				watch,
			}, pages...), Response: v1.List[v1.Object]{},
		},
		{
			Method: http.MethodPost, Path: in + "/objects/restart", Summary: "Make the pods of a Deployment, StatefulSet or DaemonSet anew",
			Body: v1.ObjectRef{}, Response: v1.Acted{},
		},
		{
			Method: http.MethodPost, Path: in + "/objects/scale", Summary: "Set the replicas of an object",
			Body: v1.Scale{}, Response: v1.Acted{},
		},
		{
			Method: http.MethodGet, Path: in + "/pods/{namespace}/{pod}/logs", Summary: "What a container of a pod prints", Stream: "text/plain",
			Query: []openapi.Param{
				{Name: "container", Description: "which, if the pod has several"},
				{Name: "follow", Description: "go on with what comes", Example: true},
				{Name: "tail", Description: "how many of the newest lines to begin with", Example: 1},
				{Name: "since", Description: "only what is no older, such as 10m"},
				{Name: "previous", Description: "what it printed before it was restarted", Example: true},
				{Name: "timestamps", Description: "a time before each line", Example: true},
			},
		},
		{Method: http.MethodGet, Path: in + "/agent/logs", Summary: "The newest lines of the agent's own log", Stream: "text/plain", Query: tail},
		{Method: http.MethodGet, Path: "/v1/hub/logs", Summary: "The newest lines of the own log of the replica that answers", Stream: "text/plain", Query: tail},
		{
			Method: http.MethodGet, Path: in + "/exec", Status: http.StatusSwitchingProtocols,
			Summary: "A program in a pod, over a websocket in Kubernetes' protocol v5.channel.k8s.io",
			Query: []openapi.Param{
				{Name: "namespace", Required: true},
				{Name: "pod", Required: true},
				{Name: "container"},
				{Name: "command", Description: "the program, then its arguments", Repeated: true, Required: true},
				{Name: "stdin", Example: true},
				{Name: "tty", Example: true},
			},
		},
	}
}
