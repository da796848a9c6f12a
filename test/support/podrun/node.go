package podrun

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// heartbeat is how often a node says that it is alive, the rhythm of a kubelet.
const heartbeat = 10 * time.Second

func resourceOf(group, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural}
}

func convert(from *unstructured.Unstructured, to any) error {
	if err := kruntime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
		return fmt.Errorf("read %s %s: %w", from.GetKind(), from.GetName(), err)
	}
	return nil
}

func generic(from any, apiVersion, kind string) (*unstructured.Unstructured, error) {
	object, err := kruntime.DefaultUnstructuredConverter.ToUnstructured(from)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return u, nil
}

// register makes the node, and keeps new pods from the others until stop.
func (n *Node) register(ctx context.Context) (stop func(context.Context) error, err error) {
	n.name = "podrun-" + strings.ToLower(rand.Text()[:8])
	nodes := n.kube.Resource(resourceOf("", "nodes"))
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	node, err := generic(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{
			corev1.LabelHostname: n.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: runtime.GOARCH,
		}},
	}, "v1", "Node")
	if err != nil {
		return nil, err
	}
	if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create node: %w", err)
	}
	if err := n.patchStatus(ctx, "nodes", "", n.name, map[string]any{"status": nodeStatus(metav1.Now())}); err != nil {
		return nil, err
	}
	if err := n.renewLease(ctx); err != nil {
		return nil, err
	}
	var closed []string
	for _, other := range list.Items {
		if shut, _, _ := unstructured.NestedBool(other.Object, "spec", "unschedulable"); shut {
			continue
		}
		if err := n.schedulable(ctx, other.GetName(), false); err != nil {
			return nil, err
		}
		closed = append(closed, other.GetName())
	}
	return func(ctx context.Context) error {
		err := nodes.Delete(ctx, n.name, metav1.DeleteOptions{})
		for _, name := range closed {
			err = errors.Join(err, n.schedulable(ctx, name, true))
		}
		return err
	}, nil
}

func (n *Node) schedulable(ctx context.Context, node string, yes bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, !yes)
	nodes := n.kube.Resource(resourceOf("", "nodes"))
	if _, err := nodes.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("close node %s to pods, or open it: %w", node, err)
	}
	return nil
}

func nodeStatus(now metav1.Time) corev1.NodeStatus {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Ti"), corev1.ResourcePods: resource.MustParse("10000"),
	}
	status := corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: runtime.GOARCH, KubeletVersion: "v1.35.0", ContainerRuntimeVersion: "podrun://1",
		},
	}
	for kind, is := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{
			Type: kind, Status: is, Reason: "Processes", LastHeartbeatTime: now, LastTransitionTime: now,
		})
	}
	return status
}

// beat renews the lease until ctx ends.
func (n *Node) beat(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := n.renewLease(ctx); err != nil && ctx.Err() == nil {
			n.log("podrun: %v", err)
		}
	}
}

func (n *Node) renewLease(ctx context.Context) error {
	seconds, now := int32(4*heartbeat/time.Second), metav1.NowMicro()
	lease, err := generic(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, "coordination.k8s.io/v1", "Lease")
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(lease.Object, "metadata", "creationTimestamp")
	leases := n.kube.Resource(resourceOf("coordination.k8s.io", "leases")).Namespace(corev1.NamespaceNodeLease)
	if _, err := leases.Apply(ctx, n.name, lease, metav1.ApplyOptions{FieldManager: "podrun", Force: true}); err != nil {
		return fmt.Errorf("renew lease of node: %w", err)
	}
	return nil
}

// patchStatus merges into the status of an object. One that is gone, or another by now, is no error.
func (n *Node) patchStatus(ctx context.Context, plural, namespace, name string, patch map[string]any) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode status of %s: %w", name, err)
	}
	client := n.kube.Resource(resourceOf("", plural))
	if namespace == "" {
		_, err = client.Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	} else {
		_, err = client.Namespace(namespace).Patch(ctx, name, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write status of %s: %w", name, err)
	}
	return nil
}
