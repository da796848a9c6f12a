package checks

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/object"
)

// sweepPage is how many objects are listed at a time.
const sweepPage = 500

// swept are the kinds that tests leave: their own Jobs, and what charts' tests are made of.
func swept() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "serviceaccounts"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	}
}

// Sweep deletes what tests of a service left for other keys than keep. An empty keep keeps nothing. It goes where the service may
// and as who it does: to the namespaces that it is confined to, else to its own where it has a service account, else to all.
// What may not be listed is an error, and all else is swept all the same.
func (r *Runner) Sweep(ctx context.Context, target Target, keep string) error {
	if target.Service == "" || len(validation.IsValidLabelValue(target.Service)) > 0 {
		return fmt.Errorf("sweep tests of %q: no service has this name", target.Service)
	}
	config, err := r.configAs(target.Account)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	namespaces := target.Namespaces
	switch {
	case len(namespaces) > 0:
	case target.Account != "":
		namespaces = []string{target.Namespace}
	default:
		namespaces = []string{metav1.NamespaceAll}
	}
	var failures []error
	for _, kind := range swept() {
		for _, namespace := range namespaces {
			if err := sweep(ctx, client.Resource(kind), namespace, target.Service, keep); err != nil {
				failures = append(failures, fmt.Errorf("sweep %s of tests of %q: %w", kind.Resource, target.Service, err))
			}
		}
	}
	return errors.Join(failures...)
}

func sweep(ctx context.Context, objects metadata.Getter, namespace, service, keep string) error {
	options := metav1.ListOptions{LabelSelector: ServiceLabel + "=" + service, Limit: sweepPage}
	for {
		page, err := objects.Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			if err := sweepOne(ctx, objects, &page.Items[i], keep); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

func sweepOne(ctx context.Context, objects metadata.Getter, left *metav1.PartialObjectMetadata, keep string) error {
	if left.Labels[object.ServiceLabel] != "" || left.Annotations[digestAnnotation] == "" {
		return nil // no test made it: anybody may write a label
	}
	if keep != "" && left.Annotations[object.RunAnnotation] == keep || left.DeletionTimestamp != nil {
		return nil
	}
	err := objects.Namespace(left.Namespace).Delete(ctx, left.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &left.UID},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
