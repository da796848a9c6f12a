package values

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSetStories(t *testing.T) {
	eachStory(t, "set", func(t *testing.T, file string, p map[string][]byte) {
		key, value := strings.TrimSuffix(string(p["key"]), "\n"), bytes.TrimSuffix(p["value"], []byte("\n"))
		got, err := Set(file, p["before"], key, value, String)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(p["after"]), string(got)); diff != "" {
			t.Errorf("after (-want +got):\n%s", diff)
		}
	})
}

func TestSetKeepsCarriageReturns(t *testing.T) {
	got, err := Set("x.yaml", []byte("a: 1\r\nb:\r\n  c: 2\r\n"), "b.d", []byte("one\ntwo\n"), String)
	if want := "a: 1\r\nb:\r\n  c: 2\r\n  d: |\r\n    one\r\n    two\r\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestSetTypes(t *testing.T) {
	tests := []struct {
		file, value string
		as          Type
		want        string
	}{
		{"x.yaml", "true", String, "a: \"true\"\n"},
		{"x.yaml", "true", Bool, "a: true\n"},
		{"x.yaml", "12", String, "a: \"12\"\n"},
		{"x.yaml", "1.5", Number, "a: 1.5\n"},
		{"x.yaml", "", Null, "a: null\n"},
		{"x.json", "12", Number, "{\n  \"a\": 12\n}\n"},
		{"x.json", "12", String, "{\n  \"a\": \"12\"\n}\n"},
		{"x.yaml", "yes", Bool, ""},
		{"x.yaml", "0x1", Number, ""},
		{"x.yaml", "\xff", String, ""},
		{"x.yaml", "1", "integer", ""},
	}
	for _, tt := range tests {
		got, err := Set(tt.file, nil, "a", []byte(tt.value), tt.as)
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s %q as %s: got %q, %v, want %q", tt.file, tt.value, tt.as, got, err, tt.want)
		}
	}
}

func TestSetRefusesWithItsPlace(t *testing.T) {
	const shared = "base: &b\n  x: 1\nother: *b\ntyped: !vault abc\nlist: [1]\nscalar: hush-hush\n"
	tests := map[string]string{
		"base.x":     "x.yaml:1: base.x is shared through the anchor &b; change it by hand",
		"other.x":    "x.yaml:3: other.x is reached through the alias *b; change the value at its anchor by hand",
		"other":      "x.yaml:3: other is reached through the alias *b; change the value at its anchor by hand",
		"typed":      "x.yaml:4: typed is written with a type, !vault; change it by hand",
		"list":       "x.yaml:5: list holds 1 items; name one of them",
		"list[1]":    "x.yaml:5: list has 1 items, counted from [0]",
		"list.x":     "x.yaml:5: list has 1 items, counted from [0]",
		"scalar.x":   "x.yaml:6: scalar holds a value, so it can hold no keys",
		"new[0]":     "x.yaml:1: the document",
		"a..":        "read key",
		"a[x]":       "read key",
		"a\\":        "read key",
		"":           "read key",
		"list[0]abc": "read key",
	}
	for key, want := range tests {
		_, err := Set("x.yaml", []byte(shared), key, []byte("value-of-ours"), String)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", key, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "value-of-ours") || strings.Contains(err.Error(), "hush-hush")) {
			t.Errorf("%s: the error repeats a value: %v", key, err)
		}
	}
}

