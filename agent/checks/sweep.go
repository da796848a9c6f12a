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

// Sweep deletes what tests of a service left for other keys than keep, in any namespace, as the agent itself. An empty keep
// keeps nothing. A kind that may not be listed is an error, and the other kinds are swept all the same.
func (r *Runner) Sweep(ctx context.Context, service, keep string) error {
	if service == "" || len(validation.IsValidLabelValue(service)) > 0 {
		return fmt.Errorf("sweep tests of %q: no service has this name", service)
	}
	client, err := metadata.NewForConfig(r.config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	var failures []error
	for _, kind := range swept() {
		if err := sweep(ctx, client.Resource(kind), service, keep); err != nil {
			failures = append(failures, fmt.Errorf("sweep %s of tests of %q: %w", kind.Resource, service, err))
		}
	}
	return errors.Join(failures...)
}

func sweep(ctx context.Context, objects metadata.Getter, service, keep string) error {
	options := metav1.ListOptions{LabelSelector: ServiceLabel + "=" + service, Limit: sweepPage}
	for {
		page, err := objects.List(ctx, options)
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
