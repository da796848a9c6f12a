package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

const definitionGroup = "apiextensions.k8s.io"

// resource is where the API server serves a kind.
type resource struct {
	schema.GroupVersionResource
	namespaced bool
}

// catalog is what a cluster serves, as of one discovery. It does not change.
type catalog struct {
	kinds map[schema.GroupVersionKind]resource
	// preferred holds for each kind the version that the API server recommends.
	preferred map[schema.GroupKind]resource
	// silent groups exist, but whoever serves them did not answer.
	silent map[string]bool
}

func (c *catalog) serves(gvk schema.GroupVersionKind) bool {
	_, ok := c.kinds[gvk]
	return ok
}

// find returns where an object once applied with gvk is served now, if need be in another version.
func (c *catalog) find(gvk schema.GroupVersionKind) (resource, bool) {
	if res, ok := c.kinds[gvk]; ok {
		return res, true
	}
	res, ok := c.preferred[gvk.GroupKind()]
	return res, ok
}

// kinds caches discovery. It is asked again only when somebody looks for a kind that the last answer does not hold.
type kinds struct {
	client  *discovery.DiscoveryClient
	current atomic.Pointer[catalog]
}

// with returns a catalog that, if the cluster serves them, holds all wanted kinds.
func (k *kinds) with(ctx context.Context, wanted []schema.GroupVersionKind) (*catalog, error) {
	known := k.current.Load()
	if known == nil {
		return k.refresh(ctx)
	}
	for _, gvk := range wanted {
		if !known.serves(gvk) {
			return k.refresh(ctx)
		}
	}
	return known, nil
}

// refresh asks the API server. Groups that do not answer keep what was known of them.
func (k *kinds) refresh(ctx context.Context) (*catalog, error) {
	groups, lists, err := k.client.ServerGroupsAndResourcesWithContext(ctx)
	broken, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, fmt.Errorf("discover kinds: %w", err)
	}
	fresh := newCatalog(groups, lists)
	before := k.current.Load()
	for gv := range broken {
		fresh.silent[gv.Group] = true
		if before != nil {
			fresh.inherit(before, gv)
		}
	}
	k.current.Store(fresh)
	return fresh, nil
}

func newCatalog(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) *catalog {
	c := &catalog{
		kinds:     map[schema.GroupVersionKind]resource{},
		preferred: map[schema.GroupKind]resource{},
		silent:    map[string]bool{},
	}
	recommended := map[schema.GroupVersion]bool{}
	for _, group := range groups {
		recommended[schema.GroupVersion{Group: group.Name, Version: group.PreferredVersion.Version}] = true
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			c.add(gv, &list.APIResources[i], recommended[gv])
		}
	}
	return c
}

func (c *catalog) add(gv schema.GroupVersion, r *metav1.APIResource, recommended bool) {
	if !isObject(r) {
		return
	}
	res := resource{gv.WithResource(r.Name), r.Namespaced}
	c.kinds[gv.WithKind(r.Kind)] = res
	gk := schema.GroupKind{Group: gv.Group, Kind: r.Kind}
	if _, known := c.preferred[gk]; !known || recommended {
		c.preferred[gk] = res
	}
}

// isObject leaves out subresources, and requests such as TokenReview that only look like objects: what cannot be read
// back is nothing that a service could own.
func isObject(r *metav1.APIResource) bool {
	return slices.Contains(r.Verbs, "get") && slices.Contains(r.Verbs, "patch") && !strings.Contains(r.Name, "/")
}

func (c *catalog) inherit(before *catalog, gv schema.GroupVersion) {
	for gvk, res := range before.kinds {
		if gvk.GroupVersion() == gv {
			c.kinds[gvk] = res
		}
	}
	for gk, res := range before.preferred {
		if res.GroupVersion() == gv {
			c.preferred[gk] = res
		}
	}
}

// declaration is a kind that the render itself brings along.
type declaration struct {
	resource
	definition ID
}

// declared reads which kinds a CustomResourceDefinition will add. Of a malformed one, nothing: it fails on its own.
func declared(obj *unstructured.Unstructured) map[schema.GroupVersionKind]declaration {
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "plural")
	scope, _, _ := unstructured.NestedString(obj.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
	out := map[schema.GroupVersionKind]declaration{}
	for _, v := range versions {
		fields, _ := v.(map[string]any)
		version, _ := fields["name"].(string)
		if served, _ := fields["served"].(bool); !served {
			continue
		}
		gv := schema.GroupVersion{Group: group, Version: version}
		out[gv.WithKind(kind)] = declaration{
			resource:   resource{gv.WithResource(plural), scope == "Namespaced"},
			definition: ID{Group: definitionGroup, Kind: "CustomResourceDefinition", Name: obj.GetName()},
		}
	}
	return out
}
