package values

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// writeAnew makes the edit in the parser's own tree and writes the whole document from it. Comments stay; blanks and
// indentation become what the writer makes of them.
func (e *edit) writeAnew() (string, bool) {
	var top yaml.Node
	if err := yaml.Unmarshal(e.doc.text, &top); err != nil || len(top.Content) == 0 {
		return "", false
	}
	if !change(top.Content[0], e.at, e.leaf) {
		return "", false
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(e.indentStep())
	if err := encoder.Encode(&top); err != nil || encoder.Close() != nil {
		return "", false
	}
	text := b.String()
	if slices.ContainsFunc(splitLines(e.text), func(line string) bool { return isMarker(line, "---") }) {
		text = "---\n" + text
	}
	return strings.ReplaceAll(text, "\n", e.lineEnd()), true
}

// change sets the value at a place below n, or takes it away when leaf is nil.
func change(n *yaml.Node, at place, leaf *node) bool {
	i := indexOf(n, at[0])
	switch {
	case i < 0 && (at[0].list || leaf == nil || n.Kind != yaml.MappingNode):
		return false
	case i < 0:
		key := &yaml.Node{}
		key.SetString(at[0].key)
		n.Content = append(n.Content, key, &yaml.Node{Kind: yaml.MappingNode})
		i = len(n.Content) - 1
	case len(at) == 1 && leaf == nil:
		from := i
		if n.Kind == yaml.MappingNode {
			from--
		}
		n.Content = slices.Delete(n.Content, from, i+1)
		return true
	}
	value := n.Content[i]
	if len(at) > 1 {
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			*value = yaml.Node{Kind: yaml.MappingNode, HeadComment: value.HeadComment, FootComment: value.FootComment}
		}
		return change(value, at[1:], leaf)
	}
	style := value.Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle)
	if leaf.tag == "!!str" && style == 0 && !isPlain(leaf.text) {
		style = yaml.DoubleQuotedStyle
	}
	if leaf.tag != "!!str" {
		style = 0
	}
	value.Kind, value.Tag, value.Value, value.Style, value.Content = yaml.ScalarNode, leaf.tag, leaf.text, style, nil
	return true
}

// indexOf is where in n's content the value of a part stands; -1 when it does not.
func indexOf(n *yaml.Node, s step) int {
	switch {
	case n.Kind == yaml.SequenceNode && s.list && s.index < len(n.Content):
		return s.index
	case n.Kind == yaml.MappingNode && !s.list:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind == yaml.ScalarNode && n.Content[i].Value == s.key {
				return i + 1
			}
		}
	}
	return -1
}
