package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkValidate is what a person waits for who checks a fleet of 300 services on ten clusters, by a program that has nothing in
// memory: a third are manifests, a third kustomizations, a third charts, and each tenth renders differently on each cluster.
func BenchmarkValidate(b *testing.B) {
	const services, target = 300, 3.0
	bin, dir := binaries(b), b.TempDir()
	b.Setenv("HOME", dir)
	write := func(name, text string) {
		file := filepath.Join(dir, "fleet", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: fleet}\nspec: {}\n")
	for c := range 10 {
		write(fmt.Sprintf("clusters/c%d.yaml", c), fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: c%d}\nspec: {tags: {env: prod}}\n", c))
	}
	const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.29
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /, port: http}}
        resources: {limits: {cpu: 500m, memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {key: value}
`
	for s := range services {
		folder := fmt.Sprintf("apps/s%d/", s)
		more := ""
		switch {
		case s%10 == 0:
			more = ", parameters: {name: '{{ .cluster.name }}'}"
			write(folder+"web.yaml.tmpl", strings.Replace(workload, "key: value", "key: {{ .parameters.name }}", 1))
		case s%3 == 0:
			write(folder+"web.yaml", workload)
		case s%3 == 1:
			write(folder+"kustomization.yaml", "resources: [web.yaml]\nnamePrefix: a-\n")
			write(folder+"web.yaml", workload)
		default:
			write(folder+"Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
			write(folder+"values.yaml", "replicas: 2\n")
			write(folder+"templates/web.yaml", strings.Replace(workload, "replicas: 2", "replicas: {{ .Values.replicas }}", 1))
		}
		write(fmt.Sprintf("services/s%d.yaml", s), fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: s%d}\n"+
			"spec: {source: {path: apps/s%d}, namespace: s%d, clusters: {matchLabels: {env: prod}}%s}\n", s, s, s, more))
	}
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), filepath.Join(bin, "plural"), "-C", filepath.Join(dir, "fleet"), "validate")
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(began)
		if err != nil || !strings.Contains(string(out),
			"fleet is sound: 10 clusters, 0 sources, 300 services\nrendered and checked: 1710 objects") {
			b.Fatal(err, string(out))
		}
		b.Logf("%v of processor time", cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		report("validate_300_services_s", took.Seconds(), "s")
		if took.Seconds() > target {
			b.Logf("over its target of %v s", target)
		}
	}
}
