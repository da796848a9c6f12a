package values

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMaskKeepsTheShape(t *testing.T) {
	mac := regexp.MustCompile(`[0-9a-f]{8}`)
	tests := []struct{ file, text, want string }{
		{
			"x.yaml",
			"# top\na: 1 # one\nb:\n    # in b\n    c: [x, {d: y}]\n    e: {}\nf: |\n    two\n    lines\n# foot\n",
			"# ***\na: ***(*) # ***\nb:\n  # ***\n  c:\n    - ***(*)\n    - d: ***(*)\n  e: {}\nf: ***(*)\n# ***\n",
		},
		{"x.yaml", "a: 1\n---\n- &x b\n- *x\n", "a: ***(*)\n---\n- ***(*)\n- ***(*)\n"},
		{"x.json", `{"a": [1, true], "b": {}, "c d": null}`, "{\n  \"a\": [\n    \"***(*)\",\n    \"***(*)\"\n  ],\n  \"b\": {},\n  \"c d\": \"***(*)\"\n}\n"},
		{".env", "# c\nexport A=\"x\ny\" # d\n\nB=\n# e\n", "# ***\nA=***(*)\nB=***(*)\n# ***\n"},
		{"notes", "my pass: word here", "***(18 bytes, *)\n"},
		{"token", "MFRGGZDFMY======\n", "***(17 bytes, *)\n"},
		{"settings", "a: b\n", "a: ***(*)\n"},
		{"x.yaml", "a: [", "***(4 bytes, *)\n"},
		{"x.bin", "\x00\xff", "***(2 bytes, *)\n"},
		{"x.yaml", "", ""},
	}
	for _, tt := range tests {
		got := mac.ReplaceAllString(string(Mask(tt.file, []byte(tt.text), []byte("key"))), "*")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.file, diff)
		}
	}
}

func TestMaskShowsThatAValueChanged(t *testing.T) {
	masked := func(text, key string) string { return string(Mask("x.yaml", []byte(text), []byte(key))) }
	if masked("a: 1", "k") == masked("a: 2", "k") || masked("a: 1", "k") == masked("a: '1'", "k") {
		t.Error("different values look the same")
	}
	if masked("a: 1", "k") != masked("a:   1", "k") {
		t.Error("the same value looks different")
	}
	if masked("a: 1", "k") == masked("a: 1", "other") {
		t.Error("the key does not matter")
	}
}

// secret draws a value that looks like nothing else in a file.
func secret(t *rapid.T, secrets *[]string) string {
	s := "Q" + rapid.StringMatching(`[A-Z0-9 :#'"{}\[\],&*!|>%@=\\-]{3,24}`).Draw(t, "secret")
	*secrets = append(*secrets, s)
	return s
}

// yamlValue writes a random value in one of the styles of YAML, to stand behind a colon or a dash.
func yamlValue(t *rapid.T, indent string, depth int, secrets *[]string) string {
	kinds := []string{"plain", "single", "double", "literal", "folded", "anchor", "tag"}
	if depth < 3 {
		kinds = append(kinds, "mapping", "list", "flow")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "single":
		return " '" + strings.ReplaceAll(secret(t, secrets), "'", "''") + "'\n"
	case "double":
		return " " + quoteYAML(secret(t, secrets)) + "\n"
	case "literal", "folded":
		mark := map[string]string{"literal": "|", "folded": ">-"}[kind]
		return fmt.Sprintf(" %s\n%s  %s\n%s  %s\n", mark, indent, secret(t, secrets), indent, secret(t, secrets))
	case "mapping":
		return "\n" + yamlMapping(t, indent+"  ", depth+1, secrets)
	case "list":
		return "\n" + indent + "  -" + yamlValue(t, indent+"    ", depth+1, secrets) + indent + "  -" + yamlValue(t, indent+"    ", depth+1, secrets)
	case "flow":
		return fmt.Sprintf(" {x: %s, y: [%s]}\n", quoteYAML(secret(t, secrets)), quoteYAML(secret(t, secrets)))
	case "anchor":
		return fmt.Sprintf(" &Q%d %s\n", rapid.IntRange(1000, 9999).Draw(t, "anchor"), quoteYAML(secret(t, secrets)))
	case "tag":
		return " !QTAG " + quoteYAML(secret(t, secrets)) + "\n"
	}
	word := "Q" + rapid.StringMatching(`[A-Z0-9]{4,20}`).Draw(t, "word")
	*secrets = append(*secrets, word)
	return " " + word + " # " + secret(t, secrets) + "\n"
}

func yamlMapping(t *rapid.T, indent string, depth int, secrets *[]string) string {
	var b strings.Builder
	for i := range rapid.IntRange(1, 4).Draw(t, "keys") {
		if rapid.Bool().Draw(t, "comment") {
			fmt.Fprintf(&b, "%s# %s\n", indent, secret(t, secrets))
		}
		fmt.Fprintf(&b, "%skey%d:%s", indent, i, yamlValue(t, indent, depth, secrets))
	}
	return b.String()
}

func TestMaskLetsNoValueThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var secrets []string
		text := yamlMapping(t, "", 0, &secrets)
		name := rapid.SampledFrom([]string{"x.yaml", "x", "x.json", "x.env"}).Draw(t, "name")
		masked := string(Mask(name, []byte(text), []byte("key")))
		for _, s := range append(secrets, "Q") {
			if strings.Contains(masked, s) {
				t.Fatalf("%q is in the mask of\n%s\n%s", s, text, masked)
			}
		}
		if name == "x.yaml" && !strings.Contains(masked, "key0:") {
			t.Fatalf("the keys are gone from the mask of\n%s\n%s", text, masked)
		}
	})
}

// stands is what Mask puts in the place of values.
var stands = regexp.MustCompile(`\*\*\*\((\d+ bytes, )?[0-9a-f]{8}\)`)

func FuzzMask(f *testing.F) {
	f.Add("x.yaml", []byte("a: secret # comment\nb: [one, two]\n"))
	f.Add("x.yaml", []byte("? {a: b}\n: c\n? |\n  key\n: *x\n"))
	f.Add("x.json", []byte(`{"a": ["long value", 1234567]}`))
	f.Add("x.env", []byte("A=long value # comment\n"))
	f.Add("x", []byte("a: b: c"))
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		masked := stands.ReplaceAll(Mask(name, text, []byte("key")), nil)
		file, err := parse(name, text)
		if err != nil {
			if len(bytes.TrimSpace(masked)) > 0 {
				t.Errorf("a file that cannot be read became %q", masked)
			}
			return
		}
		var keys, values []string
		for _, doc := range file.docs {
			collect(doc.root, &keys, &values)
		}
		shown := strings.Join(keys, "\x00")
		for _, v := range values {
			core := strings.Trim(v, "{}[]:-,=\"# *\n\x00") // the rest may be what Mask writes around keys
			if len(core) > 3 && !strings.Contains(shown, core) && bytes.Contains(masked, []byte(v)) {
				t.Errorf("%q is in %q", v, masked)
			}
		}
	})
}

// collect gathers keys, also as they are quoted, and scalar values.
func collect(n *node, keys, values *[]string) {
	switch {
	case n == nil:
	case n.kind == scalar:
		*values = append(*values, n.text)
	default:
		for _, e := range n.entries {
			if e.key != nil && e.key.kind == scalar {
				*keys = append(*keys, e.key.text, quoteYAML(e.key.text))
			} else if e.key != nil {
				collect(e.key, keys, values)
			}
			collect(e.value, keys, values)
		}
	}
}
