package render_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	release "helm.sh/helm/v4/pkg/release/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/test/support/kubetest"
)

func recorded(t *testing.T, in render.Input) *render.Output {
	t.Helper()
	in.Helm = &render.Helm{Release: "rel", Record: true, ValuesJSON: []byte(`{"color":"blue"}`)}
	return mustRender(t, newRenderer(t), in)
}

// decoded reads a stored release as helm's storage driver does: the driver itself would bring its SQL drivers along.
func decoded(t *testing.T, secret *unstructured.Unstructured) *release.Release {
	t.Helper()
	data, _, _ := unstructured.NestedString(secret.Object, "data", "release")
	stored, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(string(stored))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var r release.Release
	if err := json.NewDecoder(unpacked).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestAReleaseIsRecordedWhereHelmLooksForIt(t *testing.T) {
	kube := kubetest.Start(t)
	in := input(render.HelmChart, tree(chart))
	in.Namespace = kube.Namespace
	secrets := kube.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(kube.Namespace)
	if _, err := secrets.Create(t.Context(), recorded(t, in).Record, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The selector, the type and the name are those of helm list and helm status.
	listed, err := secrets.List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed,name=rel,version=1"})
	if err != nil || len(listed.Items) != 1 {
		t.Fatalf("%d releases: %v", len(listed.Items), err)
	}
	secret := &listed.Items[0]
	if kind, _, _ := unstructured.NestedString(secret.Object, "type"); kind != "helm.sh/release.v1" || secret.GetName() != "sh.helm.release.v1.rel.v1" {
		t.Errorf("secret %s of type %s", secret.GetName(), kind)
	}
	r := decoded(t, secret)
	if r.Name != "rel" || r.Namespace != kube.Namespace || r.Version != 1 || r.Info.Status != "deployed" ||
		strings.TrimSpace(r.Info.Notes) != "Enjoy." || r.Config["color"] != "blue" || r.Chart.Metadata.Version != "1.0.0" {
		t.Errorf("release %+v of chart %+v", r, r.Chart.Metadata)
	}
	if !strings.Contains(r.Manifest, "# Source: shop/templates/config.yaml\n") || strings.Contains(r.Manifest, "helm.sh/hook") {
		t.Errorf("manifest:\n%s", r.Manifest)
	}
	if len(r.Hooks) != 4 {
		t.Errorf("%d hooks, want 4", len(r.Hooks))
	}
	for _, file := range r.Chart.Templates {
		if strings.Contains(string(file.Data), "plural") {
			t.Errorf("%s is not the chart's own:\n%s", file.Name, file.Data)
		}
	}
}

func TestTheSameReleaseHasTheSameRecord(t *testing.T) {
	first, second := recorded(t, input(render.HelmChart, tree(chart))), recorded(t, input(render.HelmChart, tree(chart)))
	if fmt.Sprint(first.Record) != fmt.Sprint(second.Record) {
		t.Error("two records differ")
	}
	if out := mustRender(t, newRenderer(t), input(render.HelmChart, tree(chart))); out.Record != nil {
		t.Error("there is a record that nobody asked for")
	}
}

func TestAReleaseTooLargeForASecretIsNotRecorded(t *testing.T) {
	noise := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(noise)
	out := recorded(t, chartOf(template(configMap("a"))+"-- app/files/noise --\n"+base64.StdEncoding.EncodeToString(noise)+"\n"))
	if out.Record != nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "too large for a Secret") {
		t.Errorf("record %v, warnings %q", out.Record != nil, out.Warnings)
	}
}
