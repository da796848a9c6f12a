package render_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
)

func chartOf(files string) render.Input { return input(render.HelmChart, tree(chartYAML+files)) }

func template(text string) string { return "-- app/templates/x.yaml --\n" + text + "\n" }

// cluster answers lookups from a map of "apiVersion kind namespace name", and keeps the questions.
type cluster struct {
	objects map[string]map[string]any
	asked   []string
}

func (c *cluster) lookup(_ context.Context, apiVersion, kind, namespace, name string) (map[string]any, error) {
	question := fmt.Sprintf("%s %s %s %s", apiVersion, kind, namespace, name)
	c.asked = append(c.asked, question)
	if kind == "Forbidden" {
		return nil, errors.New("secrets is forbidden")
	}
	return c.objects[question], nil
}

func data(out *render.Output, key string) any {
	return out.Objects[0].Object["data"].(map[string]any)[key]
}

func TestAChartLooksUpWhatTheClusterHas(t *testing.T) {
	c := &cluster{objects: map[string]map[string]any{
		"v1 Secret shop db": {"data": map[string]any{"password": "aHVudGVyMg=="}, "metadata": map[string]any{"generation": int64(9007199254740993)}},
		"v1 Node  ":         {"items": []any{map[string]any{"metadata": map[string]any{"name": "a"}}, map[string]any{}}},
	}}
	in := chartOf(template(`apiVersion: v1
kind: ConfigMap
metadata: {name: x}
data:
  password: {{ (lookup "v1" "Secret" .Release.Namespace "db").data.password | b64dec }}
  again: {{ (lookup "v1" "Secret" .Release.Namespace "db").metadata.generation | quote }}
  nodes: {{ (lookup "v1" "Node" "" "").items | len | quote }}
  gone: {{ empty (lookup "v1" "Secret" "shop" "gone") | quote }}`))
	in.Lookup = c.lookup
	out := mustRender(t, newRenderer(t), in)
	for key, want := range map[string]string{"password": "hunter2", "again": "9007199254740993", "nodes": "2", "gone": "true"} {
		if got := data(out, key); got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if want := []string{"v1 Secret shop db", "v1 Node  ", "v1 Secret shop gone"}; !cmp.Equal(c.asked, want) {
		t.Errorf("asked %q, want %q", c.asked, want)
	}
	if !out.Lookup {
		t.Error("the output does not say that it looked something up")
	}
}

func TestWithoutAClusterALookupFindsNothingAndIsNoted(t *testing.T) {
	out := mustRender(t, newRenderer(t), chartOf(template(configMap(`{{ if not (lookup "v1" "Secret" "a" "b") }}none{{ end }}`))))
	if got := out.Objects[0].GetName(); got != "none" || !out.Lookup {
		t.Errorf("name %q, lookup noted: %v", got, out.Lookup)
	}
	if out := mustRender(t, newRenderer(t), chartOf(template(configMap("a")))); out.Lookup || out.Capabilities {
		t.Error("a chart that asks nothing is said to have asked")
	}
}

func TestALookupThatFailsHasAPlace(t *testing.T) {
	in := chartOf(template("\n" + `{{ lookup "v1" "Forbidden" "" "x" }}`))
	in.Lookup = (&cluster{}).lookup
	failed := failure(t, newRenderer(t), in)
	if failed.File != "app/templates/x.yaml" || failed.Line != 2 || !strings.Contains(failed.Message, "secrets is forbidden") {
		t.Error(failed)
	}
}

func TestLookupsAreBounded(t *testing.T) {
	r := newRenderer(t)
	r.Limits = render.Limits{Lookups: 10, Looked: 1 << 20}
	large := &cluster{objects: map[string]map[string]any{"v1 Secret  1": {"data": strings.Repeat("x", 2<<20)}}}
	for name, test := range map[string]struct {
		template string
		want     string
	}{
		"count": {`{{ range until 11 }}{{ lookup "v1" "ConfigMap" "" (print .) }}{{ end }}`, "looks up more than 10 objects"},
		"bytes": {`{{ lookup "v1" "Secret" "" "1" }}`, "looks up more than 1 MiB"},
	} {
		in := chartOf(template(test.template))
		in.Lookup = large.lookup
		failed := failure(t, r, in)
		if isLimit(t, failed, "app/templates/x.yaml"); !strings.Contains(failed.Message, test.want) {
			t.Errorf("%s: %v", name, failed)
		}
	}
	stillRenders(t, r)
}

func TestALookupEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in := chartOf(template(`{{ lookup "v1" "Secret" "" "x" }}`))
	in.Lookup = func(ctx context.Context, _, _, _, _ string) (map[string]any, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := newRenderer(t).Render(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestCapabilitiesAreNotedWhereverAChartMentionsThem(t *testing.T) {
	mention := `{{ .Capabilities.APIVersions.Has "v1" }}`
	for name, files := range map[string]string{
		"a template": template(configMap("a") + "# " + mention),
		"a partial":  template(configMap("a")) + "-- app/templates/_x.tpl --\n{{ define \"x\" }}" + mention + "{{ end }}\n",
		"a value":    template(configMap("a")) + "-- app/values.yaml --\nx: '" + mention + "'\n",
		"a file":     template(configMap("a")) + "-- app/files/x --\n" + mention + "\n",
		"a subchart": template(configMap("a")) + "-- app/charts/s/Chart.yaml --\n{apiVersion: v2, name: s, version: 1.0.0}\n" +
			"-- app/charts/s/templates/x.yaml --\n{{ if " + strings.Trim(mention, "{}") + "}}{{ end }}\n",
	} {
		if out := mustRender(t, newRenderer(t), chartOf(files)); !out.Capabilities {
			t.Errorf("%s: not noted", name)
		}
	}
	in := withValues(chartOf(template(configMap("a"))+"-- x.yaml --\nx: '"+mention+"'\n"), "x.yaml")
	if out := mustRender(t, newRenderer(t), in); !out.Capabilities {
		t.Error("a values file: not noted")
	}
}

func TestCRDsCanBeLeftOut(t *testing.T) {
	in := input(render.HelmChart, tree(chart))
	in.Helm = &render.Helm{SkipCRDs: true}
	for _, object := range mustRender(t, newRenderer(t), in).Objects {
		if object.GetKind() == "CustomResourceDefinition" {
			t.Errorf("%s is there", object.GetName())
		}
	}
}

func TestHooksOfOneNameAreApartUnlessTheyMeet(t *testing.T) {
	hook := func(event string) string {
		return "\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hooks, annotations: {helm.sh/hook: \"" + event + "\"}}\n"
	}
	out := mustRender(t, newRenderer(t), chartOf(template("---"+hook("pre-delete")+hook("pre-install")+hook("test"))))
	want := []string{"app/templates/x.yaml: the hook ServiceAccount/hooks stands in this service already, in app/templates/x.yaml: left out"}
	if len(out.Objects) != 2 || !cmp.Equal(out.Warnings, want) {
		t.Errorf("%d objects, warnings %q", len(out.Objects), out.Warnings)
	}
	for _, object := range out.Objects {
		if event := object.GetAnnotations()["helm.sh/hook"]; event != "pre-install" && event != "pre-delete" {
			t.Errorf("a hook %s", event)
		}
	}
	failed := failure(t, newRenderer(t), chartOf(template("---"+hook("pre-install")+hook("post-install, pre-install"))))
	if !strings.Contains(failed.Message, "stands in this service twice") {
		t.Error(failed)
	}
}

func TestHooksMayLeaveTheirNameToBeGenerated(t *testing.T) {
	for _, annotation := range []string{"helm.sh/hook: pre-install", "helm.sh/hook: post-delete", "argocd.argoproj.io/hook: PreSync", "plural.sh/hook: pre-sync"} {
		one := "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: migrate-, annotations: {" + annotation + "}}\n"
		out := mustRender(t, newRenderer(t), chartOf(template(one+"---\n"+one)))
		if len(out.Objects) != 2 || out.Objects[0].GetGenerateName() != "migrate-" || out.Objects[0].GetName() != "" {
			t.Errorf("%s: %v", annotation, out.Objects)
		}
	}
}

func TestAChartsTemplateThatDoesNotExecuteIsToldWithWhatMendsIt(t *testing.T) {
	const correct = "correct app/templates/x.yaml:2"
	value := func(name string) string {
		return "plural service set web --value " + name + "=VALUE, where it lacks a value; or " + correct
	}
	for text, want := range map[string]string{
		"a: b\nc: {{ .Values.image.tag }}":                 value("image.tag"),
		"a: b\nc: {{ required \"give a tag\" .Values.t }}": value("NAME"),
		"a: b\nc: {{ if }}":                                correct + ", or the values that it reads",
	} {
		in := chartOf(template(text))
		in.Service = "web"
		if got := failure(t, newRenderer(t), in); got.Fix != want {
			t.Errorf("%q: %q, want %q", text, got.Fix, want)
		}
	}
}