func TestAmbiguousKeysAreRefused(t *testing.T) {
	tests := map[string]string{
		"a: 1\nb: 2\na: 3\n":    `x.yaml:3: the key "a" is written twice`,
		"a: 1\n---\na: 2\n":     "x.yaml:3: a is in several documents; put the document's place before it, such as [1].a",
		"a: 1\n--- \nb: [\n":    "x.yaml:4: it is not YAML",
		"c: 1\n---\nb: 2\n":     "x.yaml: none of its 2 documents has the key a",
		"a: 1\n...\nb: 2\n":     "x.yaml:3: it is not YAML",
		"a: \"\x00\"\n":         "x.yaml: it is not UTF-8 text",
		"- 1\n":                 "x.yaml:1: the document has 1 items",
		"%BAD\n---\na: 1\n":     "x.yaml:1: it is not YAML",
		"just a line of text\n": "x.yaml:1: the document holds a value",
	}
	for text, want := range tests {
		if _, err := Set("x.yaml", []byte(text), "a", []byte("v"), String); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestGetAndList(t *testing.T) {
	const text = "a:\n  b: [x, {c: \"y z\"}]\n  e.f: |\n    two\n    lines\nempty: {}\nnull_: ~\nref: &r {k: deep}\nalias: *r\n\"odd\\nkey\": 1\n"
	keys, err := List("x.yaml", []byte(text))
	want := []string{"a.b[0]", "a.b[1].c", `a.e\.f`, "empty", "null_", "ref.k", "alias", `odd\nkey`}
	if diff := cmp.Diff(want, keys); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for key, want := range map[string]string{
		"a.b[0]": "x", "a.b[1].c": "y z", `a.e\.f`: "two\nlines\n", "null_": "~", "ref.k": "deep", "alias.k": "deep", `odd\nkey`: "1",
	} {
		if got, err := Get("x.yaml", []byte(text), key); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", key, got, err, want)
		}
	}
	if _, err := Get("x.yaml", []byte(text), "a.nothing"); !errors.Is(err, ErrNoKey) {
		t.Errorf("got %v", err)
	}
	if _, err := Get("x.yaml", []byte(text), "a"); err == nil || err.Error() != "x.yaml:2: a holds 2 keys; name one of them" {
		t.Errorf("got %v", err)
	}
	if _, err := List("notes", []byte("only words here")); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v", err)
	}
	documents, err := List("x.yaml", []byte("a: 1\n---\nb: {c: 2}\n"))
	if diff := cmp.Diff([]string{"[0].a", "[1].b.c"}, documents); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestDelete(t *testing.T) {
	tests := []struct{ file, text, key, want string }{
		{"x.yaml", "a: 1\n# about b\nb:\n  c: 2\n  # in b\n# about d\nd: 4\n", "b", "a: 1\n# about b\n# about d\nd: 4\n"},
		{"x.yaml", "a:\n  b: 1\nc: 2\n", "a.b", "a: {}\nc: 2\n"},
		{"x.yaml", "a: {b: 1, c: 2}\n", "a.b", "a: {c: 2}\n"},
		{"x.yaml", "l:\n- a\n- b\n", "l[0]", "l:\n- b\n"},
		{"x.json", `{"a": 1, "b": 2, "c": 3}`, "b", `{"a": 1, "c": 3}`},
		{"x.json", "{\n  \"a\": 1,\n  \"b\": 2\n}\n", "a", "{\n  \"b\": 2\n}\n"},
		{"x.json", `{"a": [1]}`, "a[0]", `{"a": []}`},
		{"x.env", "A=1\nexport B=\"2\n3\" # c\nC=4\n", "B", "A=1\nC=4\n"},
		{"x.yaml", "a: &x 1\nb: *x\n", "a", ""},
		{"x.yaml", "a: 1\n", "b", ""},
	}
	for _, tt := range tests {
		got, err := Delete(tt.file, []byte(tt.text), tt.key)
		if string(got) != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s without %s: got %q, %v, want %q", tt.text, tt.key, got, err, tt.want)
		}
	}
}

func TestKeysAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p place
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			if rapid.Bool().Draw(t, "list") {
				p = append(p, step{list: true, index: rapid.IntRange(0, 9).Draw(t, "index")})
			} else {
				p = append(p, step{key: rapid.StringMatching(`[a-z.\\\[\]\n\r"' ]{1,6}`).Draw(t, "name")})
			}
		}
		got, err := parsePlace(p.String())
		if err != nil || !cmp.Equal(p, got, cmp.AllowUnexported(step{})) {
			t.Fatalf("%v was read from %q as %v, %v", p, p.String(), got, err)
		}
	})
}

func FuzzSet(f *testing.F) {
	f.Add("x.yaml", []byte("a: 1 # c\nb:\n  - x: 'y'\n"), "b[0].x", "v")
	f.Add("x.yaml", []byte("a: {b: [1, 2]}\n---\nc: |\n  d\n"), "c", "two\nlines\n")
	f.Add("x.json", []byte("{\n \"a\": {}\n}"), "a.b", "\u2028")
	f.Add("x.env", []byte("export A='b' # c\nC=d"), "A", "x\ny")
	f.Add("x.yaml", []byte("\uFEFFa: >-\n  x\n  y\n"), "a", " lead\n")
	f.Add("x.yaml", []byte("? a\n: b\n? [c]\n: d\n"), "a", ": #")
	f.Fuzz(func(t *testing.T, name string, text []byte, key, value string) {
		before, err := parse(name, text)
		if err != nil {
			return
		}
		after, err := Set(name, text, key, []byte(value), String)
		if err != nil {
			return
		}
		got, err := Get(name, after, key)
		if formatOf(name) != formatNone && (err != nil || string(got) != value) {
			t.Errorf("%s: got %q, %v, want %q in %q", key, got, err, value, after)
		}
		if bytes.Contains(text, []byte("#")) || len(before.docs) > 1 || formatOf(name) == formatNone {
			return
		}
		keys, _ := List(name, text)
		for _, other := range keys {
			was, err := Get(name, text, other)
			if err != nil || other == key || strings.HasPrefix(key, other) {
				continue
			}
			if is, err := Get(name, after, other); err != nil || !bytes.Equal(was, is) {
				t.Errorf("setting %s changed %s from %q to %q, %v in %q", key, other, was, is, err, after)
			}
		}
	})
}
