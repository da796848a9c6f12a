// Package lookup owns the answers to the lookups of charts.
//
// It refuses to know charts. A service account goes in, and what comes out reads objects as that account, and no more than
// it may read.
package lookup

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/agent/kinds"
	"github.com/pluralsh/plural/agent/render"
)

// maxLooked bounds the list that a chart gets when it looks up all objects of a kind.
const maxLooked = 500

// As reads objects of the cluster that config reaches, whose kinds are known, as a service account, NAMESPACE/NAME.
func As(config *rest.Config, known *kinds.Kinds, account string) (render.Lookup, error) {
	namespace, name, ok := strings.Cut(account, "/")
	if !ok {
		return nil, fmt.Errorf("service account %q: want it as NAMESPACE/NAME", account)
	}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":" + name}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("look up as %s: %w", account, err)
	}
	return func(ctx context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
		gv, err := schema.ParseGroupVersion(apiVersion)
		if err != nil {
			return nil, err
		}
		gvk := gv.WithKind(kind)
		catalog, err := known.With(ctx, []schema.GroupVersionKind{gvk})
		if err != nil {
			return nil, err
		}
		res, served := catalog.Exact(gvk)
		if !served {
			return map[string]any{}, nil
		}
		objects := client.Resource(res.GroupVersionResource).Namespace(namespace)
		if name == "" {
			return listed(ctx, objects)
		}
		object, err := objects.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return map[string]any{}, nil
		}
		if err != nil {
			return nil, err
		}
		return object.Object, nil
	}, nil
}

func listed(ctx context.Context, objects dynamic.ResourceInterface) (map[string]any, error) {
	list, err := objects.List(ctx, metav1.ListOptions{Limit: maxLooked})
	if err != nil {
		return nil, err
	}
	if list.GetContinue() != "" {
		return nil, fmt.Errorf("there are more than %d: look them up by name", maxLooked)
	}
	return list.UnstructuredContent(), nil
}
