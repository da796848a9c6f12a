// Package kubetest owns the real Kubernetes API server that tests run against.
//
// It refuses to know what the tests do there, and stands in for nothing: the server is
// the localkube program, whose nodes are simulated and whose API is not.
//
// Data passes through like this: the first Start in a test process starts one localkube in
// a temporary folder, and every Start makes a namespace there for its test. Nothing has
// to be stopped: localkube ends and removes its folder when the test process, however
// it ends, lets go of its standard input.
package kubetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// namespaceTimeout bounds making a namespace usable on a busy machine.
const namespaceTimeout = time.Minute

// Cluster is a test's view of the shared API server, as its administrator.
type Cluster struct {
	RESTConfig *rest.Config      // a copy of its own, without client-side rate limits
	Kubeconfig string            // path of a kubeconfig file for programs; its context is "kubetest"
	Namespace  string            // this test's own, deleted when the test ends
	Dynamic    dynamic.Interface // made from RESTConfig
}

// Start returns the API server of this test process with a fresh namespace in which pods can be created.
// Without the localkube program the test is skipped, or fails when the environment says CI.
func Start(t testing.TB) *Cluster {
	t.Helper()
	notWhenShort(t)
	shared, err := sharedServer()
	if errors.Is(err, errNoProgram) && os.Getenv("CI") == "" {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatalf("start API server: %v", err)
	}
	return view(t, shared)
}

// StartApart returns an API server of the test's own, which ends with it: for tests that leave their mark on a whole cluster, or want
// one with flags of localkube.
func StartApart(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	notWhenShort(t)
	own, err := startServer(flags...)
	if errors.Is(err, errNoProgram) && os.Getenv("CI") == "" {
		t.Skipf("NOT RUN: %v", err)
	}
	if err != nil {
		t.Fatalf("start API server: %v", err)
	}
	t.Cleanup(func() { _ = own.lifeline.Close() }) // it removes its folder by itself
	return view(t, own)
}

func notWhenShort(t testing.TB) {
	t.Helper()
	if testing.Short() && os.Getenv("CI") == "" { // in CI nothing is left out
		t.Skip("NOT RUN: short tests start no API server")
	}
}

// view is a test's view of a server, with a namespace of its own.
func view(t testing.TB, on *server) *Cluster {
	t.Helper()
	config := rest.CopyConfig(on.config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatalf("create client: %v", err)
	}
	cluster := &Cluster{
		RESTConfig: config,
		Kubeconfig: on.kubeconfig,
		Namespace:  namespaceName(t.Name()),
		Dynamic:    client,
	}
	cluster.createNamespace(t)
	return cluster
}

// RemoveLater deletes an object when the test ends: one that lies outside of the test's namespace would be met by the next test.
func (c *Cluster) RemoveLater(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Cleanup(func() {
		err := c.Dynamic.Resource(resource).Namespace(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

func (c *Cluster) createNamespace(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), namespaceTimeout)
	defer cancel()
	namespaces := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Namespace",
		"metadata":   map[string]any{"name": c.Namespace},
	}}
	if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), namespaceTimeout)
		defer cancel()
		if err := namespaces.Delete(ctx, c.Namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("delete namespace: %v", err)
		}
	})
	if err := c.awaitServiceAccount(ctx); err != nil {
		t.Fatalf("wait for service account of %s: %v", c.Namespace, err)
	}
}

// awaitServiceAccount waits for what a namespace needs before it accepts pods.
func (c *Cluster) awaitServiceAccount(ctx context.Context) error {
	accounts := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(c.Namespace)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		_, err := accounts.Get(ctx, "default", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// namespaceName makes a name that tells the test and is never the same twice.
func namespaceName(test string) string {
	const longest = 40 // leaves room for the suffix and for what tests append
	var name strings.Builder
	for _, r := range strings.ToLower(test) {
		if name.Len() == longest {
			break
		}
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			r = '-'
		}
		name.WriteRune(r)
	}
	return strings.Trim(name.String(), "-") + "-" + strings.ToLower(rand.Text()[:6])
}
