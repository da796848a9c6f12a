package policy

import (
	"bytes"
	"strings"
)

// What git is told of a path: to seal it on the way in, to show and to merge what is inside, and to leave its bytes alone.
const (
	sealedAttributes = "filter=plural diff=plural merge=plural -text -ident !working-tree-encoding"
	clearAttributes  = "!filter !diff !merge !text !ident"
)

// Attributes are the lines for the .gitattributes of the repository's root. Git gives the filter "plural" to exactly
// those paths that Match says must be sealed. On a clone whose core.ignorecase is set, git compares patterns without
// regard to case, and asks the filter about more files.
func (p *Policy) Attributes() []byte {
	var lines bytes.Buffer
	for _, pattern := range p.Paths {
		writeAttributes(&lines, pattern.Pattern, sealedAttributes)
	}
	for _, pattern := range never() {
		writeAttributes(&lines, pattern, clearAttributes)
	}
	return lines.Bytes()
}

// writeAttributes roots the pattern with a slash: without one, git looks for a pattern of a single segment in every
// folder. The slash also hides a # or ! at the beginning.
func writeAttributes(lines *bytes.Buffer, pattern, attributes string) {
	pattern = "/" + pattern
	if strings.ContainsAny(pattern, "\" \t") {
		pattern = `"` + strings.ReplaceAll(pattern, `"`, `\"`) + `"`
	}
	lines.WriteString(pattern + " " + attributes + "\n")
}
