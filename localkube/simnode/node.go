package simnode

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// register makes the wanted nodes exist and be Ready, and the surplus ones of an earlier run go.
func (s *Simulator) register(ctx context.Context) error {
	wanted := make(map[string]bool, s.Nodes)
	for i := range s.Nodes {
		wanted[nodeName(i)] = true
		if err := s.registerNode(ctx, i); err != nil {
			return fmt.Errorf("register node %s: %w", nodeName(i), err)
		}
	}
	present, err := s.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: LabelSimulated + "=true"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	for _, node := range present.Items {
		if wanted[node.Name] {
			continue
		}
		if err := s.Client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove surplus node %s: %w", node.Name, err)
		}
	}
	return nil
}

func (s *Simulator) registerNode(ctx context.Context, i int) error {
	nodes := s.Client.CoreV1().Nodes()
	if _, err := nodes.Create(ctx, newNode(nodeName(i)), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node: %w", err)
	}
	patch, err := json.Marshal(map[string]any{"status": s.nodeStatus(i, metav1.Now())})
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	if _, err := nodes.Patch(ctx, nodeName(i), types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name,
		Labels: map[string]string{
			LabelSimulated:         "true",
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: runtime.GOARCH,
		},
		Annotations: map[string]string{LabelSimulated: Explanation},
	}}
}

// nodeStatus claims so much room that no pod waits for want of it.
func (s *Simulator) nodeStatus(i int, now metav1.Time) corev1.NodeStatus {
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("16Ti"),
		corev1.ResourcePods:             resource.MustParse("10000"),
	}
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Simulated", Message: Explanation,
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return corev1.NodeStatus{
		Capacity:    room,
		Allocatable: room,
		Conditions: []corev1.NodeCondition{
			condition(corev1.NodeReady, corev1.ConditionTrue),
			condition(corev1.NodeMemoryPressure, corev1.ConditionFalse),
			condition(corev1.NodeDiskPressure, corev1.ConditionFalse),
			condition(corev1.NodePIDPressure, corev1.ConditionFalse),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: nodeAddress(i).String()},
			{Type: corev1.NodeExternalIP, Address: s.Kubelet.Addr().String()},
			{Type: corev1.NodeHostName, Address: nodeName(i)},
		},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(s.Kubelet.Port())}},
		NodeInfo: corev1.NodeSystemInfo{
			OSImage:                 "simulated",
			ContainerRuntimeVersion: "simulated://1.0.0",
			KubeletVersion:          s.Version,
			OperatingSystem:         "linux",
			Architecture:            runtime.GOARCH,
		},
	}
}

// renewLease tells that a node is alive, as a kubelet does.
func (s *Simulator) renewLease(ctx context.Context, node string) error {
	leases := s.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	seconds, now := int32(4*heartbeat/time.Second), metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &seconds, RenewTime: &now}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("encode lease: %w", err)
	}
	_, err = leases.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: spec}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}
