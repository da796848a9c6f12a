package kubeaccess

import (
	"slices"
	"strings"
)

// everything stands for all of its kind in a rule.
const everything = "*"

// Allows says whether the rule names what the request asks for.
func (r *Rule) Allows(q *Request) bool {
	if !names(r.Verbs, q.Verb) {
		return false
	}
	if !q.Resource {
		return slices.ContainsFunc(r.NonResourceURLs, func(url string) bool { return covers(url, q.Path) })
	}
	return (len(r.APIGroups) == 0 || names(r.APIGroups, q.Group)) &&
		(len(r.Namespaces) == 0 || names(r.Namespaces, q.Namespace)) &&
		slices.ContainsFunc(r.Resources, func(resource string) bool { return q.is(resource) })
}

func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return l == everything || l == name })
}

// covers says whether a path, or a pattern that ends with /*, covers another path.
func covers(url, path string) bool {
	if prefix, ok := strings.CutSuffix(url, everything); ok {
		return strings.HasPrefix(path, prefix)
	}
	return url == path
}

// is says whether a rule's resource names the request's.
func (q *Request) is(resource string) bool {
	if resource == everything {
		return !q.guarded()
	}
	kind, subresource, _ := strings.Cut(resource, "/")
	return (kind == everything || kind == q.Kind) && (subresource == q.Subresource || subresource == everything)
}

// guarded says whether a rule has to name the subresource: what opens connections, runs in other people's pods, gives out
// credentials, or deletes by another name.
func (q *Request) guarded() bool {
	switch q.Subresource {
	case "ephemeralcontainers", "token", "eviction":
		return true
	}
	return connection(q.Subresource) || q.Upgrade && !plain(q.Subresource)
}

// Discovery says whether every client may ask: what the API server offers, and what the person who asks may do there. It
// changes nothing, and the cluster's own rules still count.
func Discovery(q Request) bool {
	if q.Upgrade {
		return false
	}
	if q.Resource {
		return q.Verb == "create" && q.Name == "" && selfReview(q.Group, q.Kind)
	}
	if q.Verb != "get" && q.Verb != "head" {
		return false
	}
	return slices.ContainsFunc([]string{"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz"}, func(root string) bool {
		rest, below := strings.CutPrefix(q.Path, root)
		return below && (rest == "" || rest[0] == '/')
	})
}

// selfReview are the questions what oneself may do and who oneself is.
func selfReview(group, kind string) bool {
	switch group {
	case "authorization.k8s.io":
		return kind == "selfsubjectaccessreviews" || kind == "selfsubjectrulesreviews"
	case "authentication.k8s.io":
		return kind == "selfsubjectreviews"
	}
	return false
}
