package packages

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/tools/release/images"
)

// A node that lacks the images is told of before anything is made; images that somebody says a registry has are not looked for.
func TestUpNamesNodesThatLackTheImagesOfAFolder(t *testing.T) {
	cluster := kubetest.StartApart(t)
	o := &operator{TB: t, home: t.TempDir(), kubeconfig: cluster.Kubeconfig}
	o.settle("ada")
	folder := filepath.Join(o.home, "images")
	program := filepath.Join(o.home, "program")
	if err := os.WriteFile(program, []byte("#!"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plural", "plural-agent"} {
		layout := filepath.Join(folder, name)
		if err := os.MkdirAll(layout, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := images.Pack(t.Context(), layout, &images.Image{
			Name: "ghcr.io/pluralsh/" + name + ":dev-1", Created: time.Unix(0, 0),
			Programs: []images.Program{{OS: "linux", Arch: "amd64", File: program}},
		})
		if err == nil {
			err = images.Archive(layout, layout+".tar", time.Unix(0, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	node := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "home-worker"},
		"spec": map[string]any{"providerID": "kind://docker/home/home-worker"},
	}}
	nodes := cluster.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	made, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Object["status"] = map[string]any{
		"images": []any{map[string]any{"names": []any{"ghcr.io/pluralsh/plural:dev-1"}}},
	}
	if _, err := nodes.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	fleet := filepath.Join(o.home, "fleet")
	up := []string{
		"up", fleet, "--context", "kubetest", "--hub-url", "http://127.0.0.1:1", "--repo-url", "file:///nowhere", "--yes", "--images",
	}
	o.fails(1, append(up, folder)...).says(t,
		[]string{"node home-worker", "it lacks ghcr.io/pluralsh/plural-agent:dev-1", "nothing was done"},
		[]string{"kind load image-archive " + filepath.Join(folder, "plural-agent.tar") + " --name home"})
	o.fails(1, append(up, filepath.Join(o.home, "other"))...).says(t, []string{filepath.Join("other", "plural", "index.json")}, []string{"make images"})
	if o.exists(fleet) {
		t.Error("something was made")
	}
	o.fails(1, append(up, folder, "--set", "agent.image=registry.example.com/agent")...).says(t, []string{"repository not found"}, nil)
}
