package inspect_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/test/support/kubetest"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {Example.com/Note: hello}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, tier: front}}
    spec:
      terminationGracePeriodSeconds: 0
      nodeSelector: {kubernetes.io/os: linux}
      volumes: [{name: data, emptyDir: {}}]
      containers:
      - name: web
        image: registry.example.com:5000/team/web:1.27@sha256:94a00394bc5a8ef503fb59db0a7d0ae9e1110866e8aee8ba40cd864cea69ea1a
        ports: [{containerPort: 8080, hostPort: 0}]
        env: [{name: my.var-1, value: x}]
        volumeMounts: [{name: data, mountPath: /data}]
        resources: {requests: {cpu: 10m, memory: 1.5Gi}, limits: {cpu: 1, memory: 2e9}}
        readinessProbe: {httpGet: {port: http, path: /}, initialDelaySeconds: 0}
`

const service = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
`

// change is one mistake in an object that is sound.
type change struct{ of, from, to string }

// What is told of an object's values is what an API server refuses, and the other way round.
func TestValuesAreJudgedAsAnAPIServerDoes(t *testing.T) {
	t.Parallel()
	changes := map[string]change{
		"sound":         {web, "", ""},
		"sound-service": {service, "", ""},
		"sound-role":    {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: 'a:B_c'}\n", "", ""},
		"sound-budget": {
			"apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web_pdb}\nspec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}\n",
			"", "",
		},
		"sound-blanks-of-a-quantity": {web, "cpu: 10m", "cpu: ' 10m '"},
		"sound-no-replicas":          {web, "replicas: 2", "replicas: 0"},
		"sound-equal-limit":          {web, "cpu: 10m", "cpu: 1000m"},
		"sound-empty-label":          {web, "labels: {app: web}, ann", "labels: {app: ''}, ann"},
		"a-name":                     {web, "name: web, labels", "name: Pod_web, labels"},
		"a-service-s-name":           {service, "name: web", "name: web.front"},
		"a-label":                    {web, "labels: {app: web}, ann", "labels: {app web: web}, ann"},
		"a-label-s-value":            {web, "labels: {app: web}, ann", "labels: {app: web!}, ann"},
		"an-annotation":              {web, "Example.com/Note", "Example.com/No te"},
		"replicas":                   {web, "replicas: 2", "replicas: -3"},
		"a-port":                     {web, "containerPort: 8080", "containerPort: 98980"},
		"no-port":                    {web, "containerPort: 8080", "containerPort: 0"},
		"a-service-s-port":           {service, "port: 80,", "port: 0,"},
		"a-target-port":              {service, "targetPort: http", "targetPort: 70000"},
		"a-container-s-name":         {web, "name: web\n        image", "name: podInfo!\n        image"},
		"a-quantity":                 {web, "cpu: 10m", "cpu: 10mm"},
		"a-quantity-of-bytes":        {web, "1.5Gi", "1.5GiB"},
		"more-than-the-limit":        {web, "cpu: 10m", "cpu: 2"},
		"another-selector":           {web, "matchLabels: {app: web}", "matchLabels: {app: api}"},
		"a-selector-s-value":         {service, "selector: {app: web}", "selector: {app: 'a b'}"},
		"a-mount-of-nothing":         {web, "volumeMounts: [{name: data", "volumeMounts: [{name: date"},
		"a-volume-s-name":            {web, "volumes: [{name: data", "volumes: [{name: Data"},
		"a-variable":                 {web, "name: my.var-1", "name: a=b"},
		"a-probe-s-port":             {web, "port: http", "port: 0"},
		"a-probe-s-delay":            {web, "initialDelaySeconds: 0", "initialDelaySeconds: -1"},
		"a-node-s-label":             {web, "kubernetes.io/os: linux", "kubernetes.io/os: 'a b'"},
	}
	cluster := kubetest.Start(t)
	dir := t.TempDir()
	refused := map[string]string{}
	for name, c := range changes {
		text := strings.Replace(c.of, c.from, c.to, 1)
		if text == c.of && !strings.HasPrefix(name, "sound") {
			t.Fatalf("%s changes nothing", name)
		}
		file := "apps/" + name + "/object.yaml"
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(name, err)
		}
		kind := o.GroupVersionKind()
		_, err := cluster.Dynamic.Resource(kind.GroupVersion().WithResource(strings.ToLower(kind.Kind)+"s")).Namespace(cluster.Namespace).
			Create(t.Context(), &o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			refused[name] = err.Error()
		}
	}
	told := judged(t, dir, changes)
	for name := range changes {
		if (refused[name] == "") != (told[name] == "") {
			t.Errorf("%s: the API server says %q, and this says %q", name, refused[name], told[name])
		}
		if sound := strings.HasPrefix(name, "sound"); sound != (refused[name] == "") {
			t.Errorf("%s: the API server says %q", name, refused[name])
		}
	}
}

// judged are the errors of the services of these names, each with a cluster of its own.
func judged(t *testing.T, dir string, names map[string]change) map[string]string {
	t.Helper()
	var f fleet.Fleet
	versions := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f.Clusters = append(f.Clusters, fleet.Cluster{Metadata: fleet.Metadata{Name: name}})
		f.Services = append(f.Services, fleet.Service{
			Metadata: fleet.Metadata{Name: name},
			Spec: fleet.ServiceSpec{
				Namespace: "web", Source: fleet.SourceRef{Path: "apps/" + name}, Clusters: fleet.Selector{Names: []string{name}},
			},
		})
		versions[name] = "v1.35.4"
	}
	files, err := snapshot.Worktree(dir)
	if err != nil {
		t.Fatal(err)
	}
	renderer, err := preview.New(files, func() ([]age.Identity, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	report, err := inspect.Run(t.Context(), inspect.Inspection{
		Fleet: &f, Sources: own{files}, Resolver: resolve.New(), Renderer: renderer, Versions: versions,
	})
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for _, e := range report.Errors {
		name := strings.Split(e.Where, "/")[1]
		told[name] += e.Sentence() + "\n"
	}
	for _, failed := range report.Failed {
		told[failed.Service] += failed.Err.Error()
	}
	return told
}
