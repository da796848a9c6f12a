package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestPatternWithMoreBytesWrittenOutDecides(t *testing.T) {
	for _, tc := range []struct{ less, more, path string }{
		{"s/a?????", "s/abc*", "s/abcdef"},
		{"s/*b*c*d*", "s/abcd*", "s/abcdef"},
		{"s/[a-c][a-c][a-c]*", "s/ab*", "s/abcdef"},
		{"s/*f", "s/a*f", "s/abcdef"},
	} {
		for _, order := range [][2]string{{tc.less, tc.more}, {tc.more, tc.less}} {
			var paths strings.Builder
			for _, pattern := range order {
				group := map[string]string{tc.less: "less", tc.more: "more"}[pattern]
				fmt.Fprintf(&paths, "{pattern: '%s', groups: [%s]}, ", pattern, group)
			}
			p, err := Parse([]byte(sealYAML("paths: [" + strings.TrimSuffix(paths.String(), ", ") + "]")))
			if err != nil {
				t.Fatal(err)
			}
			if groups, must, err := p.Match(tc.path); err != nil || !must || groups[0] != "more" {
				t.Errorf("%q: %v, %v, %v", order, groups, must, err)
			}
		}
	}
}

func TestBracketThatComesFirstInAClassStandsForItself(t *testing.T) {
	for pattern, matches := range map[string]map[string]bool{
		"[]]x":    {"]x": true, "ax": false, "!x": false},
		"[!]]x":   {"]x": false, "ax": true, "!x": true},
		"[^]]x":   {"]x": false, "ax": true, "^x": true},
		"[a!]x":   {"!x": true, "ax": true, "bx": false},
		"[a][b]x": {"abx": true, "ax": false, "bx": false, "]bx": false},
		"[!a]]x":  {"b]x": true, "a]x": false, "bx": false},
	} {
		p, err := Parse([]byte(sealYAML("paths: [{pattern: '" + pattern + "', groups: [g]}]")))
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range matches {
			if _, must, _ := p.Match(path); must != want {
				t.Errorf("%s, %s: %v", pattern, path, must)
			}
		}
	}
}

func TestARangeHoldsBothOfItsEnds(t *testing.T) {
	for pattern, matches := range map[string]map[string]bool{
		"[a-c]x":  {"ax": true, "bx": true, "cx": true, "`x": false, "dx": false, "-x": false},
		"[!a-c]x": {"ax": false, "cx": false, "dx": true},
		"[a-a]x":  {"ax": true, "bx": false, "-x": false},
		"[-a]x":   {"-x": true, "ax": true, "bx": false},
		"[a-]x":   {"-x": true, "ax": true, "bx": false},
		"[a:]x":   {":x": true, "ax": true, "bx": false},
	} {
		p := pathsOf(t, pattern)
		for path, want := range matches {
			if _, must, err := p.Match(path); must != want || err != nil {
				t.Errorf("%s, %s: %v, %v", pattern, path, must, err)
			}
		}
	}
}
