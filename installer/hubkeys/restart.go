package hubkeys

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// do not get on. A cluster without a hub has nothing to restart.
func (k *Keys) Restart(ctx context.Context, kube dynamic.Interface) error {
	if k.together {
		pods := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(Namespace)
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: podSelector}); err != nil {
			return fmt.Errorf("restart the hub's replicas: %w", err)
		}
		return nil
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{annotationRestarted: time.Now().UTC().Format(time.RFC3339)},
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
