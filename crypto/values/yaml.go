package values

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/yamlerror"
)

const byteOrderMark = "\uFEFF"

// readYAML fills f document by document.
func (f *file) readYAML() error {
	for _, part := range cutDocuments(string(f.text)) {
		doc := &document{start: part.start, line: part.line, text: []byte(part.text)}
		if err := f.readDocument(doc); err != nil {
			return err
		}
		f.docs = append(f.docs, doc)
	}
	return nil
}

// part is one document's text.
type part struct {
	start, line int
	text        string
}

// cutDocuments cuts text before each line that starts a document. What stands before the first such line belongs to the
// first document, unless it is one itself.
func cutDocuments(text string) []part {
	var parts []part
	current := part{}
	empty := true
	for at, line := 0, 0; at < len(text); line++ {
		l := nextLine(text[at:])
		if isMarker(l, "---") && !empty {
			parts = append(parts, current)
			current = part{start: at, line: line}
		}
		trimmed := strings.TrimSpace(strings.TrimPrefix(l, byteOrderMark))
		if trimmed != "" && trimmed[0] != '#' && trimmed[0] != '%' {
			empty = false
		}
		current.text = text[current.start : at+len(l)]
		at += len(l)
	}
	return append(parts, current)
}

// isMarker says whether a line begins or ends a document.
func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && strings.TrimLeft(rest, " \t\r\n") != rest || ok && rest == ""
}

func (f *file) readDocument(doc *document) error {
	decoder := yaml.NewDecoder(bytes.NewReader(doc.text))
	var top yaml.Node
	err := decoder.Decode(&top)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		var more yaml.Node
		if err = decoder.Decode(&more); err == nil {
			err = errors.New("yaml: a document starts without a line ---")
		}
	}
	if !errors.Is(err, io.EOF) {
		return f.yamlFail(doc, err)
	}
	text := string(doc.text)
	r := &yamlReader{file: f, doc: doc, text: text, lines: lineStarts(text), nodes: map[*yaml.Node]*node{}}
	doc.comments = commentsOf(&top)
	doc.root, err = r.node(top.Content[0], 0)
	for from, n := range r.nodes {
		if n.kind == alias {
			n.target = r.nodes[from.Alias]
		}
	}
	return err
}

// yamlFail is the error for text that is no YAML.
func (f *file) yamlFail(doc *document, err error) error {
	line, message := yamlerror.Line(err.Error())
	return &Error{File: f.name, Line: doc.line + max(line, 1), Message: "it is not YAML: " + message, Err: ErrFormat}
}

// yamlReader turns one document's YAML nodes into nodes.
type yamlReader struct {
	file  *file
	doc   *document
	text  string
	lines []int
	nodes map[*yaml.Node]*node
}

func (r *yamlReader) node(from *yaml.Node, depth int) (*node, error) {
	n := &node{anchor: from.Anchor, line: r.doc.line + from.Line, end: -1, comments: commentsOf(from)}
	if depth > maxDepth {
		return nil, r.file.errorAt(n, "it nests more than %d levels", maxDepth)
	}
	n.start, n.column = r.offset(from.Line, from.Column)
	r.nodes[from] = n
	if from.Style&yaml.TaggedStyle != 0 {
		n.tag = from.Tag
	}
	switch from.Kind {
	case yaml.MappingNode:
		n.kind = mapping
	case yaml.SequenceNode:
		n.kind = list
	case yaml.AliasNode:
		n.kind, n.text = alias, from.Value
		return n, nil
	default:
		n.tag, n.text, n.style = from.Tag, from.Value, scalarStyle(from.Style)
		n.end = r.scalarEnd(n, from)
		return n, nil
	}
	if from.Style&yaml.FlowStyle != 0 {
		n.style = flow
	}
	if err := r.fill(n, from, depth); err != nil {
		return nil, err
	}
	if n.style == flow {
		n.end = r.flowEnd(n)
	}
	return n, nil
}

