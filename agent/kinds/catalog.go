// Package kinds owns the kinds that a cluster serves.
//
// It refuses to know what anybody wants with them; of objects it has never seen one.
//
// Discovery's answer becomes a Catalog, which does not change. Kinds holds the newest one, and asks again when somebody
// looks for a kind that it lacks, or when a watch says that definitions came or went.
package kinds

import (
	"iter"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resource is where the API server serves a kind.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
	// Status says that it has a status subresource.
	Status bool
}

// Catalog is what a cluster serves, as of one discovery. It does not change.
type Catalog struct {
	kinds map[schema.GroupVersionKind]Resource
	// preferred holds for each kind the version that the API server recommends.
	preferred map[schema.GroupKind]schema.GroupVersionKind
	// silent groups exist, but whoever serves them did not answer.
	silent map[string]bool
	// watchable kinds can be listed and watched.
	watchable map[schema.GroupVersionKind]bool
	// versions are all that is served, also what is nothing that a service could own.
	versions map[string]bool
}

// Serves says whether the kind is served in exactly this version.
func (c *Catalog) Serves(gvk schema.GroupVersionKind) bool {
	_, ok := c.kinds[gvk]
	return ok
}

// Exact returns where the kind is served in this version.
func (c *Catalog) Exact(gvk schema.GroupVersionKind) (Resource, bool) {
	res, ok := c.kinds[gvk]
	return res, ok
}

// Find returns where an object once applied as gvk is served now, if need be in the version that the API server prefers.
func (c *Catalog) Find(gvk schema.GroupVersionKind) (Resource, bool) {
	if res, ok := c.kinds[gvk]; ok {
		return res, true
	}
	res, ok := c.kinds[c.preferred[gvk.GroupKind()]]
	return res, ok
}

// Silent says that the group exists, but whoever serves it did not answer.
func (c *Catalog) Silent(group string) bool { return c.silent[group] }

// Versions returns, sorted, what is served as charts ask for it: "apps/v1" and "apps/v1/Deployment". Silent groups keep
// what was known of them.
func (c *Catalog) Versions() []string { return slices.Sorted(maps.Keys(c.versions)) }

// All returns the kinds that can be listed and watched, each in the version that the API server prefers.
func (c *Catalog) All() iter.Seq2[schema.GroupVersionKind, Resource] {
	return func(yield func(schema.GroupVersionKind, Resource) bool) {
		for _, gvk := range c.preferred {
			if c.watchable[gvk] && !yield(gvk, c.kinds[gvk]) {
				return
			}
		}
	}
}

func empty() *Catalog {
	return &Catalog{
		kinds:     map[schema.GroupVersionKind]Resource{},
		preferred: map[schema.GroupKind]schema.GroupVersionKind{},
		silent:    map[string]bool{},
		watchable: map[schema.GroupVersionKind]bool{},
		versions:  map[string]bool{},
	}
}

func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) *Catalog {
	c := empty()
	recommended := map[schema.GroupVersion]bool{}
	for _, group := range groups {
		recommended[schema.GroupVersion{Group: group.Name, Version: group.PreferredVersion.Version}] = true
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		c.versions[list.GroupVersion] = true
		status := withStatus(list)
		for i := range list.APIResources {
			c.add(gv, &list.APIResources[i], status, recommended[gv])
		}
	}
	return c
}

// withStatus names the resources of a list that have a status subresource.
func withStatus(list *metav1.APIResourceList) map[string]bool {
	names := map[string]bool{}
	for i := range list.APIResources {
		if name, ok := strings.CutSuffix(list.APIResources[i].Name, "/status"); ok {
			names[name] = true
		}
	}
	return names
}

func (c *Catalog) add(gv schema.GroupVersion, r *metav1.APIResource, status map[string]bool, recommended bool) {
	if strings.Contains(r.Name, "/") {
		return
	}
	c.versions[gv.String()+"/"+r.Kind] = true
	if !isObject(r) {
		return
	}
	gvk := gv.WithKind(r.Kind)
	c.kinds[gvk] = Resource{gv.WithResource(r.Name), r.Namespaced, status[r.Name]}
	if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
		c.watchable[gvk] = true
	}
	if _, known := c.preferred[gvk.GroupKind()]; !known || recommended {
		c.preferred[gvk.GroupKind()] = gvk
	}
}

// isObject leaves out requests such as TokenReview that only look like objects: what cannot be read back is nothing that
// a service could own.
func isObject(r *metav1.APIResource) bool {
	return slices.Contains(r.Verbs, "get") && slices.Contains(r.Verbs, "patch")
}

// inherit takes over what an older catalog knew of a version that did not answer this time.
func (c *Catalog) inherit(before *Catalog, gv schema.GroupVersion) {
	for gvk, res := range before.kinds {
		if gvk.GroupVersion() == gv {
			c.kinds[gvk] = res
			c.watchable[gvk] = before.watchable[gvk]
		}
	}
	for gk, gvk := range before.preferred {
		if _, known := c.preferred[gk]; !known && gvk.GroupVersion() == gv {
			c.preferred[gk] = gvk
		}
	}
	for version := range before.versions {
		if version == gv.String() || strings.HasPrefix(version, gv.String()+"/") {
			c.versions[version] = true
		}
	}
}
