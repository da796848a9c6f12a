package sideload

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/tools/release/images"
)

const name = "ghcr.io/pluralsh/plural:dev-1"

// folder is one as make images writes it, with an image for amd64.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	layout, program := filepath.Join(dir, "plural"), filepath.Join(dir, "program")
	write(t, program, "#!")
	if err := os.Mkdir(layout, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := images.Pack(t.Context(), layout, &images.Image{
		Name: name, Created: time.Unix(0, 0), Programs: []images.Program{{OS: "linux", Arch: "amd64", File: program}},
	})
	if err == nil {
		err = images.Archive(layout, layout+".tar", time.Unix(0, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnImageIsCalledWhatItsFolderSays(t *testing.T) {
	dir := folder(t)
	i, err := Open(dir, "plural")
	if err != nil {
		t.Fatal(err)
	}
	if i.Name() != name || i.Archive != filepath.Join(dir, "plural.tar") {
		t.Errorf("%s in %s", i.Name(), i.Archive)
	}
	if diff := cmp.Diff([]string{"linux/amd64"}, i.platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
}

func TestAFolderWithoutUsableImagesIsSaidToBeOne(t *testing.T) {
	called := func(name string) string {
		return `{"manifests": [{"annotations": {"io.containerd.image.name": "` + name + `"}}]}`
	}
	for what, tt := range map[string]struct{ index, want string }{
		"nothing":   {"", "there is no image"},
		"no JSON":   {"<html>", "invalid character"},
		"no images": {"{}", "0 images"},
		"two":       {`{"manifests": [{}, {}]}`, "2 images"},
		"no name":   {`{"manifests": [{}]}`, `is "", want REPOSITORY:TAG`},
		"no tag":    {called("localhost:5000/plural"), "want REPOSITORY:TAG"},
		"a digest":  {called("plural@sha256:00"), "want REPOSITORY:TAG"},
		"endless":   {`{"manifests": [` + strings.Repeat(" ", maxIndex) + `]}`, "larger than 1 MiB"},
		"a path":    {`{"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:../../..", "annotations": {"io.containerd.image.name": "a:1"}}]}`, "invalid checksum"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			index := filepath.Join(dir, "plural", "index.json")
			if err := os.Mkdir(filepath.Dir(index), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "plural.tar"), "")
			if tt.index != "" {
				write(t, index, tt.index)
			}
			_, err := Open(dir, "plural")
			var bad *FolderError
			if !errors.As(err, &bad) || bad.File != index || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	dir := folder(t)
	if err := os.Remove(filepath.Join(dir, "plural.tar")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "plural"); err == nil || !strings.Contains(err.Error(), "plural.tar") {
		t.Errorf("without the archive: %v", err)
	}
}

// node is one as a kubelet of a kind reports it.
type node struct {
	provider, version, runtime, arch string
	labels                           map[string]string
	taints                           []corev1.Taint
	images                           []string
}

func TestNodesAreAskedForImages(t *testing.T) {
	cluster := kubetest.Start(t)
	image, err := Open(folder(t), "plural")
	if err != nil {
		t.Fatal(err)
	}
	nodes := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	create := func(name string, n node) {
		t.Helper()
		object := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: n.labels}, Spec: corev1.NodeSpec{ProviderID: n.provider, Taints: n.taints},
		}
		status := corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{
			OperatingSystem: "linux", Architecture: n.arch, KubeletVersion: n.version, ContainerRuntimeVersion: n.runtime,
		}}
		for _, image := range n.images {
			status.Images = append(status.Images, corev1.ContainerImage{Names: []string{image}})
		}
		raw := func() *unstructured.Unstructured {
			u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			return &unstructured.Unstructured{Object: u}
		}
		made := raw()
		made.SetAPIVersion("v1")
		made.SetKind("Node")
		made, err := nodes.Create(t.Context(), made, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cluster.RemoveLater(t, schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", name)
		object.Status, object.ResourceVersion = status, made.GetResourceVersion()
		now := raw()
		now.SetAPIVersion("v1")
		now.SetKind("Node")
		if _, err := nodes.UpdateStatus(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other := []string{"registry.k8s.io/pause:3.10"}
	many := make([]string, kubeletLists)
	for i := range many {
		many[i] = "example.com/large:" + strings.Repeat("1", i+1)
	}
	const runtimeVersion = "containerd://2.1.0"
	archive := image.Archive
	for name, tt := range map[string]struct {
		node
		want *Lack // nil: it has it, or takes no pods
	}{
		"has-it": {node: node{arch: "amd64", runtime: runtimeVersion, images: append([]string{image.Name()}, other...)}},
		"control-plane": {node: node{
			arch: "amd64", images: other, taints: []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}},
		}},
		"kind": {
			node: node{arch: "amd64", provider: "kind://docker/home/home-worker", version: "v1.35.0", runtime: runtimeVersion, images: other},
			want: &Lack{Sure: true, Command: "kind load image-archive " + archive + " --name home"},
		},
		"k3s": {
			node: node{arch: "amd64", provider: "k3s://k3s", version: "v1.35.0+k3s1", runtime: runtimeVersion, images: other},
			want: &Lack{Sure: true, Command: "on k3s: sudo k3s ctr images import " + archive},
		},
		"minikube": {
			node: node{arch: "amd64", labels: map[string]string{"minikube.k8s.io/name": "dev"}, runtime: "docker://28.0.0", images: other},
			want: &Lack{Sure: true, Command: "minikube image load " + archive + " -p dev"},
		},
		"kubeadm": {
			node: node{arch: "amd64", version: "v1.35.0", runtime: runtimeVersion, images: other},
			want: &Lack{Sure: true, Command: "on kubeadm: sudo ctr -n k8s.io images import " + archive},
		},
		"eks":       {node: node{arch: "amd64", provider: "aws:///eu/i-1", version: "v1.35.0-eks-1", runtime: runtimeVersion, images: other}, want: &Lack{Sure: true}},
		"rke2":      {node: node{arch: "amd64", version: "v1.35.0+rke2r1", runtime: runtimeVersion, images: other}, want: &Lack{Sure: true}},
		"crio":      {node: node{arch: "amd64", version: "v1.35.0", runtime: "cri-o://1.35.0", images: other}, want: &Lack{Sure: true}},
		"lists-few": {node: node{arch: "amd64", runtime: "cri-o://1.35.0", images: many}, want: &Lack{}},
		"silent":    {node: node{arch: "amd64", runtime: "cri-o://1.35.0"}, want: &Lack{}},
		"arm":       {node: node{arch: "arm64", runtime: "cri-o://1.35.0"}, want: &Lack{Sure: true, Platform: "linux/arm64"}},
	} {
		t.Run(name, func(t *testing.T) {
			create(name, tt.node)
			all, err := Lacking(t.Context(), cluster.Dynamic, image)
			if err != nil {
				t.Fatal(err)
			}
			var got *Lack
			for i := range all {
				if all[i].Node == name {
					got = &all[i]
					got.Node, got.Image = "", nil
				}
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(Image{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
