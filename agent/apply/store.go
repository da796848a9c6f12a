package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

const (
	// SystemNamespace holds the inventories.
	SystemNamespace = "plural-system"

	inventoryPrefix = "plural-inventory-"
	inventoryLabel  = "plural.sh/inventory"
	inventoryKey    = "inventory.json"
	listPage        = 500
)

// InventoryError says that a service's inventory cannot be trusted. Nothing is applied or deleted until it can.
type InventoryError struct {
	Service string
	cause   error
}

func (e *InventoryError) Error() string {
	return fmt.Sprintf("read inventory of service %q: ConfigMap %s/%s: %v: restore it, or delete it to start over "+
		"with what the service renders now", e.Service, SystemNamespace, inventoryPrefix+e.Service, e.cause)
}

// Unwrap returns what is wrong with the text.
func (e *InventoryError) Unwrap() error { return e.cause }

// store keeps inventories in ConfigMaps. A save succeeds only on top of the text that was loaded.
type store struct {
	objects  dynamic.Interface
	metadata metadata.Interface
}

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

func namespaces() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
}

// load returns the service's inventory, empty when there is none.
func (s store) load(ctx context.Context, service string) (*inventory, error) {
	obj, err := s.objects.Resource(configMaps()).Namespace(SystemNamespace).
		Get(ctx, inventoryPrefix+service, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &inventory{service: service, entries: map[ID]entry{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read inventory of service %q: %w", service, err)
	}
	text, _, err := unstructured.NestedString(obj.Object, "data", inventoryKey)
	if err != nil {
		return nil, &InventoryError{service, err}
	}
	inv, err := decode(service, text)
	if err != nil {
		return nil, &InventoryError{service, err}
	}
	inv.version = obj.GetResourceVersion()
	return inv, nil
}

// save writes the inventory when it differs from what is stored.
func (s store) save(ctx context.Context, inv *inventory) error {
	text, err := inv.encode()
	if err != nil || text == inv.stored {
		return err
	}
	obj := inventoryObject(inv, text)
	client := s.objects.Resource(configMaps()).Namespace(SystemNamespace)
	var saved *unstructured.Unstructured
	if inv.version == "" {
		if err := s.ensureNamespace(ctx, SystemNamespace); err != nil {
			return fmt.Errorf("write inventory of service %q: %w", inv.service, err)
		}
		saved, err = client.Create(ctx, obj, metav1.CreateOptions{FieldManager: Manager})
	} else {
		saved, err = client.Update(ctx, obj, metav1.UpdateOptions{FieldManager: Manager})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("write inventory of service %q: somebody else applies this service at the same time: %w",
			inv.service, err)
	}
	if err != nil {
		return fmt.Errorf("write inventory of service %q: %w", inv.service, err)
	}
	inv.stored, inv.version = text, saved.GetResourceVersion()
	return nil
}

func inventoryObject(inv *inventory, text string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"data":       map[string]any{inventoryKey: text},
	}}
	obj.SetName(inventoryPrefix + inv.service)
	obj.SetNamespace(SystemNamespace)
	obj.SetLabels(map[string]string{inventoryLabel: inv.service})
	obj.SetResourceVersion(inv.version)
	return obj
}

// remove deletes the inventory, unless it changed since it was loaded.
func (s store) remove(ctx context.Context, inv *inventory) error {
	err := s.objects.Resource(configMaps()).Namespace(SystemNamespace).Delete(ctx, inventoryPrefix+inv.service,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &inv.version}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete inventory of service %q: %w", inv.service, err)
	}
	return nil
}

// services lists who has an inventory, sorted.
func (s store) services(ctx context.Context) ([]string, error) {
	var names []string
	options := metav1.ListOptions{LabelSelector: inventoryLabel, Limit: listPage}
	for {
		page, err := s.metadata.Resource(configMaps()).Namespace(SystemNamespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list inventories: %w", err)
		}
		for i := range page.Items {
			if service, ok := strings.CutPrefix(page.Items[i].Name, inventoryPrefix); ok {
				names = append(names, service)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			slices.Sort(names)
			return names, nil
		}
	}
}

// ensureNamespace creates a namespace that is not there. It belongs to no service, so nothing ever deletes it.
func (s store) ensureNamespace(ctx context.Context, name string) error {
	_, err := s.metadata.Resource(namespaces()).Get(ctx, name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	patch := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, name)
	_, err = s.metadata.Resource(namespaces()).Patch(ctx, name, types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: Manager})
	return err
}
