package compare_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/agent/compare"
)

// objects reads documents of YAML.
func objects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var list []*unstructured.Unstructured
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		list = append(list, o)
	}
	return list
}

// told is a line for each change and each field of it.
func told(changes []compare.Change) []string {
	lines := []string{}
	for _, c := range changes {
		line := fmt.Sprintf("%s %s", c.Action, c.ID)
		if c.Stays != "" {
			line += ", stays"
		}
		lines = append(lines, line)
		for _, f := range c.Fields {
			before, _ := json.Marshal(f.Before)
			after, _ := json.Marshal(f.After)
			lines = append(lines, fmt.Sprintf("  %s %s: %s -> %s", f.Action, f.Path, before, after))
		}
	}
	return lines
}

const pod = `apiVersion: v1
kind: Pod
metadata: {name: p, namespace: web}
spec:
  containers:
  - {name: a, image: "a:1", args: [one, two, three]}
  - {name: b, image: "b:1"}
`

func TestObjectsAreComparedFieldByField(t *testing.T) {
	configMap := func(rest string) string { return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n" + rest }
	tests := map[string]struct {
		before, after string
		want          []string
	}{
		"nothing":            {pod, pod, []string{}},
		"an object comes":    {"", pod, []string{"added Pod web/p"}},
		"an object goes":     {pod, "", []string{"deleted Pod web/p"}},
		"a scalar":           {pod, strings.Replace(pod, "a:1", "a:2", 1), []string{"changed Pod web/p", `  changed spec.containers[a].image: "a:1" -> "a:2"`}},
		"an item in between": {pod, strings.Replace(pod, "one, two", "one, new, two", 1), []string{"changed Pod web/p", `  added spec.containers[a].args[1]: null -> "new"`}},
		"an item goes":       {pod, strings.Replace(pod, "one, two", "two", 1), []string{"changed Pod web/p", `  deleted spec.containers[a].args[0]: "one" -> null`}},
		"an item changes":    {pod, strings.Replace(pod, "two", "2nd", 1), []string{"changed Pod web/p", `  changed spec.containers[a].args[1]: "two" -> "2nd"`}},
		"a named item comes": {
			pod, pod + "  - {name: c}\n",
			[]string{"changed Pod web/p", `  added spec.containers[c]: null -> {"name":"c"}`},
		},
		"named items change places": {
			configMap("list: [{name: a}, {name: b}]"), configMap("list: [{name: b}, {name: a}]"),
			[]string{"changed ConfigMap web/c", `  reordered list: ["a","b"] -> ["b","a"]`},
		},
		"ports are told apart by number and protocol": {
			configMap("ports: [{port: 53, protocol: TCP, x: 1}, {port: 53, protocol: UDP}]"),
			configMap("ports: [{port: 53, protocol: TCP, x: 2}, {port: 53, protocol: UDP}]"),
			[]string{"changed ConfigMap web/c", `  changed ports["53/TCP"].x: 1 -> 2`},
		},
		"items without a name":                  {configMap("rules: [{verbs: [get]}]"), configMap("rules: [{verbs: [get, list]}]"), []string{"changed ConfigMap web/c", `  added rules[0].verbs[1]: null -> "list"`}},
		"keys that are no words":                {configMap(`data: {"a.b/c": v}`), configMap(`data: {"a.b/c": w}`), []string{"changed ConfigMap web/c", `  changed data["a.b/c"]: "v" -> "w"`}},
		"a key like a position":                 {configMap(`data: {"[0]": v}`), configMap(`data: {"[0]": w}`), []string{"changed ConfigMap web/c", `  changed data["[0]"]: "v" -> "w"`}},
		"a null is nothing":                     {configMap("data: null"), configMap(""), []string{}},
		"an empty map is something":             {configMap("spec: {}"), configMap(""), []string{"changed ConfigMap web/c", `  deleted spec: {} -> null`}},
		"a number is the same however written":  {configMap("num: 1"), configMap("num: 1.0"), []string{}},
		"the type changes":                      {configMap("num: 1"), configMap(`num: "1"`), []string{"changed ConfigMap web/c", `  changed num: 1 -> "1"`}},
		"a map becomes a list":                  {configMap("num: {a: 1}"), configMap("num: [1]"), []string{"changed ConfigMap web/c", `  changed num: {"a":1} -> [1]`}},
		"the namespace is spelled out":          {configMap(""), strings.Replace(configMap(""), "name: c", "name: c, namespace: web", 1), []string{}},
		"the API version":                       {"apiVersion: a.io/v1\nkind: K\nmetadata: {name: k}", "apiVersion: a.io/v2\nkind: K\nmetadata: {name: k}", []string{"changed K.a.io k", `  changed apiVersion: "a.io/v1" -> "a.io/v2"`}},
		"a Namespace stays":                     {"apiVersion: v1\nkind: Namespace\nmetadata: {name: old}", "", []string{"deleted Namespace old, stays"}},
		"a Namespace that may go":               {"apiVersion: v1\nkind: Namespace\nmetadata: {name: old, annotations: {plural.sh/prune: allow}}", "", []string{"deleted Namespace old"}},
		"what Argo CD was told to leave":        {strings.Replace(pod, "name: p", "name: p, annotations: {argocd.argoproj.io/sync-options: Prune=false}", 1), "", []string{"deleted Pod web/p, stays"}},
		"a hook":                                {strings.Replace(pod, "name: p", "name: p, annotations: {helm.sh/hook: pre-install}", 1), "", []string{"deleted Pod web/p, stays"}},
		"what never goes to a cluster":          {"", strings.Replace(pod, "name: p", `name: p, annotations: {config.kubernetes.io/local-config: "true"}`, 1), []string{}},
		"kinds outside of namespaces have none": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}", "", []string{"deleted ClusterRole.rbac.authorization.k8s.io r"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := compare.Side{Objects: objects(t, tt.before), Namespace: "web"}
			after := compare.Side{Objects: objects(t, tt.after), Namespace: "web"}
			if diff := cmp.Diff(tt.want, told(compare.Objects(before, after, nil))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAServiceThatMovesToAnotherNamespaceMovesItsObjects(t *testing.T) {
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}"
	got := told(compare.Objects(compare.Side{Objects: objects(t, object), Namespace: "a"}, compare.Side{Objects: objects(t, object), Namespace: "b"}, nil))
	if diff := cmp.Diff([]string{"deleted ConfigMap a/c", "added ConfigMap b/c"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatStaysWhenTheServiceGoes(t *testing.T) {
	const kept = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, annotations: {argocd.argoproj.io/sync-options: %s}}"
	for option, stays := range map[string]bool{"Delete=false": true, "Prune=false": false} {
		before := compare.Side{Objects: objects(t, fmt.Sprintf(kept, option))}
		got := compare.Objects(before, compare.Side{Gone: true}, nil)
		if len(got) != 1 || (got[0].Stays != "") != stays {
			t.Errorf("%s: %v", option, told(got))
		}
	}
	got := compare.Objects(compare.Side{Objects: objects(t, pod)}, compare.Side{Kept: "pruning is off"}, nil)
	if len(got) != 1 || got[0].Stays != "pruning is off" {
		t.Error(told(got))
	}
}

func TestNothingSecretIsShown(t *testing.T) {
	const before = `apiVersion: v1
kind: Secret
metadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"data":{"a":"canary-0"}}', plain: x}}
data: {a: canary-1, same: canary-2}
stringData: {gone: canary-3}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: canary-4}
data: {url: "https://user:canary-4@host/", nested: [{x: canary-4}]}
`
	after := strings.NewReplacer("canary-0", "canary-5", "canary-1", "canary-6", "gone: canary-3", "new: canary-3", "canary-4@", "canary-7@",
		"x: canary-4", "z: canary-7", "plain: x", "plain: w").Replace(before)
	changes := compare.Objects(compare.Side{Objects: objects(t, before), Sealed: []string{"canary-4"}},
		compare.Side{Objects: objects(t, after), Sealed: []string{"canary-7"}}, []byte("key"))
	fields, whole := []string{}, ""
	for i := range changes {
		c := &changes[i]
		for _, f := range c.Fields {
			fields = append(fields, f.Path)
		}
		old, now := c.Masked()
		text, err := json.Marshal([]any{c.Fields, old, now})
		if err != nil {
			t.Fatal(err)
		}
		whole += strings.ReplaceAll(string(text), `"name":"canary-4"`, "") // a name is no value
	}
	want := []string{
		"data.nested[0].x", "data.nested[0].z", "data.url",
		"data.a", `metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]`, "metadata.annotations.plain",
		"stringData.gone", "stringData.new",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(whole, "canary") {
		t.Errorf("a secret is shown: %s", whole)
	}
	if !strings.Contains(whole, `https://user:***@host/(`) || !strings.Contains(whole, `"same":"***(`) {
		t.Errorf("too much or too little is masked: %s", whole)
	}
}

func TestDigitsTellValuesApartWithinARunAlone(t *testing.T) {
	const secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: %s, b: %s}"
	digits := func(key, a, b string) (string, string) {
		c := compare.Objects(compare.Side{}, compare.Side{Objects: objects(t, fmt.Sprintf(secret, a, b))}, []byte(key))
		_, after := c[0].Masked()
		data, _ := after["stringData"].(map[string]any)
		return fmt.Sprint(data["a"]), fmt.Sprint(data["b"])
	}
	a, b := digits("1", "x", "x")
	if a != b {
		t.Errorf("the same value has %s, %s", a, b)
	}
	if a, b := digits("1", "x", "y"); a == b {
		t.Errorf("different values have %s", a)
	}
	if other, _ := digits("2", "x", "x"); other == a {
		t.Errorf("two runs have %s", a)
	}
}

func FuzzObjectsGivesChangesThatHoldTogether(f *testing.F) {
	f.Add(`{"a":[1,2,{"name":"x"}]}`, `{"a":[2,{"name":"x","y":null}]}`)
	f.Add(`{"a":[{"name":"x"},{"name":"x"}],"[0]":1}`, `{"a":{"name":{}},"[0]":1.5}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		var sides [2]map[string]any
		for i, text := range []string{before, after} {
			if err := json.Unmarshal([]byte(text), &sides[i]); err != nil || sides[i] == nil {
				return // no object: nothing to compare
			}
			sides[i]["apiVersion"], sides[i]["kind"], sides[i]["metadata"] = "v1", "ConfigMap", map[string]any{"name": "c"}
		}
		side := func(i int) compare.Side {
			return compare.Side{Objects: []*unstructured.Unstructured{{Object: sides[i]}}}
		}
		there, back := compare.Objects(side(0), side(1), nil), compare.Objects(side(1), side(0), nil)
		if len(there) != len(back) {
			t.Fatalf("there %v, back %v", told(there), told(back))
		}
		if same := compare.Objects(side(0), side(0), nil); len(same) != 0 {
			t.Fatalf("an object differs from itself: %v", told(same))
		}
	})
}
