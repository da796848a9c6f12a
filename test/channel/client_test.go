package channel

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// What terminal UIs and controllers do: they find out what is served, ask what they may, keep informers, and try the metrics.
func TestInformersWorkThroughTheHub(t *testing.T) {
	w := newWorld(t)
	w.configMaps(t, 50, "x")
	client := w.through.dynamicClient(t)
	found, err := discovery.NewDiscoveryClientForConfig(w.through.config)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := found.ServerPreferredResources()
	if err != nil || len(resources) < 10 {
		t.Errorf("discovery finds %d groups: %v", len(resources), err)
	}
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{"verb": "list", "resource": "pods", "namespace": w.Namespace}},
	}}
	reviews := client.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"})
	reviewed, err := reviews.Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if allowed, _, _ := unstructured.NestedBool(reviewed.Object, "status", "allowed"); !allowed {
		t.Errorf("the operator may not list pods: %v", reviewed.Object["status"])
	}
	metrics := schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}
	if _, err := client.Resource(metrics).List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("there are metrics that nobody serves")
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, w.Namespace, nil)
	informer := factory.ForResource(configMapsResource).Informer()
	factory.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Informer()
	events := make(chan string, 1000)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { events <- "add " + o.(*unstructured.Unstructured).GetName() },
		UpdateFunc: func(_, o any) { events <- "update " + o.(*unstructured.Unstructured).GetName() },
		DeleteFunc: func(any) { events <- "delete" },
	}); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("%v does not come", kind)
		}
	}
	if got := len(informer.GetStore().ListKeys()); got != 51 {
		t.Errorf("the informer has %d of 51 objects", got)
	}
	w.change(t)
	for seen := range events {
		if seen == "delete" {
			break
		}
	}
	cancel()
	factory.Shutdown()
	if _, left, _ := informer.GetStore().GetByKey(fmt.Sprintf("%s/made", w.Namespace)); left {
		t.Error("the informer still has what was deleted")
	}
}
