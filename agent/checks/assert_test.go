package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/checks"
)

func TestAssertionsLookAtLiveObjects(t *testing.T) {
	w := start(t)
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}, data: {color: red}}`)
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, labels: {app: web}}, data: {color: blue}}`)
	w.create("secrets", `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2}}`)
	for _, tt := range []struct {
		name string
		cel  checks.Assertion
		want string
	}{
		{"one object", checks.Assertion{Version: "v1", Kind: "ConfigMap", Name: "a", Expression: `self.data.color == "red"`}, ""},
		{"any version", checks.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.apiVersion == "v1"`}, ""},
		{"a version that is gone", checks.Assertion{Version: "v1beta1", Kind: "ConfigMap", Name: "a", Expression: `true`}, ""},
		{"all that fit", checks.Assertion{Kind: "ConfigMap", Selector: "app=web", Expression: `items.map(i, i.data.color) == ["red", "blue"]`}, ""},
		{"none that fits", checks.Assertion{Kind: "ConfigMap", Selector: "app=none", Expression: `items.size() == 0`}, ""},
		{"a kind without namespaces", checks.Assertion{Kind: "Namespace", Name: w.Namespace, Expression: `self.status.phase == "Active"`}, ""},
		{"another namespace", checks.Assertion{Kind: "ServiceAccount", Namespace: "default", Name: "default", Expression: `self.metadata.namespace == "default"`}, ""},
		{"that a Secret has a value", checks.Assertion{Kind: "Secret", Name: "s", Expression: `has(self.data.password)`}, ""},
		{"but not which", checks.Assertion{Kind: "Secret", Name: "s", Expression: `self.data.password == ""`}, ""},
		{"who manages what is not shown", checks.Assertion{Kind: "ConfigMap", Name: "a", Expression: `!has(self.metadata.managedFields)`}, ""},
		{
			"false",
			checks.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.data.color == "blue"`},
			"assertion 1: ConfigMap " + w.Namespace + `/a: not true: self.data.color == "blue"`,
		},
		{"false, in words", checks.Assertion{Kind: "ConfigMap", Selector: "app=web", Expression: `false`, Message: "no colour"}, "ConfigMap " + w.Namespace + "/*: no colour"},
		{"a field that is not there", checks.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.data.shape == "x"`}, "no such key: shape"},
		{"no such object", checks.Assertion{Kind: "ConfigMap", Name: "c", Expression: `true`}, "there is no ConfigMap " + w.Namespace + "/c"},
		{"no such kind", checks.Assertion{Group: "x.io", Kind: "Thing", Name: "c", Expression: `true`}, "does not serve kind Thing.x.io"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.try(checks.Test{Name: "sane", CEL: []checks.Assertion{tt.cel}})
			if got.Passed != (tt.want == "") || !strings.Contains(got.Message, tt.want) {
				t.Errorf("result %+v, want %q", got, tt.want)
			}
		})
	}
}

func TestAnAssertionThatCannotHoldIsNotTriedAgain(t *testing.T) {
	w := start(t)
	for i := range 501 {
		w.create("configmaps", fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: n-%d}}`, i))
	}
	for name, cel := range map[string]checks.Assertion{
		"no kind":              {Name: "a", Expression: "true"},
		"name and selector":    {Kind: "ConfigMap", Name: "a", Selector: "a=b", Expression: "true"},
		"selector of no shape": {Kind: "ConfigMap", Selector: "a==,", Expression: "true"},
		"does not parse":       {Kind: "ConfigMap", Name: "a", Expression: "self."},
		"the other variable":   {Kind: "ConfigMap", Name: "a", Expression: "items.size() == 0"},
		"too many":             {Kind: "ConfigMap", Expression: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.try(checks.Test{Name: "sane", CEL: []checks.Assertion{cel}, Retries: 3})
			if got.Passed || got.Tries != 1 {
				t.Errorf("result %+v", got)
			}
		})
	}
	w.target.Namespaces = []string{w.Namespace}
	for name, cel := range map[string]checks.Assertion{
		"a namespace of others": {Kind: "ConfigMap", Namespace: "kube-system", Name: "a", Expression: "true"},
		"no namespace at all":   {Kind: "Namespace", Name: "default", Expression: "true"},
	} {
		if got := w.try(checks.Test{Name: "sane", CEL: []checks.Assertion{cel}, Retries: 3}); got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "namespace") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
