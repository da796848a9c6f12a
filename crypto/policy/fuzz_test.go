package policy

import (
	"strings"
	"testing"
)

// FuzzPolicy feeds any text to the reader: it must not panic, must name the file in every error, and what it takes must
// survive being edited.
func FuzzPolicy(f *testing.F) {
	f.Add(sealYAML("paths:", "- pattern: secrets/**", "  groups: [g]"), "secrets/a")
	f.Add(sealYAML("groups:", "- {name: a, clusters: {matchExpressions: [{key: a, operator: Exists}]}}", "paths: []"), "a")
	f.Add("# only a comment\n", "a")
	f.Add("a: &a [*a]\n", "a/b")
	f.Add(sealYAML("paths: [{pattern: '[]a]*?/**/b', groups: [g]}]"), "]a/x/b")
	f.Fuzz(func(t *testing.T, text, path string) {
		p, err := Parse([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), File+":") {
				t.Errorf("the error names no place: %v", err)
			}
			return
		}
		groups, must, err := p.Match(path)
		if err == nil && must != (len(groups) > 0) {
			t.Errorf("%q: must %v, groups %v", path, must, groups)
		}
		for line := range strings.Lines(string(p.Attributes())) {
			if len(line) > 2048 || !strings.HasPrefix(line, "/") && !strings.HasPrefix(line, `"/`) {
				t.Errorf("git would not read the line %q", line)
			}
		}
		edited, err := WithPattern([]byte(text), "added/by/fuzz", []string{"g"})
		if err != nil {
			return // at a bound already
		}
		again, err := Parse(edited)
		if err != nil || again.Repository != p.Repository || len(again.Groups) != len(p.Groups) {
			t.Errorf("edited: %v\n%s", err, edited)
		}
	})
}
