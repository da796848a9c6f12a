package unread_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/unread"
)

// own has the service's files in the folder app of one snapshot.
type own struct{ files *snapshot.Snapshot }

func (o own) Snapshot(string, string) (*snapshot.Snapshot, error) { return o.files, nil }

func TestWhatNothingReadsIsFound(t *testing.T) {
	chart := map[string]string{
		"Chart.yaml":           "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: redis, version: 1.0.0, repository: \"\", alias: cache}]\n",
		"values.yaml":          "replicas: 1\nimage: {tag: a, repository: b}\nlabels: {}\nnothing: null\n",
		"templates/_help.tpl":  `{{ define "x" }}{{ .Values.extra.name }}{{ with .Values.pod }}{{ .annotations }}{{ end }}{{ index .Values "a-b" "c" }}{{ end }}`,
		"charts/cache/a.yaml":  "",
		"values.schema.json":   `{"properties": {"fromSchema": {}}}`,
		"templates/notes.yaml": "{{- /* .ValuesOfNobody */ -}}",
	}
	with := func(name, text string) map[string]string {
		files := map[string]string{name: text}
		for name, text := range chart {
			if _, given := files[name]; !given {
				files[name] = text
			}
		}
		return files
	}
	manifest := map[string]string{"a.yaml.tmpl": `{{ .parameters.replicas }}{{ index .parameters "image-tag" }}`}
	for name, c := range map[string]struct {
		files      map[string]string
		spec, want string
	}{
		"parameter": {
			manifest, `{parameters: {replcas: "3", replicas: "1", image-tag: a}}`,
			"spec.parameters.replcas near replicas",
		},
		"no template":          {map[string]string{"a.yaml": "a: b"}, `{parameters: {a: b}}`, "spec.parameters.a"},
		"read by nothing near": {manifest, `{parameters: {color: red}}`, "spec.parameters.color"},
		"all at once":          {map[string]string{"a.yaml.tmpl": "{{ toYaml .parameters }}"}, `{parameters: {a: b}}`, ""},
		"in a loop": {
			map[string]string{"a.yaml.tmpl": "{{ range $k, $v := .parameters }}{{ end }}"},
			`{parameters: {a: b}}`, "",
		},
		"parameter that is a value": {
			chart, `{parameters: {image.tag: a, replicas: "3", extra.name: b, color: red}}`,
			"spec.parameters.color, spec.parameters.extra.name as a value, spec.parameters.image.tag as a value, " +
				"spec.parameters.replicas as a value",
		},
		"by a value": {chart, `{parameters: {n: "1"}, helm: {values: {replicas: "{{ .parameters.n }}"}}}`, ""},
		"by a test":  {manifest, `{parameters: {n: "1"}, tests: [{name: a, http: {service: web, port: "80", path: "/{{ .parameters.n }}"}}]}`, ""},
		"value":      {chart, `{helm: {values: {replcas: 3}}}`, "spec.helm.values.replcas near replicas"},
		"value deep down": {
			chart, `{helm: {values: {image: {repositry: b, tag: c}}}}`,
			"spec.helm.values.image.repositry near repository",
		},
		"swapped letters":              {chart, `{helm: {values: {image: {tga: c}}}}`, "spec.helm.values.image.tga near tag"},
		"value of nothing":             {chart, `{helm: {values: {imag: {tag: c, pull: d}}}}`, "spec.helm.values.imag near image"},
		"known, or free":               {chart, `{helm: {values: {replicas: 1, labels: {a: b}, nothing: {a: b}, global: {a: b}, cache: {a: b}, fromSchema: 1}}}`, ""},
		"read by a template":           {chart, `{helm: {values: {extra: {name: a}, pod: {annotations: {a: b}}, a-b: {c: d}}}}`, ""},
		"beside what a template reads": {chart, `{helm: {values: {extra: {nmae: a}}}}`, "spec.helm.values.extra.nmae near name"},
		"values all at once":           {with("templates/a.yaml", "{{ toYaml .Values }}"), `{helm: {values: {any: 1}}}`, ""},
		"a packed chart":               {with("charts/lib-1.0.0.tgz", "?"), `{helm: {values: {any: 1}}}`, ""},
		"defaults that read":           {with("values.yaml", "text: '{{ .Values.any }}'"), `{helm: {values: {any: 1}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				file := filepath.Join(dir, "app", name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			files, err := snapshot.Worktree(dir)
			if err != nil {
				t.Fatal(err)
			}
			s := fleet.Service{Metadata: fleet.Metadata{Name: "web"}}
			if err := yaml.Unmarshal([]byte(c.spec), &s.Spec); err != nil {
				t.Fatal(err)
			}
			s.Spec.Source.Path, s.Spec.Clusters.Names = "app", []string{"edge"}
			f := fleet.Fleet{Clusters: []fleet.Cluster{{Metadata: fleet.Metadata{Name: "edge"}}}, Services: []fleet.Service{s}}
			deployments, err := resolve.For(&f, "edge", own{files})
			if err != nil || deployments[0].Hold != nil {
				t.Fatal(err, deployments[0].Hold)
			}
			var got []string
			for _, n := range unread.Of(&deployments[0], &s) {
				line := n.Field
				if n.Nearest != "" {
					line += " near " + n.Nearest
				}
				if n.Value {
					line += " as a value"
				}
				got = append(got, line)
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

func TestParametersOfClustersThatNoServiceReadsAreFound(t *testing.T) {
	f := &fleet.Fleet{
		Clusters: []fleet.Cluster{{
			Metadata: fleet.Metadata{Name: "edge"},
			Spec:     fleet.ClusterSpec{Parameters: map[string]string{"regoin": "eu", "zone": "a"}},
		}},
		Services: []fleet.Service{{Spec: fleet.ServiceSpec{Parameters: map[string]string{
			"a": "{{ .cluster.parameters.region }}", "b": `{{ index .cluster.parameters "zone" }}`,
		}}}},
	}
	if got := fmt.Sprint(unread.OfClusters(f)); got != "[{{spec.parameters.regoin region false} [edge]}]" {
		t.Error(got)
	}
}
