// Package object owns the identifier of an object in a cluster.
//
// It refuses to know anything of an object beyond its name, the marks that this program puts on it, the words that deny it, and which
// kinds are other tools' orders.
package object

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Manager is the field manager of everything that is applied.
	Manager = "plural"
	// ServiceLabel names, on a live object, the service that owns it.
	ServiceLabel = "plural.sh/service"
	// RunAnnotation names, on a live hook, the render that it ran for.
	RunAnnotation = "plural.sh/run"
	// ProofAnnotation holds, on a live hook, what only who made it knew before it was there.
	ProofAnnotation = "plural.sh/run-proof"
	// PruneAnnotation on a live object, with the value "allow", lets an object of a protected kind be deleted like any other.
	PruneAnnotation = "plural.sh/prune"
	// SystemNamespace holds what the agent itself keeps in a cluster.
	SystemNamespace = "plural-system"
)

// ID names one object in a cluster, whichever version of its kind is spoken. Namespace is empty for what has none.
type ID struct{ Group, Kind, Namespace, Name string }

// Of is what an object calls itself. A namespaced object that names no namespace has an empty one.
func Of(obj *unstructured.Unstructured) ID {
	gvk := obj.GroupVersionKind()
	return ID{gvk.Group, gvk.Kind, obj.GetNamespace(), obj.GetName()}
}

// String reads "Deployment.apps web/nginx", the way people name objects to kubectl.
func (id ID) String() string {
	kind, name := id.Kind, id.Name
	if id.Group != "" {
		kind += "." + id.Group
	}
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	return kind + " " + name
}

// GroupKind is the object's kind, in any version.
func (id ID) GroupKind() schema.GroupKind { return schema.GroupKind{Group: id.Group, Kind: id.Kind} }

// Compare sorts by group, kind, namespace, then name.
func (id ID) Compare(other ID) int {
	return cmp.Or(
		cmp.Compare(id.Group, other.Group),
		cmp.Compare(id.Kind, other.Kind),
		cmp.Compare(id.Namespace, other.Namespace),
		cmp.Compare(id.Name, other.Name),
	)
}

// Parse reads what String prints.
func Parse(text string) (ID, error) {
	kind, name, ok := strings.Cut(text, " ")
	if !ok || kind == "" || name == "" || strings.Contains(name, " ") {
		return ID{}, fmt.Errorf("object %q: want it as KIND[.GROUP] [NAMESPACE/]NAME", text)
	}
	id := ID{Name: name}
	id.Kind, id.Group, _ = strings.Cut(kind, ".")
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		id.Namespace, id.Name = namespace, name
	}
	if id.Kind == "" || id.Name == "" || strings.Contains(id.Name, "/") {
		return ID{}, fmt.Errorf("object %q: want it as KIND[.GROUP] [NAMESPACE/]NAME", text)
	}
	return id, nil
}

// IsNamespace reports whether the object is a Namespace.
func (id ID) IsNamespace() bool { return id.Group == "" && id.Kind == "Namespace" }

// DefinitionGroup is the API group of CustomResourceDefinitions.
const DefinitionGroup = "apiextensions.k8s.io"

// IsDefinition reports whether the object is a CustomResourceDefinition.
func (id ID) IsDefinition() bool {
	return id.Group == DefinitionGroup && id.Kind == "CustomResourceDefinition"
}

// IsSecret reports whether the object's values are nobody's to repeat.
func (id ID) IsSecret() bool { return id.Group == "" && id.Kind == "Secret" }

// Protected kinds hold other people's objects or data: they are deleted only when the live object says so.
func (id ID) Protected() bool {
	if id.IsNamespace() || id.IsDefinition() {
		return true
	}
	return id.Group == "" && (id.Kind == "PersistentVolume" || id.Kind == "PersistentVolumeClaim")
}

// RunsToCompletion reports whether objects of the kind come to an end by themselves, as Helm sees it.
func (id ID) RunsToCompletion() bool {
	return id.Group == "batch" && id.Kind == "Job" || id.Group == "" && id.Kind == "Pod"
}

// Named is a hook with a name. Where it leaves the name's end to the API server, that is the same for each try of one run, and
// another for the next. The number tells it from others that begin alike.
func Named(obj *unstructured.Unstructured, run string, number int) *unstructured.Unstructured {
	base := obj.GetGenerateName()
	if obj.GetName() != "" || base == "" {
		return obj
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", run, number))
	suffix := hex.EncodeToString(sum[:5])
	obj = obj.DeepCopy()
	obj.SetName(base[:min(len(base), longestName-len(suffix))] + suffix)
	return obj
}

// longestName is how long a name may be that ends up in a label, as that of a Job does; the API server cuts generated ones to it.
const longestName = 63
