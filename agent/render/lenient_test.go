package render_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
)

func TestAKeyThatStandsTwiceInWhatOthersWroteIsAWarning(t *testing.T) {
	twice := configMap("a") + "data:\n  a: first\n  a: last\n"
	mounted := input(render.Raw, tree("-- app/x.yaml --\n"+configMap("b")))
	mounted.Mounts = []render.Mount{{At: "app/more", Path: ".", Files: tree("-- x.yaml --\n" + twice), ThirdParty: true}}
	ownMount := mounted
	ownMount.ThirdParty, ownMount.Mounts = true, []render.Mount{{At: "app/more", Path: ".", Files: tree("-- x.yaml --\n" + twice)}}
	thirdParty := input(render.Raw, tree("-- app/x.yaml --\n"+twice))
	thirdParty.ThirdParty = true
	values := chartOf(template(configMap("a")+"data: {a: '{{ .Values.a }}'}") + "-- app/values.yaml --\na: first\na: last\n")
	for name, test := range map[string]struct {
		in       render.Input
		warnings []string
		refused  string
	}{
		"another repository":      {in: thirdParty, warnings: []string{`app/x.yaml:6: the key "a" stands here already, in line 5`}},
		"a mount":                 {in: mounted, warnings: []string{`app/more/x.yaml:6: the key "a" stands here already, in line 5`}},
		"what a chart prints":     {in: chartOf(template("\n" + twice)), warnings: []string{`app/templates/x.yaml: line 7 of what it renders: the key "a" stands here already, in line 5`}},
		"a chart's own values":    {in: values},
		"the installation repo":   {in: input(render.Raw, tree("-- app/x.yaml --\n"+twice)), refused: `app/x.yaml:6: the key "a" stands here already, in line 5`},
		"its mount among others'": {in: ownMount, refused: `app/more/x.yaml:6: the key "a" stands here already, in line 5`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.refused != "" {
				if failed := failure(t, newRenderer(t), test.in); !strings.HasPrefix(failed.Error(), test.refused) {
					t.Errorf("error %q, want %q", failed, test.refused)
				}
				return
			}
			out := mustRender(t, newRenderer(t), test.in)
			if !slices.Equal(out.Warnings, test.warnings) {
				t.Errorf("warnings %q, want %q", out.Warnings, test.warnings)
			}
			if got := data(out, "a"); got != "last" {
				t.Errorf("a is %q, want the last value", got)
			}
		})
	}
}

func TestAnObjectThatAChartBringsTwiceIsOne(t *testing.T) {
	crd := func(version string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.x.io, labels: {version: " + version + "}}\n"
	}
	sub := "-- app/charts/sub/Chart.yaml --\napiVersion: v2\nname: sub\nversion: 1.0.0\n"
	for name, test := range map[string]struct {
		files    string
		labels   []string // of the objects, by "version"
		warnings int
		refused  string
	}{
		"with the same content":            {files: template(configMap("a") + "---\n# again\n" + configMap("a")), labels: []string{""}},
		"with another":                     {files: template(configMap("a") + "---\n" + configMap("a") + "data: {}"), refused: "ConfigMap/a stands in this service twice"},
		"a parent's CRD and a subchart's":  {files: "-- app/crds/c.yaml --\n" + crd("parent") + sub + "-- app/charts/sub/crds/c.yaml --\n" + crd("sub"), labels: []string{"parent"}, warnings: 1},
		"the same CRD of both":             {files: "-- app/crds/c.yaml --\n" + crd("one") + sub + "-- app/charts/sub/crds/c.yaml --\n" + crd("one"), labels: []string{"one"}},
		"a CRD of Helm 2 beside crds/":     {files: "-- app/crds/c.yaml --\n" + crd("three") + template(strings.Replace(crd("two"), "name:", "annotations: {helm.sh/hook: crd-install}, name:", 1)), labels: []string{"three"}, warnings: 1},
		"a CRD in templates and in crds/":  {files: "-- app/crds/c.yaml --\n" + crd("folder") + template(crd("template")), labels: []string{"folder"}, warnings: 1},
		"an unknown hook among known ones": {files: template(strings.Replace(configMap("h"), "name:", "annotations: {helm.sh/hook: 'pre-install, crd-install'}, name:", 1)), warnings: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if test.refused != "" {
				if failed := failure(t, newRenderer(t), chartOf(test.files)); !strings.Contains(failed.Message, test.refused) {
					t.Error(failed)
				}
				return
			}
			out := mustRender(t, newRenderer(t), chartOf(test.files))
			var labels []string
			for _, object := range out.Objects {
				labels = append(labels, object.GetLabels()["version"])
			}
			if !slices.Equal(labels, test.labels) || len(out.Warnings) != test.warnings {
				t.Errorf("objects %q, warnings %q", labels, out.Warnings)
			}
		})
	}
}

// What helm makes of the ends of documents was read off its own program.
func TestLiteralBlocksEndAsHelmAndKubectlHaveThem(t *testing.T) {
	block := func(header, rest string) string { return configMap("a") + "data:\n  a: " + header + "\n    OK" + rest }
	for name, test := range map[string]struct{ printed, want string }{
		"at the end of the file":         {block("|", ""), "OK\n"},
		"before a separator":             {block("|", "\n---\n"), "OK\n"},
		"before a separator and spaces":  {block("|", "\n---   \n"), "OK\n"},
		"stripped":                       {block("|-", ""), "OK"},
		"kept, at the end":               {block("|+", ""), "OK\n"},
		"kept, with its newline":         {block("|+", "\n"), "OK\n\n"},
		"kept, before a separator":       {block("|+", "\n\n---\n"), "OK\n\n\n"},
		"with a line that looks like it": {block("|", "\n    ---\n    x"), "OK\n---\nx\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := tree(chartYAML) // in an archive each file ends with a newline
			files["app/templates/x.yaml"] = &fstest.MapFile{Data: []byte(test.printed)}
			in := input(render.HelmChart, files)
			if diff := cmp.Diff(any(test.want), data(mustRender(t, newRenderer(t), in), "a")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	raw := input(render.Raw, fstest.MapFS{"app/x.yaml": {Data: []byte(block("|", ""))}})
	if got := data(mustRender(t, newRenderer(t), raw), "a"); got != "OK\n" {
		t.Errorf("a manifest's last block is %q", got)
	}
}
