package yamlstrict

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// bounds walks a document as if its aliases were written out, and stops at the first bound it breaks. Decoding may
// follow aliases freely afterwards.
type bounds struct {
	nodes, aliases int
	// open holds the anchors whose value is being walked: an alias to one of them contains itself.
	open map[*yaml.Node]bool
}

// manyFields bounds what is made ready for the places of a document's values.
const manyFields = 1_000

// checkBounds counts keys and values. The error is nil when the document is within MaxDepth, MaxNodes and MaxAliases, and has no file yet.
func checkBounds(n *yaml.Node) (values int, err *Error) {
	b := &bounds{}
	err = b.walk(n, 0)
	return b.nodes, err
}

func (b *bounds) walk(n *yaml.Node, depth int) *Error {
	b.nodes++
	switch {
	case depth > MaxDepth:
		return nodeError(n, "flatten it", "nested more than %d levels deep", MaxDepth)
	case b.nodes > MaxNodes:
		return nodeError(n, "split the document", "more than %d values in one document, aliases written out", MaxNodes)
	case n.Kind == yaml.AliasNode:
		return b.alias(n, depth)
	}
	if n.Anchor != "" {
		if b.open == nil { // few documents have one
			b.open = map[*yaml.Node]bool{}
		}
		b.open[n] = true
		defer delete(b.open, n)
	}
	for _, child := range n.Content {
		if err := b.walk(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (b *bounds) alias(n *yaml.Node, depth int) *Error {
	b.aliases++
	switch {
	case b.open[n.Alias]:
		return nodeError(n, "write the value out", "alias %s stands inside the value it stands for", Quote("*"+n.Value))
	case b.aliases > MaxAliases:
		return nodeError(n, "write the values out", "more than %d uses of aliases in one document", MaxAliases)
	}
	return b.walk(n.Alias, depth+1)
}

func nodeError(n *yaml.Node, fix, format string, args ...any) *Error {
	return &Error{Position: Position{Line: n.Line, Column: n.Column}, Message: fmt.Sprintf(format, args...), Fix: fix}
}
