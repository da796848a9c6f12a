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
		if !neverSealed(path) && checkPath(path) == nil && reached(p, path) != (must || err != nil) {
			t.Errorf("%q: a walk finds %v, Match %v, %v", path, reached(p, path), must, err)
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

// reached says whether a walk from the root would find that a pattern matches the path.
func reached(p *Policy, path string) bool {
	at := p.Reach()
	for {
		folder, rest, below := strings.Cut(path, "/")
		if !below {
			return at.Matches(path)
		}
		at, path = at.Into(folder), rest
	}
}

func TestWalkFindsWhatMatchFinds(t *testing.T) {
	patterns := []string{"a", "a/**", "**/a", "**", "a/**/b", "*/b", "**/a/**", "a*/[bc]/**/?", "**/a/*/**/b", "**/a/b/**/a/b"}
	var paths []string
	for _, one := range []string{"a", "b", "ab"} {
		paths = append(paths, one)
		for _, two := range []string{"a", "b", "c"} {
			paths = append(paths, one+"/"+two)
			for _, rest := range []string{"a", "b", "a/b", "x/a", "a/b/a/b", "b/x/a/b", "a/x/y/b"} {
				paths = append(paths, one+"/"+two+"/"+rest)
			}
		}
	}
	for _, pattern := range patterns {
		p, err := Parse([]byte(sealYAML("paths: [{pattern: '" + pattern + "', groups: [g]}]")))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if _, must, _ := p.Match(path); reached(p, path) != must {
				t.Errorf("%s, %s: a walk finds %v, Match %v", pattern, path, reached(p, path), must)
			}
		}
	}
}
