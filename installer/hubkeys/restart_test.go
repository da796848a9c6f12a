package hubkeys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/installer/hubkeys"
)

// replica makes a pod of the hub's; held, it outlives its deletion, as one does on a node that is gone.
func replica(t *testing.T, pods dynamic.ResourceInterface, name string, held bool) *unstructured.Unstructured {
	t.Helper()
	pod := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, `{
	  "apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "labels": {"app.kubernetes.io/name": "plural-hub"}},
	  "spec": {
	    "terminationGracePeriodSeconds": 0,
	    "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
	    "containers": [{
	      "name": "hub", "image": "example.com/hub:1",
	      "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}
	    }]
	  }
	}`, name), &pod.Object); err != nil {
		t.Fatal(err)
	}
	if held {
		pod.SetFinalizers([]string{"example.com/node"})
	}
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func TestAReplicaThatIsGoneWithItsNodeTakesNoOtherAlong(t *testing.T) {
	kube := start(t)
	pods := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(hubkeys.Namespace)
	install(t, kube, hubkeys.Request{})
	gone := replica(t, pods, "plural-hub-0", true)
	t.Cleanup(func() {
		free := []byte(`{"metadata": {"finalizers": null}}`)
		_, err := pods.Patch(context.WithoutCancel(t.Context()), gone.GetName(), types.MergePatchType, free, metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	remove := func(name string) {
		t.Helper()
		if err := pods.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove(gone.GetName())
	install(t, kube, hubkeys.Request{Rotate: []hubkeys.Part{hubkeys.Replicas}})
	rotated := time.Now()

	other := replica(t, pods, "plural-hub-1", false)
	for n := 2; !other.GetCreationTimestamp().After(rotated); n++ { // it has whole seconds
		if time.Since(rotated) > time.Minute {
			t.Fatal("no pod is younger than the Secret")
		}
		remove(other.GetName())
		other = replica(t, pods, fmt.Sprint("plural-hub-", n), false)
	}
	t.Cleanup(func() { remove(other.GetName()) })
	if err := prepare(t, kube, hubkeys.Request{}).Restart(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	is, err := pods.Get(t.Context(), other.GetName(), metav1.GetOptions{})
	if err != nil || is.GetUID() != other.GetUID() || is.GetDeletionTimestamp() != nil {
		t.Errorf("a replica that is younger than the keys is gone: %v", err)
	}
}
