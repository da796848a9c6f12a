// Package kubeaccess owns the question what a request to a Kubernetes API server asks for.
//
// It refuses to know who asks, and of which cluster. A rule allows what it names; what no rule names is not allowed.
package kubeaccess

// Request is what one HTTP request to a Kubernetes API server asks for.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection, or, of what is no resource, the method in
	// lower case. What opens a connection into a pod or onto a service (exec, attach, portforward, proxy) is "create",
	// whatever the method.
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
	Verbs []string `json:"verbs" yaml:"verbs"`
	// APIGroups: none means all.
	APIGroups []string `json:"apiGroups,omitempty" yaml:"apiGroups,omitempty"`
	// Resources are "pods", "pods/log", "pods/*", "*" (which stands for no subresource that opens a connection) or "*/*".
	Resources []string `json:"resources,omitempty" yaml:"resources,omitempty"`
	// Namespaces: none means all, and what has no namespace.
	Namespaces []string `json:"namespaces,omitempty" yaml:"namespaces,omitempty"`
	// NonResourceURLs are paths, "/metrics", or "/metrics/*".
	NonResourceURLs []string `json:"nonResourceURLs,omitempty" yaml:"nonResourceURLs,omitempty"`
}
