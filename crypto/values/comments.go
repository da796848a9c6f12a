package values

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// comments is how many comments belong to a node; what they say is nobody's business here.
type comments struct {
	// head and foot count lines above and below.
	head, foot int
	// line: there is one behind the value.
	line bool
}

func commentsOf(n *yaml.Node) comments {
	return comments{head: countLines(n.HeadComment), foot: countLines(n.FootComment), line: n.LineComment != ""}
}

func countLines(comment string) int {
	n := 0
	for line := range strings.Lines(comment) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// plus is the comments of a key and of its value.
func (c comments) plus(o comments) comments {
	return comments{head: c.head, foot: c.foot + o.foot, line: c.line || o.line}
}
