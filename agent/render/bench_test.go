package render_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/agent/render"
)

// The benchmarks render ten objects, with the start of the child included.

func benchmark(b *testing.B, in render.Input, objects int) {
	r := newRenderer(b)
	for b.Loop() {
		if out := mustRender(b, r, in); len(out.Objects) != objects {
			b.Fatalf("%d objects, want %d", len(out.Objects), objects)
		}
	}
}

func deployments(dir string) fstest.MapFS {
	files := fstest.MapFS{}
	for i := range 10 {
		files[fmt.Sprintf("%s/%d.yaml", dir, i)] = &fstest.MapFile{Data: fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%d, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx, ports: [{containerPort: 80}]}]}
`, i)}
	}
	return files
}

func BenchmarkRenderRaw(b *testing.B) {
	benchmark(b, input(render.Raw, deployments("app")), 10)
}

func BenchmarkRenderKustomize(b *testing.B) {
	files := deployments("app")
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("%d.yaml", i))
	}
	files["app/kustomization.yaml"] = &fstest.MapFile{Data: []byte("namespace: shop\nresources: [" + strings.Join(names, ", ") + "]\n")}
	benchmark(b, input(render.Kustomize, files), 10)
}

func BenchmarkRenderHelm(b *testing.B) {
	files := deployments("app/templates")
	files["app/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: a\nversion: 1.0.0\n")}
	benchmark(b, input(render.HelmChart, files), 10)
}