// fill reads n's entries.
func (r *yamlReader) fill(n *node, from *yaml.Node, depth int) error {
	seen := map[string]bool{}
	for i := 0; i < len(from.Content); i++ {
		var e entry
		var err error
		if n.kind == mapping {
			if e.key, err = r.node(from.Content[i], depth+1); err != nil {
				return err
			}
			if e.key.kind == scalar && seen[e.key.text] {
				r.file.flaw = r.file.errorAt(e.key, "the key %q is written twice", e.key.text)
			}
			seen[e.key.text] = e.key.kind == scalar
			i++
		}
		if e.value, err = r.node(from.Content[i], depth+1); err != nil {
			return err
		}
		n.entries = append(n.entries, e)
	}
	return nil
}

func scalarStyle(s yaml.Style) style {
	switch {
	case s&yaml.DoubleQuotedStyle != 0:
		return doubleQuoted
	case s&yaml.SingleQuotedStyle != 0:
		return singleQuoted
	case s&yaml.LiteralStyle != 0:
		return literal
	case s&yaml.FoldedStyle != 0:
		return folded
	}
	return plain
}

// lineStarts are the bytes at which lines begin, by all that YAML takes for the end of a line.
func lineStarts(text string) []int {
	starts := []int{0}
	for i := 0; i < len(text); {
		c, width := utf8.DecodeRuneInString(text[i:])
		i += width
		switch c {
		case '\r':
			if i < len(text) && text[i] == '\n' {
				i++
			}
			starts = append(starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			starts = append(starts, i)
		}
	}
	return starts
}

// offset is the byte of a place that the parser gives in lines and characters, both from 1.
func (r *yamlReader) offset(line, column int) (offset, inLine int) {
	if line < 1 || line > len(r.lines) {
		return len(r.text), 0
	}
	start := r.lines[line-1]
	at := start
	if start == 0 && strings.HasPrefix(r.text, byteOrderMark) {
		at += len(byteOrderMark)
	}
	for i := 1; i < column && at < len(r.text); i++ {
		_, width := utf8.DecodeRuneInString(r.text[at:])
		at += width
	}
	return at, at - start
}

// scalarEnd is where the scalar at n.start ends; -1 when that cannot be told without care that only the parser has.
func (r *yamlReader) scalarEnd(n *node, from *yaml.Node) int {
	if n.anchor != "" || from.Style&yaml.TaggedStyle != 0 {
		return -1
	}
	rest := r.text[n.start:]
	length := -1
	switch n.style {
	case doubleQuoted:
		length = quotedLength(rest, '"')
	case singleQuoted:
		length = quotedLength(rest, '\'')
	case literal, folded:
		length = blockLength(rest)
	default:
		if strings.HasPrefix(rest, n.text) && !strings.Contains(n.text, "\n") {
			length = len(n.text)
		}
	}
	if length < 0 {
		return -1
	}
	return n.start + length
}

// quotedLength is the length of the quoted scalar that text begins with.
func quotedLength(text string, quote byte) int {
	if text == "" || text[0] != quote {
		return -1
	}
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return -1
}

// blockLength is the length of the block scalar that text begins with, up to the end of its last line that is not blank.
// Blocks that keep their blank lines, or say their indentation, are left to the parser.
func blockLength(text string) int {
	header := nextLine(text)
	if strings.ContainsAny(header, "+123456789#") || text == header {
		return -1
	}
	end, indent := len(strings.TrimRight(header, " \t\r\n")), -1
	for at := len(header); at < len(text); {
		l := nextLine(text[at:])
		trimmed := strings.TrimRight(l, "\r\n")
		if strings.Trim(trimmed, " \t") != "" {
			width := len(l) - len(strings.TrimLeft(l, " "))
			if indent < 0 {
				indent = width
			}
			if width < indent || width == 0 {
				break
			}
			end = at + len(trimmed)
		}
		at += len(l)
	}
	return end
}

// flowEnd is the byte behind the bracket that closes n, whose entries are read.
func (r *yamlReader) flowEnd(n *node) int {
	at := n.start + 1
	if len(n.entries) > 0 {
		at = n.entries[len(n.entries)-1].value.end
	}
	if n.anchor != "" || n.tag != "" || at < 0 {
		return -1
	}
	for ; at < len(r.text); at++ {
		switch r.text[at] {
		case '}', ']':
			return at + 1
		case '#':
			return -1
		}
	}
	return -1
}
