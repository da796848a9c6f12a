package resolve

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAChartsKeyLeavesOutWhatNoTemplateCanRead changes the README and the values of another place, which only .Files reaches.
func TestAChartsKeyLeavesOutWhatNoTemplateCanRead(t *testing.T) {
	made := map[string]string{
		"web/Chart.yaml": chartYAML, "web/values.yaml": "a: 1", "web/templates/a.yaml": "a: {{ .Values.a }}", "web/crds/c.yaml": "c",
		"web/requirements.yaml": "", "web/charts/sub/Chart.yaml": chartYAML, "web/charts/sub/templates/b.yaml": "b",
	}
	mounted := map[string]string{"lib/Chart.yaml": chartYAML}
	unread := map[string]string{
		"web/README.md": "one", "web/values-prod.yaml": "a: 2", "web/ci/test.yaml": "x", "web/charts/sub/README.md": "one",
	}
	for name, test := range map[string]struct {
		spec  string
		more  map[string]string
		holds []string // of what else would be unread
		all   bool
	}{
		"plain":                          {spec: "source: {path: web}"},
		"values of its own":              {spec: "source: {path: web}, helm: {valuesFiles: [web/values-prod.yaml]}", holds: []string{"web/values-prod.yaml"}},
		"a folder that it includes":      {spec: "source: {path: web}, include: [web/ci]", holds: []string{"web/ci/test.yaml"}},
		"a template that reads files":    {spec: "source: {path: web}", more: map[string]string{"web/templates/x.yaml": `{{ .Files.Get "README.md" }}`}, all: true},
		"a subchart that reads files":    {spec: "source: {path: web}", more: map[string]string{"web/charts/sub/templates/_x": "{{ $.Files }}"}, all: true},
		"a template of values":           {spec: "source: {path: web}", more: map[string]string{"web/templates/x.yaml": "{{ tpl .Values.a . }}"}, all: true},
		"a subchart that is packed":      {spec: "source: {path: web}", more: map[string]string{"web/charts/lib-1.0.0.tgz": "packed"}, all: true},
		"a subchart that is mounted":     {spec: "source: {path: web}, mounts: [{source: {path: lib}, at: web/charts/lib}]", all: true},
		"a release that helm is to list": {spec: "source: {path: web}, helm: {record: true}", all: true},
	} {
		t.Run(name, func(t *testing.T) {
			contents := maps.Clone(made)
			maps.Copy(contents, test.more)
			wants := slices.Sorted(maps.Keys(contents))
			maps.Copy(contents, unread)
			maps.Copy(contents, mounted)
			if wants = append(wants, test.holds...); test.all {
				wants = slices.AppendSeq(wants, maps.Keys(unread))
			}
			slices.Sort(wants)
			was := only(t, test.spec, contents)
			if diff := cmp.Diff(wants, slices.Sorted(maps.Keys(carried(t, was)))); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			contents["web/README.md"] = "two"
			if now := only(t, test.spec, contents); (now.Key == was.Key) == test.all {
				t.Errorf("the README is changed; the key is the same: %v", now.Key == was.Key)
			}
			contents["web/templates/a.yaml"] += "\n"
			if now := only(t, test.spec, contents); now.Key == was.Key {
				t.Error("a template is changed, the key is not")
			}
		})
	}
}
