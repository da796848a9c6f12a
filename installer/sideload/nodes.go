package sideload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// kubeletLists is how many images a kubelet lists at most by default, the largest first: who lists as many may have more.
const kubeletLists = 50

// Bounds on how the nodes of a cluster are asked for.
const (
	answering = 30 * time.Second
	page      = 100
)

// Lack is a node that does not say that it has an image.
type Lack struct {
	Node  string
	Image *Image
	// Sure says that the node lists all of its images.
	Sure bool
	// Platform is the node's where the image is not for it: then nothing brings it there.
	Platform string
	// Command brings the image there; empty where a registry is the way.
	Command string
}

// Lacking are the nodes of a cluster on which pods may be put and which do not say that they have the images.
func Lacking(ctx context.Context, kube dynamic.Interface, images ...*Image) ([]Lack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answering, fmt.Errorf("no answer within %s", answering))
	defer cancel()
	var all []Lack
	nodes := kube.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	for options := (metav1.ListOptions{Limit: page}); ; {
		list, err := nodes.List(ctx, options)
		if err != nil {
			if ctx.Err() != nil {
				err = errors.Join(context.Cause(ctx), err)
			}
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			var node corev1.Node
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &node); err != nil {
				return nil, fmt.Errorf("read node %s: %w", list.Items[i].GetName(), err)
			}
			if !takesPods(&node) {
				continue
			}
			for _, image := range images {
				if lack, lacks := lackOf(&node, image); lacks {
					all = append(all, lack)
				}
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// takesPods says whether pods of Linux without tolerations are put on a node.
func takesPods(n *corev1.Node) bool {
	if kind := n.Status.NodeInfo.OperatingSystem; kind != "" && kind != "linux" {
		return false
	}
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	})
}

func lackOf(n *corev1.Node, i *Image) (Lack, bool) {
	has := slices.ContainsFunc(n.Status.Images, func(listed corev1.ContainerImage) bool { return slices.Contains(listed.Names, i.Name()) })
	if has {
		return Lack{}, false
	}
	lack := Lack{
		Node: n.Name, Image: i, Sure: len(n.Status.Images) > 0 && len(n.Status.Images) < kubeletLists, Command: command(n, i.Archive),
	}
	platform := n.Status.NodeInfo.OperatingSystem + "/" + n.Status.NodeInfo.Architecture
	if platform != "/" && len(i.platforms) > 0 && !slices.Contains(i.platforms, platform) {
		lack.Platform, lack.Sure = platform, true
	}
	return lack, true
}

// command brings an archive onto a node of a kind that is known to take it.
func command(n *corev1.Node, archive string) string {
	provider, id, _ := strings.Cut(n.Spec.ProviderID, "://")
	profile := n.Labels["minikube.k8s.io/name"]
	switch {
	case provider == "kind": // kind://docker/CLUSTER/NODE
		if parts := strings.Split(id, "/"); len(parts) == 3 {
			return fmt.Sprintf("kind load image-archive %s --name %s", archive, parts[1])
		}
		return ""
	case profile != "":
		return fmt.Sprintf("minikube image load %s -p %s", archive, profile)
	case provider == "k3s", strings.Contains(n.Status.NodeInfo.KubeletVersion, "+k3s"):
		return fmt.Sprintf("on %s: sudo k3s ctr images import %s", n.Name, archive)
	case provider != "", strings.Contains(n.Status.NodeInfo.KubeletVersion, "+"):
		return "" // nodes that come and go, or whose containerd is not where ctr looks for it
	case strings.HasPrefix(n.Status.NodeInfo.ContainerRuntimeVersion, "containerd://"):
		return fmt.Sprintf("on %s: sudo ctr -n k8s.io images import %s", n.Name, archive)
	}
	return ""
}
