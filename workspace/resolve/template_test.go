package resolve

import (
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/workspace/fleet"
)

func testScope() scope {
	return clusterScope(&fleet.Cluster{
		Metadata: fleet.Metadata{Name: "eu-1"},
		Spec:     fleet.ClusterSpec{Tags: map[string]string{"env": "Prod", "my-tag": "x", "empty": ""}, Parameters: map[string]string{"domain": "example.com"}},
	})
}

func TestTemplates(t *testing.T) {
	for _, test := range []struct{ in, want, err string }{
		{in: "plain", want: "plain"},
		{in: "", want: ""},
		{in: "{{ .cluster.name }}.{{ .cluster.parameters.domain }}", want: "eu-1.example.com"},
		{in: "a {{- .cluster.name -}} b", want: "aeu-1b"},
		{in: "{{ .cluster.tags.env | lower | quote }}", want: `"prod"`},
		{in: `{{ upper (replace "-" "_" .cluster.name) }}`, want: "EU_1"},
		{in: `{{ .cluster.tags.gone | default "none" }}`, want: "none"},
		{in: `{{ default "none" .cluster.tags.empty }}`, want: "none"},
		{in: `{{ .cluster.tags.gone | default .cluster.name }}`, want: "eu-1"},
		{in: `{{ index .cluster.tags "my-tag" }}`, want: "x"},
		{in: `{{ index .cluster.tags "gone" | default "d" }}`, want: "d"},
		{in: `{{ "{{" }} .Release.Name {{ "}}" }}`, want: "{{ .Release.Name }}"},
		{in: `{{ trim " a " }}{{/* said */}}`, want: "a"},
		{in: "{{ .cluster.tags.gone }}", err: ".cluster.tags.gone has no value"},
		{in: "{{ .cluster.tags.gone | default .cluster.tags.also }}", err: ".cluster.tags.also has no value"},
		{in: "{{ .cluster.tags.gone | lower }}", err: "has no value"},
		{in: "{{ .Values.x }}", err: ".Values.x has no value"},
		{in: "{{ .cluster.name.x }}", err: "has no value"},
		{in: "{{ .cluster.tags }}", err: "is a group of values"},
		{in: "{{ . }}", err: "not allowed"},
		{in: "{{ 1 }}", err: "not allowed"},
		{in: "{{ if true }}x{{ end }}", err: "not allowed"},
		{in: "{{ range .cluster.tags }}x{{ end }}", err: "not allowed"},
		{in: "{{ with .cluster }}x{{ end }}", err: "not allowed"},
		{in: `{{ define "x" }}{{ end }}`, err: "not allowed"},
		{in: `{{ template "x" }}`, err: "not allowed"},
		{in: `{{ $x := "a" }}`, err: "not allowed"},
		{in: `{{ (.cluster).name }}`, err: "not allowed"},
		{in: `{{ env "HOME" }}`, err: `function "env" not defined`},
		{in: `{{ lower }}`, err: "lower takes 1 arguments, not 0"},
		{in: `{{ "a" "b" }}`, err: "is not a function"},
		{in: `{{ "a" | .cluster.name }}`, err: "is not a function"},
		{in: "{{ .secrets.db.password }}", err: "known to the agent only"},
		{in: `{{ .secrets.db.password | default "x" }}`, err: "known to the agent only"},
		{in: `{{ index .secrets "db" }}`, err: "known to the agent only"},
		{in: "{{ .cluster.name", err: "unclosed action"},
		{in: `{{ .cluster.name | default "{{ \"a\" }}" }}{{ "}}" }}{{- " b" }}`, want: "eu-1}} b"},
		{in: "{{/* {{ \"a\" }} */}}{{ `{{ \"b\" }}` }}", want: `{{ "b" }}`},
		{in: `a {{- "b" -}} c`, want: "abc"},
		{in: `a {{ "b" }} {{- .cluster.name -}} {{ "\u007b{" }}`, want: "a beu-1{{"},
		{in: `{{ "` + strings.Repeat("{{", maxOutput) + `" }}`, want: strings.Repeat("{{", maxOutput)},
		{in: strings.Repeat("a", maxTemplate) + "{{", err: "longer than 4096"},
		{in: `{{ replace "" "` + strings.Repeat("a", 3000) + `" "` + strings.Repeat("b", 900) + `" }}`, err: "longer than 65536"},
	} {
		got, err := compile(test.in).render(testScope())
		switch {
		case test.err == "" && (err != nil || got != test.want):
			t.Errorf("%q = %q, %v; want %q", test.in, got, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: error %v, want %q", test.in, err, test.err)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{{ .cluster.tags.env | replace "" "aaaa" | quote | quote | upper }}`)
	f.Add(`{{ default (index .cluster.tags "x") .cluster.name }}`)
	f.Add(`{{ .x }}{{ "{{" }} {{- "a" -}} {{ "b" }}{{/* {{ "c" }} */}}`)
	f.Add(`{{ range $i, $x := .cluster }}{{ template "x" . }}{{ end }}`)
	f.Fuzz(func(t *testing.T, text string) {
		begin := time.Now()
		out, err := compile(text).render(testScope())
		if err == nil && len(out) > maxOutput+len(text) {
			t.Errorf("%d bytes of output", len(out))
		}
		if whole, failed := nodesOf(text); failed == nil && len(text) <= maxTemplate {
			var c compiled
			for _, node := range whole {
				c.pieces = append(c.pieces, segment{node: node})
			}
			if same, other := c.render(testScope()); (err == nil) != (other == nil) || same != out {
				t.Errorf("%q, %v; with all texts parsed %q, %v", out, err, same, other)
			}
		}
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func FuzzKustomization(f *testing.F) {
	f.Add([]byte("resources: [a, *b]\npatches: [{path: x, patch: |\n  a\n}]\n"))
	f.Add([]byte("resources: &x [*x]\nconfigMapGenerator: [{files: [a=b, c], envs: [d]}]\n"))
	f.Add([]byte("a: &a [1,1]\nb: &b [*a,*a]\nresources: *b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found := parseKustomization(data)
		for _, ref := range found.refs {
			if ref.line < 1 {
				t.Errorf("%q has no line", ref.path)
			}
		}
	})
}
