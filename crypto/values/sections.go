package values

import (
	"strings"
)

// section is a mapping cut into its keys, so that its parts one behind the other are its text again.
type section struct {
	open  string
	items []*item
	close string
	byKey map[string]*item
}

// item is one key of a section with the comments and blank lines above it.
type item struct {
	key        string
	lead, body string
	// inner is body cut further, when it is a mapping that can be.
	inner *section
}

func newSection(open string) *section { return &section{open: open, byKey: map[string]*item{}} }

func (s *section) add(i *item) {
	s.items = append(s.items, i)
	s.byKey[i.key] = i
}

func (s *section) keys() []string {
	keys := make([]string, len(s.items))
	for i, item := range s.items {
		keys[i] = item.key
	}
	return keys
}

// cut is the document as a section; nil when it is no mapping, or not one that has its keys on lines of their own.
func (f *file) cut(doc *document) *section {
	text := string(doc.text)
	switch {
	case len(text) == 0:
		return newSection("")
	case doc.root == nil || doc.root.kind != mapping:
		return nil
	}
	switch f.format {
	case formatJSON:
		return cutJSON(text, doc.root, 0, len(text))
	case formatEnv:
		return cutEnv(text, doc.root)
	default:
		end := documentEnd(text, doc.root)
		s := cutYAML(text, doc.root, 0, end)
		if s != nil {
			s.close += text[end:]
		}
		return s
	}
}

// documentEnd is where the line ... begins, or the end of the text.
func documentEnd(text string, root *node) int {
	for at := root.start; at < len(text); {
		l := nextLine(text[at:])
		if isMarker(l, "...") {
			return at
		}
		at += len(l)
	}
	return len(text)
}

// cutYAML cuts a block mapping whose lines are text[from:to].
func cutYAML(text string, n *node, from, to int) *section {
	if n.style == flow || len(n.entries) == 0 {
		return nil
	}
	starts := make([]int, len(n.entries)+1)
	column := -1
	for i, e := range n.entries {
		starts[i] = lineStart(text, e.key.start)
		indent := e.key.start - starts[i]
		ordered := starts[i] >= from && (i == 0 || starts[i] > starts[i-1])
		if e.key.kind != scalar || !ordered || strings.Trim(text[starts[i]:e.key.start], " ") != "" || column >= 0 && indent != column {
			return nil
		}
		column = indent
	}
	starts[len(n.entries)] = to
	s := newSection("")
	at := from
	for i, e := range n.entries {
		end := contentEnd(text, starts[i], starts[i+1], column)
		it := &item{key: e.key.text, lead: text[at:starts[i]], body: text[starts[i]:end]}
		if i == 0 {
			s.open, it.lead = cutLead(it.lead)
		}
		if nested := e.value; nested.kind == mapping && len(nested.entries) > 0 && nested.entries[0].key.line > e.key.line {
			it.inner = cutYAML(text, nested, starts[i], end)
		}
		s.add(it)
		at = end
	}
	s.close = text[at:to]
	return s
}

// contentEnd is where the lines of a key that start at start end: before the blank lines and the comments that stand
// above the key that follows at next.
func contentEnd(text string, start, next, column int) int {
	for next > start {
		line := lineStart(text, next-1)
		content := strings.TrimRight(text[line:next], " \t\r\n")
		trimmed := strings.TrimLeft(content, " \t")
		if line <= start || trimmed != "" && (trimmed[0] != '#' || len(content)-len(trimmed) > column) {
			return next
		}
		next = line
	}
	return next
}

// cutLead takes the comment lines off the end of text.
func cutLead(text string) (rest, lead string) {
	at := len(text)
	for at > 0 {
		line := lineStart(text, at-1)
		if !strings.HasPrefix(strings.TrimLeft(text[line:at], " \t"), "#") {
			break
		}
		at = line
	}
	return text[:at], text[at:]
}

// lineStart is the first byte of the line that at is on.
func lineStart(text string, at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

// cutEnv cuts an env file.
func cutEnv(text string, n *node) *section {
	s := newSection("")
	at := 0
	for i, e := range n.entries {
		start := lineStart(text, e.key.start)
		end := e.value.end + len(nextLine(text[e.value.end:]))
		it := &item{key: e.key.text, lead: text[at:start], body: text[start:end]}
		if i == 0 {
			s.open, it.lead = cutLead(it.lead)
		}
		s.add(it)
		at = end
	}
	s.close = text[at:]
	return s
}

// cutJSON cuts an object whose text, with what stands around it, is text[from:to]. The commas are left out.
func cutJSON(text string, n *node, from, to int) *section {
	s := newSection(text[from : n.start+1])
	at := n.start + 1
	for i, e := range n.entries {
		end := e.value.end
		if i+1 < len(n.entries) {
			end += strings.IndexByte(text[end:], ',')
		}
		body := strings.TrimLeft(text[at:end], " \t\r\n")
		it := &item{key: e.key.text, lead: text[at : end-len(body)], body: body}
		if e.value.kind == mapping {
			it.inner = cutJSON(text, e.value, end-len(body), end)
		}
		s.add(it)
		at = end + 1
		if i+1 == len(n.entries) {
			at = end
		}
	}
	s.close = text[at:to]
	return s
}
