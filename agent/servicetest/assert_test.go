package servicetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/agent/servicetest"
)

func TestAssertionsLookAtLiveObjects(t *testing.T) {
	w := start(t)
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: web}}, data: {color: red}}`)
	w.create("configmaps", `{apiVersion: v1, kind: ConfigMap, metadata: {name: b, labels: {app: web}}, data: {color: blue}}`)
	w.create("secrets", `{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2}}`)
	for _, tt := range []struct {
		name string
		cel  servicetest.Assertion
		want string
	}{
		{"one object", servicetest.Assertion{Version: "v1", Kind: "ConfigMap", Name: "a", Expression: `self.data.color == "red"`}, ""},
		{"any version", servicetest.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.apiVersion == "v1"`}, ""},
		{"a version that is gone", servicetest.Assertion{Version: "v1beta1", Kind: "ConfigMap", Name: "a", Expression: `true`}, ""},
		{"all that fit", servicetest.Assertion{Kind: "ConfigMap", Selector: "app=web", Expression: `items.map(i, i.data.color) == ["red", "blue"]`}, ""},
		{"none that fits", servicetest.Assertion{Kind: "ConfigMap", Selector: "app=none", Expression: `items.size() == 0`}, ""},
		{"a kind without namespaces", servicetest.Assertion{Kind: "Namespace", Name: w.Namespace, Expression: `self.status.phase == "Active"`}, ""},
		{"another namespace", servicetest.Assertion{Kind: "ServiceAccount", Namespace: "default", Name: "default", Expression: `self.metadata.namespace == "default"`}, ""},
		{"that a Secret has a value", servicetest.Assertion{Kind: "Secret", Name: "s", Expression: `has(self.data.password)`}, ""},
		{"but not which", servicetest.Assertion{Kind: "Secret", Name: "s", Expression: `self.data.password == ""`}, ""},
		{"who manages what is not shown", servicetest.Assertion{Kind: "ConfigMap", Name: "a", Expression: `!has(self.metadata.managedFields)`}, ""},
		{
			"false",
			servicetest.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.data.color == "blue"`},
			"assertion 1: ConfigMap " + w.Namespace + `/a: not true: self.data.color == "blue"`,
		},
		{"false, in words", servicetest.Assertion{Kind: "ConfigMap", Selector: "app=web", Expression: `false`, Message: "no colour"}, "ConfigMap " + w.Namespace + "/*: no colour"},
		{"a field that is not there", servicetest.Assertion{Kind: "ConfigMap", Name: "a", Expression: `self.data.shape == "x"`}, "no such key: shape"},
		{"no such object", servicetest.Assertion{Kind: "ConfigMap", Name: "c", Expression: `true`}, "there is no ConfigMap " + w.Namespace + "/c"},
		{"no such kind", servicetest.Assertion{Group: "x.io", Kind: "Thing", Name: "c", Expression: `true`}, "does not serve kind Thing.x.io"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := w.try(servicetest.Test{Name: "sane", CEL: []servicetest.Assertion{tt.cel}})
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
	for name, cel := range map[string]servicetest.Assertion{
		"no kind":              {Name: "a", Expression: "true"},
		"name and selector":    {Kind: "ConfigMap", Name: "a", Selector: "a=b", Expression: "true"},
		"selector of no shape": {Kind: "ConfigMap", Selector: "a==,", Expression: "true"},
		"does not parse":       {Kind: "ConfigMap", Name: "a", Expression: "self."},
		"the other variable":   {Kind: "ConfigMap", Name: "a", Expression: "items.size() == 0"},
		"too many":             {Kind: "ConfigMap", Expression: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.try(servicetest.Test{Name: "sane", CEL: []servicetest.Assertion{cel}, Retries: 3})
			if got.Passed || got.Tries != 1 {
				t.Errorf("result %+v", got)
			}
		})
	}
	w.target.Namespaces = []string{w.Namespace}
	for name, cel := range map[string]servicetest.Assertion{
		"a namespace of others": {Kind: "ConfigMap", Namespace: "kube-system", Name: "a", Expression: "true"},
		"no namespace at all":   {Kind: "Namespace", Name: "default", Expression: "true"},
	} {
		if got := w.try(servicetest.Test{Name: "sane", CEL: []servicetest.Assertion{cel}, Retries: 3}); got.Passed || got.Tries != 1 || !strings.Contains(got.Message, "namespace") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
