package servicetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/metadata"

	"github.com/pluralsh/plural/agent/object"
)

// sweepPage is how many objects are listed at a time.
const sweepPage = 500

// maxFailures is how many objects of one kind in one place may fail before the others there are left to a later sweep.
const maxFailures = 10

// sweepPatience is how long one sweep may take.
const sweepPatience = 2 * time.Minute

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

// Sweep deletes the objects that tests of a service left for other keys than keep; an empty keep keeps nothing. It looks in the
// namespaces that the service is confined to, else in its own where it has a service account, else in all. It lists and deletes as
// that account.
//
//   - A kind that the account may not list, the agent lists. If the agent may not either, that is a note; for Jobs and Pods, which
//     may still run, it is an error where nothing is kept.
//   - An object that the account may not delete is an error. Once the account is gone, the agent deletes it and notes so. What a
//     webhook or a policy denies stays in any case.
//   - Failures of one kind keep no other kind from being swept. The end of its time ends a sweep, and is an error.
func (r *Runner) Sweep(ctx context.Context, target Target, keep string) (notes []string, err error) {
	if target.Service == "" || len(validation.IsValidLabelValue(target.Service)) > 0 {
		return nil, fmt.Errorf("sweep tests of %q: no service has this name", target.Service)
	}
	r.made.forget(target.Service, keep)
	ctx, cancel := context.WithTimeoutCause(ctx, sweepPatience, &lateError{sweepPatience})
	defer cancel()
	s := sweeper{target: target, keep: keep}
	s.accountGone = sync.OnceValue(func() bool { return s.lostAccount(ctx) })
	if s.agent, err = r.metadataAs(""); err != nil {
		return nil, err
	}
	if s.account, err = r.metadataAs(target.Account); err != nil {
		return nil, err
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
			err := s.sweep(ctx, kind, namespace)
			if err == nil {
				continue
			}
			failures = append(failures, fmt.Errorf("sweep %s of tests of %q: %w", kind.Resource, target.Service, because(ctx, err)))
			if ctx.Err() != nil {
				return s.notes, errors.Join(failures...)
			}
		}
	}
	return s.notes, errors.Join(failures...)
}

// metadataAs asks for objects' metadata as the service account NAMESPACE/NAME, or as the agent itself when account is empty.
func (r *Runner) metadataAs(account string) (metadata.Interface, error) {
	config, err := r.configAs(account)
	if err != nil {
		return nil, err
	}
	config.Timeout = 0 // the sweep has its own
	config.QPS = -1    // one request goes after the other
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// sweeper is one sweep.
type sweeper struct {
	target         Target
	keep           string
	account, agent metadata.Interface
	// accountGone says whether there is no such service account any more; only the first call asks.
	accountGone func() bool
	notes       []string
}

func (s *sweeper) sweep(ctx context.Context, kind schema.GroupVersionResource, namespace string) error {
	options := metav1.ListOptions{LabelSelector: ServiceLabel + "=" + s.target.Service, Limit: sweepPage}
	client := s.account
	var failures []error
	for {
		page, err := client.Resource(kind).Namespace(namespace).List(ctx, options)
		if apierrors.IsForbidden(err) && s.target.Account != "" {
			if client != s.agent {
				client = s.agent
				continue
			}
			unlisted := fmt.Sprintf("neither the service account %s nor the agent may list %s in %s: grant list on them to the agent",
				s.target.Account, kind.Resource, namespace)
			if runs := kind.Resource == "jobs" || kind.Resource == "pods"; runs && s.keep == "" {
				return errors.Join(append(failures, errors.New(unlisted))...)
			}
			s.notes = append(s.notes, fmt.Sprintf("%s, or delete those labelled %s=%s by hand", unlisted, ServiceLabel, s.target.Service))
			return errors.Join(failures...)
		}
		if err != nil {
			return errors.Join(append(failures, err)...)
		}
		for i := range page.Items {
			if err := s.sweepOne(ctx, kind, &page.Items[i]); err != nil {
				failures = append(failures, err)
			}
			if len(failures) == maxFailures {
				return errors.Join(append(failures, fmt.Errorf("stop after %d failures: there may be more", maxFailures))...)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return errors.Join(failures...)
		}
	}
}

func (s *sweeper) sweepOne(ctx context.Context, kind schema.GroupVersionResource, left *metav1.PartialObjectMetadata) error {
	if left.Labels[object.ServiceLabel] != "" || left.Annotations[digestAnnotation] == "" {
		return nil // no test made it: anybody may write a label
	}
	if s.keep != "" && left.Annotations[object.RunAnnotation] == s.keep || left.DeletionTimestamp != nil {
		return nil
	}
	err := remove(ctx, s.account.Resource(kind), left)
	if !apierrors.IsForbidden(err) || object.Denied(err) || s.target.Account == "" {
		return err
	}
	if !s.accountGone() {
		return fmt.Errorf("%w: grant that account this verb, or delete it by hand", err)
	}
	if err := remove(ctx, s.agent.Resource(kind), left); err != nil {
		return err
	}
	s.notes = append(s.notes, fmt.Sprintf("%s %s/%s, which a test left, goes by the agent's own rights: the service account %s is gone",
		kind.Resource, left.Namespace, left.Name, s.target.Account))
	return nil
}

// lostAccount asks whether there is no such service account any more. Whoever cannot tell goes on as if there were.
func (s *sweeper) lostAccount(ctx context.Context) bool {
	namespace, name, _ := strings.Cut(s.target.Account, "/")
	accounts := s.agent.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"})
	_, err := accounts.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// remove deletes an object as it was listed.
func remove(ctx context.Context, objects metadata.Getter, left *metav1.PartialObjectMetadata) error {
	err := objects.Namespace(left.Namespace).Delete(ctx, left.Name, metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &left.UID},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
