package yamledit_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/yamledit"
)

func TestValuesAreReadAsPeopleMeanThem(t *testing.T) {
	for text, want := range map[string]any{
		"3": 3, "-3": -3, "0.5": 0.5, "true": true, "false": false, "": "", "abc": "abc", "a b": "a b",
		"1.10": "1.10", "007": "007", "1e3": "1e3", "0x10": "0x10", "yes": "yes", "null": "null", "~": "~", "2020-01-01": "2020-01-01",
		`"3"`: "3", `'true'`: "true", "a: b": "a: b", "- a": "- a", "*x": "*x", "&x": "&x", "!x": "!x", "# x": "# x", "a # b": "a # b",
		"{{ .cluster.name }}": "{{ .cluster.name }}", "{{ a }}-x": "{{ a }}-x",
		"[]": []any{}, "{}": map[string]any{}, "[a, 3, \"3\", [x]]": []any{"a", 3, "3", []any{"x"}}, "{a: {b: 1.10}}": map[string]any{"a": map[string]any{"b": "1.10"}},
		"99999999999999999999": "99999999999999999999",
	} {
		if got, err := yamledit.Value(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q is %#v, want %#v (%v)", text, got, want, err)
		}
	}
	for _, text := range []string{"[", "{a", `"x`, `"a" b`, "[*x]", "{[a]: b}"} {
		if got, err := yamledit.Value(text); err == nil {
			t.Errorf("%q is %#v", text, got)
		}
	}
}

func FuzzValue(f *testing.F) {
	for _, text := range []string{"3", "1.10", "[a, {b: c}]", "{{ .x }}", `"a"`, "a: b", "---\na"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { _, _ = yamledit.Value(text) })
}
