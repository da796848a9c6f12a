package join_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/hubsvc/join"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "render-child" {
		os.Exit(render.ChildMain(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

func started(t *testing.T, s join.Start) []*unstructured.Unstructured {
	t.Helper()
	text, err := join.Manifests(s)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for decoder := kyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		out = append(out, obj)
	}
}

// plain is an object as JSON has it, in which all numbers are of one type.
func plain(t *testing.T, obj *unstructured.Unstructured) (out map[string]any) {
	t.Helper()
	text, err := json.Marshal(obj.Object)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An agent that joined is taken over by its package when the fleet gets it: both must be the same but for the token.
func TestAnAgentThatJoinsIsTheOneOfItsPackage(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	chart, err := (&render.Renderer{Command: []string{self, "render-child"}}).Render(t.Context(), render.Input{
		Service: "agent", Renderer: "helm", Path: "agent/chart", Namespace: "plural-system", Files: templates.Catalog(), KubeVersion: "v1.34.0",
		Helm: &render.Helm{Release: "plural-agent", ValuesJSON: []byte(`{"image":{"tag":"1.2.3"}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]*unstructured.Unstructured{}
	for _, obj := range started(t, join.Start{Cluster: "edge", Token: "t", HubURL: "https://hub", Image: "ghcr.io/pluralsh/plural-agent:1.2.3"}) {
		mine[obj.GetKind()+"/"+obj.GetName()] = obj
	}
	for _, want := range chart.Objects {
		name := want.GetKind() + "/" + want.GetName()
		got := mine[name]
		if delete(mine, name); got == nil {
			t.Errorf("%s is in the package alone", name)
			continue
		}
		unstructured.RemoveNestedField(got.Object, "spec", "template", "metadata", "annotations")
		if diff := cmp.Diff(plain(t, want), plain(t, got)); diff != "" {
			t.Errorf("%s (-package +join):\n%s", name, diff)
		}
	}
	for _, own := range []string{"Namespace/plural-system", "Secret/plural-join", "Role/plural-agent-join", "RoleBinding/plural-agent-join"} {
		if delete(mine, own); len(mine) == 0 {
			return
		}
	}
	t.Errorf("not in the package: %v", mine)
}

func TestAnAPIServerTakesWhatStartsAnAgent(t *testing.T) {
	kube := kubetest.Start(t)
	start := join.Start{
		Cluster: "edge: [1]", Token: "plural_join_\n---\n\"", HubURL: "https://hub", HubCA: "PEM\n",
		Repository: strings.Repeat("3f", 16),
		Image:      "ghcr.io/pluralsh/plural-agent:1.2.3",
	}
	for _, obj := range started(t, start) {
		gvr := obj.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(obj.GetKind()) + "s")
		objects := kube.Dynamic.Resource(gvr)
		options := metav1.ApplyOptions{FieldManager: "plural", Force: true}
		var err error
		if obj.GetNamespace() == "" {
			_, err = objects.Apply(t.Context(), obj.GetName(), obj, options)
		} else {
			_, err = objects.Namespace(obj.GetNamespace()).Apply(t.Context(), obj.GetName(), obj, options)
		}
		if err != nil {
			t.Errorf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
}
