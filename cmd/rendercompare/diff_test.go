package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/agent/render"
)

// objects are what is parsed as if a program had printed it.
func objects(t *testing.T, text string) []object {
	t.Helper()
	all, err := parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDiffObjects(t *testing.T) {
	const a, b = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1'}}\n", "{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"
	changed := func(data string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: " + data + "}"
	}
	tests := map[string]struct {
		ours, theirs string
		ordered      bool
		want         []difference
	}{
		"the same, in other words":  {a, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: \"1\"\n", true, nil},
		"other order, of no matter": {a + "---\n" + b, b + "---\n" + a, false, nil},
		"other order": {a + "---\n" + b, b + "---\n" + a, true, []difference{
			{Object: "v1 ConfigMap b", Class: "other order", Ours: "v1 ConfigMap a", Theirs: "v1 ConfigMap b"},
		}},
		"missing here":  {a, a + "---\n" + b, false, []difference{{Object: "v1 ConfigMap b", Class: "object missing in ours"}}},
		"missing there": {a + "---\n" + b, b, false, []difference{{Object: "v1 ConfigMap a", Class: "object missing in theirs"}}},
		"twice there": {a, a + "---\n" + changed("{x: '2'}"), false, []difference{
			{Object: "v1 ConfigMap a", Class: "object missing in ours"},
		}},
		"an integer for a text": {a, changed("{x: 1}"), false, []difference{
			{Object: "v1 ConfigMap a", Field: ".data.x", Ours: `"1"`, Theirs: "1", Class: "text for an integer"},
		}},
		"one number in two forms": {changed("{x: 1.0}"), changed("{x: 1}"), false, nil},
		"a line end more": {changed(`{x: "1\n"}`), changed("{x: '1'}"), false, []difference{
			{Object: "v1 ConfigMap a", Field: ".data.x", Ours: `"1\n"`, Theirs: `"1"`, Class: "other line ends at the end of a text"},
		}},
		"null and nothing": {changed("null"), "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", false, []difference{
			{Object: "v1 ConfigMap a", Field: ".data", Class: "field missing in theirs"},
		}},
		"deep in a list, at a key with dots": {changed("{list: [{a.b: 1}]}"), changed("{list: [{a.b: 2}]}"), false, []difference{
			{Object: "v1 ConfigMap a", Field: `.data.list[0]["a.b"]`, Ours: "1", Theirs: "2", Class: "other value"},
		}},
		"a longer list": {changed("{list: [1]}"), changed("{list: [1, 2]}"), false, []difference{
			{Object: "v1 ConfigMap a", Field: ".data.list", Ours: "[1]", Theirs: "[1,2]", Class: "a list of 1 for one of 2"},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := diffObjects(objects(t, tt.ours), objects(t, tt.theirs), tt.ordered)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesAreShownFromWhereTheyDiffer(t *testing.T) {
	ours, theirs := show("0123456789012345678901234äé, and then quite a long end of some more bytes", "0123456789012345678901234äö")
	if want := `"…89012345678901234äé, and then quite a long end of some mor…"`; ours != want {
		t.Errorf("ours is %s, want %s", ours, want)
	}
	if want := `"…89012345678901234äö"`; theirs != want {
		t.Errorf("theirs is %s, want %s", theirs, want)
	}
}

func TestReasonsOfOneCauseAreTheSame(t *testing.T) {
	for name, pair := range map[string][2]string{
		"keys of data":        {difference{Object: "v1 ConfigMap a", Field: ".data.x", Class: "other value"}.reason(), difference{Object: "v1 Secret b", Field: `.data["y.z"]`, Class: "other value"}.reason()},
		"places in lists":     {difference{Field: ".spec.ports[0].port"}.reason(), difference{Field: ".spec.ports[12].port"}.reason()},
		"names of objects":    {difference{Object: "v1 Pod a", Class: "x"}.reason(), difference{Object: "v1 Pod b/c", Class: "x"}.reason()},
		"files and numbers":   {reasonOf(errors.New("apps/a.yaml: line 3: cannot")), reasonOf(errors.New("apps/web/b.yml: line 44: cannot"))},
		"places of ours":      {reasonOf(&render.Error{File: "a", Message: `"x" does not exist`}), reasonOf(&render.Error{File: "b", Line: 3, Message: `"y" does not exist`})},
		"missing subcharts":   {reasonOf(errors.New("dependencies are not in charts/: a, b")), reasonOf(errors.New("dependencies are not in charts/: c"))},
		"texts of many lines": {reasonOf(errors.New("a\nb")), reasonOf(errors.New("a  b"))},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %q and %q", name, pair[0], pair[1])
		}
	}
}

func TestParseReadsWhatKubectlWould(t *testing.T) {
	found := objects(t, "# Source: a\n---\n# nothing\n---\nkind: List\nitems: [{kind: A}, {kind: BList, items: [{kind: B}]}]\n---\nkind: C\nkind: D\n")
	if diff := cmp.Diff([]object{{"kind": "A"}, {"kind": "B"}, {"kind": "D"}}, found); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{"a text": "hello", "no YAML": "{a: ["} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
