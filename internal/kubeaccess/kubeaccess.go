// Package kubeaccess owns the parsing of a Kubernetes API request into verb, resource and namespace.
//
// It refuses to know who asks, and of which cluster. A rule allows what it names; what no rule names is not allowed.
package kubeaccess

import (
	"fmt"
	"strconv"
	"strings"
)

// Request is what one HTTP request to a Kubernetes API server asks for.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection, or, of what is no resource, the method in
	// lower case. What opens a connection into a pod or onto a service (exec, attach, portforward, proxy) is "create",
	// whatever the method, and so is an upgrade of what is no resource.
	Verb string
	// Resource says that it is about objects; if not, Path alone counts.
	Resource bool
	// Group, Version, Kind name the API: Kind is the plural in the path ("pods"), Subresource what follows the name.
	Group, Version, Kind, Subresource string
	// Namespace is empty for what has none, and for all namespaces. Name is empty for lists and collections.
	Namespace, Name string
	// Path is the request's, without query.
	Path string
	// Upgrade says that it becomes a connection of its own; Endless that the answer has no end by itself.
	Upgrade, Endless bool
}

// Rule allows requests, as a rule of a Kubernetes Role does. "*" stands for everything.
type Rule struct {
	// Verbs are get, list, watch, create, update, patch, delete, deletecollection; or those of HTTP for NonResourceURLs.
	Verbs []string `json:"verbs" yaml:"verbs"`
	// APIGroups are those of the resources, "" for that of pods. None means all.
	APIGroups []string `json:"apiGroups,omitempty" yaml:"apiGroups,omitempty"`
	// Resources are "pods", "pods/log", "pods/*" (pods and all that belongs to them), "*/scale", "*/*" (everything), or "*",
	// which leaves out the subresources that have to be named: exec, attach, portforward, proxy, ephemeralcontainers, token,
	// eviction.
	Resources []string `json:"resources,omitempty" yaml:"resources,omitempty"`
	// Namespaces are those of the resources. None means all, and what has no namespace.
	Namespaces []string `json:"namespaces,omitempty" yaml:"namespaces,omitempty"`
	// NonResourceURLs are paths, "/metrics", or their beginnings, "/metrics/*".
	NonResourceURLs []string `json:"nonResourceURLs,omitempty" yaml:"nonResourceURLs,omitempty"`
}

// Describe is the request in words, to follow "may not": `create pods/exec "web" in namespace "shop"`. It is fit to be printed,
// whatever the path held.
func (q *Request) Describe() string {
	if !q.Resource {
		return fmt.Sprintf("%s path %q", q.Verb, q.Path)
	}
	words := q.Verb + " " + word(q.Kind)
	if q.Subresource != "" {
		words += "/" + word(q.Subresource)
	}
	if q.Group != "" {
		words += " of " + word(q.Group)
	}
	if q.Name != "" {
		words += " " + strconv.Quote(q.Name)
	}
	if q.Namespace != "" {
		words += " in namespace " + strconv.Quote(q.Namespace)
	}
	return words
}

// word quotes what is no plain word.
func word(s string) string {
	plain := !strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' })
	if plain {
		return s
	}
	return strconv.Quote(s)
}
