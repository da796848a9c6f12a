package hubkeys

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// What the hub's chart calls its StatefulSet, and marks the hub's pods with.
const (
	statefulSet = "plural-hub"
	podSelector = "app.kubernetes.io/name=plural-hub"
)

// annotationRestarted is kubectl's own for the same purpose: a manifest that does not set it leaves it alone.
const annotationRestarted = "kubectl.kubernetes.io/restartedAt"

// Restart has a hub that runs read what Install wrote, one replica after the other; all at once where the former keys and these
// do not get on. It goes by what runs: a hub whose pods are all younger than the Secret is left alone, and a restart that failed
// is made by the next one. A pod that is about to go does not count: on a node that is lost it stays. A cluster without a hub has
// nothing to restart.
func (k *Keys) Restart(ctx context.Context, kube dynamic.Interface) error {
	pods := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(Namespace)
	hub := metav1.ListOptions{LabelSelector: podSelector}
	running, err := pods.List(ctx, hub)
	if err != nil {
		return fmt.Errorf("look for the hub's replicas: %w", err)
	}
	anyOlder := func(than time.Time) bool {
		return slices.ContainsFunc(running.Items, func(pod unstructured.Unstructured) bool {
			return pod.GetDeletionTimestamp() == nil && !pod.GetCreationTimestamp().After(than)
		})
	}
	written := k.written(fieldManager, authorityManager)
	if !anyOlder(written) {
		return nil
	}
	if anyOlder(k.written(authorityManager)) {
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, hub); err != nil {
			return fmt.Errorf("restart the hub's replicas: %w", err)
		}
		return nil
	}
	// The same text for the same Secret: a restart that is under way does not begin anew.
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{annotationRestarted: written.UTC().Format(time.RFC3339)},
	}}}})
	if err != nil {
		return fmt.Errorf("restart the hub: %w", err)
	}
	sets := kube.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"}).Namespace(Namespace)
	_, err = sets.Patch(ctx, statefulSet, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("restart the hub: %w", err)
	}
	return nil
}

// written is when the Secret was last written by one of the managers, by the clock of the API server, which tells the age of pods
// too.
func (k *Keys) written(managers ...string) time.Time {
	var last time.Time
	if k.old == nil {
		return last
	}
	for _, by := range k.old.GetManagedFields() {
		if slices.Contains(managers, by.Manager) && by.Time != nil && by.Time.After(last) {
			last = by.Time.Time
		}
	}
	return last
}
