package apply

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// Manager is the field manager of everything that is applied.
	Manager = "plural"
	// ServiceLabel names, on a live object, the service that owns it.
	ServiceLabel = "plural.sh/service"
	// PruneAnnotation on a live object, with the value "allow", lets a Namespace, CustomResourceDefinition,
	// PersistentVolume or PersistentVolumeClaim be deleted like any other object.
	PruneAnnotation = "plural.sh/prune"
	// DefaultNamespace takes namespaced objects when neither they nor the request name one.
	DefaultNamespace = "default"
)

// ID names one object in a cluster, whichever version of its kind is spoken. Namespace is empty for what has none.
type ID struct{ Group, Kind, Namespace, Name string }

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

func (id ID) groupKind() schema.GroupKind { return schema.GroupKind{Group: id.Group, Kind: id.Kind} }

func isNamespace(id ID) bool { return id.Group == "" && id.Kind == "Namespace" }

func isDefinition(id ID) bool {
	return id.Group == definitionGroup && id.Kind == "CustomResourceDefinition"
}

func isSecret(id ID) bool { return id.Group == "" && id.Kind == "Secret" }

// protected kinds hold other people's objects or data: they are deleted only when the live object says so.
func protected(id ID) bool {
	if isNamespace(id) || isDefinition(id) {
		return true
	}
	return id.Group == "" && (id.Kind == "PersistentVolume" || id.Kind == "PersistentVolumeClaim")
}

// check finds what makes an object impossible to send, before anything is sent.
func check(obj *unstructured.Unstructured) error {
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" {
		return fmt.Errorf("apiVersion and kind are required")
	}
	if obj.GetName() == "" {
		return fmt.Errorf("metadata.name is required: generateName would create another object on every pass")
	}
	for _, segment := range []string{obj.GetName(), obj.GetNamespace()} {
		if problems := content.IsPathSegmentName(segment); len(problems) > 0 {
			return fmt.Errorf("name %q: %s", segment, strings.Join(problems, ", "))
		}
	}
	if _, _, err := unstructured.NestedStringMap(obj.Object, "metadata", "labels"); err != nil {
		return fmt.Errorf("metadata.labels: every value must be a string, quote numbers and booleans")
	}
	return nil
}

// outgoing is the object as it is sent: labelled, in its namespace, without status and without what only the API
// server may write. The input is left alone.
func outgoing(obj *unstructured.Unstructured, namespace, service string) *unstructured.Unstructured {
	out := obj.DeepCopy()
	for _, field := range []string{
		"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp",
		"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "namespace",
	} {
		unstructured.RemoveNestedField(out.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(out.Object, "status")
	if namespace != "" {
		out.SetNamespace(namespace)
	}
	labels := out.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ServiceLabel] = service
	out.SetLabels(labels)
	return out
}
