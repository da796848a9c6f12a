package values

import (
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// yamlWays are the ways to change a YAML document.
func (e *edit) yamlWays() []way {
	n := e.last()
	var ways []way
	switch {
	case e.leaf == nil:
		ways = append(ways, e.cutLines())
	case n == nil:
		ways = e.insertBlock(documentEnd(e.text, &node{}), "")
	case len(e.rest) == 0:
		ways = e.replaceScalar(n)
	case n.kind == scalar:
		ways = e.replaceNull(n)
	case n.style == flow:
		ways = e.insertFlow(n)
	default:
		first := n.entries[0].key
		indent := e.text[lineStart(e.text, first.start):first.start]
		if strings.Trim(indent, " ") != "" {
			indent = strings.Repeat(" ", first.column)
		}
		ways = e.insertBlock(e.blockEnd(n), indent)
	}
	return append(ways, e.writeAnew)
}

// replaceScalar writes another value over an old one, in the same style where it can.
func (e *edit) replaceScalar(n *node) []way {
	if n.kind != scalar {
		return e.each(e.forms(plain, ""), func(form string) way { return e.splice(n.start, n.end, form) })
	}
	indent := ""
	if !e.inFlow() {
		indent = e.valueIndent(n)
	}
	return e.each(e.forms(n.style, indent), func(form string) way {
		if n.start == n.end && n.start > 0 && !unicode.IsSpace(rune(e.text[n.start-1])) {
			form = " " + form
		}
		return e.splice(n.start, n.end, form)
	})
}

// each is a way for each form.
func (e *edit) each(forms []string, with func(form string) way) []way {
	ways := make([]way, len(forms))
	for i, form := range forms {
		ways[i] = with(form)
	}
	return ways
}

// inFlow says whether the place to edit is between brackets.
func (e *edit) inFlow() bool {
	return slices.ContainsFunc(e.path, func(n *node) bool { return n.style == flow && n.kind != scalar })
}

// valueIndent is the indentation of lines that belong to the scalar n.
func (e *edit) valueIndent(n *node) string {
	if n.style == literal || n.style == folded {
		rest := e.text[n.start:]
		for rest = rest[len(nextLine(rest)):]; rest != ""; rest = rest[len(nextLine(rest)):] {
			if line := nextLine(rest); strings.TrimSpace(line) != "" {
				return line[:len(line)-len(strings.TrimLeft(line, " "))]
			}
		}
	}
	column := n.column
	if parent, i := e.position(); parent.kind == mapping {
		column = parent.entries[i].key.column
	} else {
		column = max(0, column-e.indentStep())
	}
	return strings.Repeat(" ", column+e.indentStep())
}

// indentStep is how much deeper the first nested mapping of the document stands than what holds it.
func (e *edit) indentStep() int {
	if step := e.doc.root.step(); step > 0 {
		return step
	}
	return 2
}

func (n *node) step() int {
	if n == nil || n.style == flow {
		return 0
	}
	for _, x := range n.entries {
		if x.key != nil && x.value.kind == mapping && x.value.style != flow && x.value.line > x.key.line && x.value.column > x.key.column {
			return x.value.column - x.key.column
		}
		if step := x.value.step(); step > 0 {
			return step
		}
	}
	return 0
}

// forms are the ways to write the leaf, the best first. indent is that of further lines, empty where there can be none.
func (e *edit) forms(like style, indent string) []string {
	value := e.leaf.text
	if e.leaf.tag != "!!str" {
		return []string{value}
	}
	quoted := quoteYAML(value)
	block := ""
	if indent != "" {
		block = e.blockForm(value, indent)
	}
	var forms []string
	switch like {
	case doubleQuoted:
	case singleQuoted:
		if !strings.ContainsFunc(value, unicode.IsControl) {
			forms = []string{"'" + strings.ReplaceAll(value, "'", "''") + "'"}
		}
	case literal, folded:
		forms = []string{block}
	default:
		if isPlain(value) {
			forms = []string{value}
		} else if strings.Contains(value, "\n") {
			forms = []string{block}
		}
	}
	return slices.DeleteFunc(append(forms, quoted), func(form string) bool { return form == "" })
}

// blockForm is value as a block scalar without the end of its last line; empty when it cannot be one.
func (e *edit) blockForm(value, indent string) string {
	body, ended := strings.CutSuffix(value, "\n")
	odd := func(c rune) bool { return c != '\n' && c != '\t' && (unicode.IsControl(c) || !unicode.IsPrint(c)) }
	if body == "" || strings.HasSuffix(body, "\n") || strings.ContainsAny(body[:1], " \t\n") || strings.ContainsFunc(body, odd) {
		return ""
	}
	header := "|"
	if !ended {
		header = "|-"
	}
	var b strings.Builder
	b.WriteString(header)
	for _, line := range strings.Split(body, "\n") {
		b.WriteString(e.lineEnd())
		if line != "" {
			b.WriteString(indent + line)
		}
	}
	return b.String()
}

// isPlain says whether a string can stand without quotes for all readers, also those that take yes for true.
func isPlain(value string) bool {
	text, err := yaml.Marshal(value)
	return err == nil && string(text) == value+"\n"
}

// quoteYAML writes text between double quotes.
func quoteYAML(text string) string {
	var b strings.Builder
	for _, c := range quoteJSON(text) {
		if c == '\uFEFF' || c > '~' && !unicode.IsPrint(c) {
			escaped := []rune(`\U00000000`)
			for i := len(escaped) - 1; c > 0; i, c = i-1, c>>4 {
				escaped[i] = rune("0123456789abcdef"[c&15])
			}
			b.WriteString(string(escaped))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func yamlKey(key string) string {
	if isPlain(key) {
		return key
	}
	return quoteYAML(key)
}

// insertBlock puts the missing keys on lines of their own.
func (e *edit) insertBlock(at int, indent string) []way {
	step := strings.Repeat(" ", e.indentStep())
	var lines []string
	for _, s := range e.rest {
		lines = append(lines, indent+yamlKey(s.key)+":")
		indent += step
	}
	last := lines[len(lines)-1]
	return e.each(e.forms(plain, indent), func(form string) way {
		return e.insertLines(at, append(slices.Clone(lines[:len(lines)-1]), last+" "+form))
	})
}

// blockEnd is where the lines of the block mapping n, the last of the path, end.
func (e *edit) blockEnd(n *node) int {
	last := n.entries[len(n.entries)-1].key
	return contentEnd(e.text, lineStart(e.text, last.start), e.limit(), last.column-1)
}

// limit is where the line of what follows the last node of the path begins.
func (e *edit) limit() int {
	limit := documentEnd(e.text, e.doc.root)
	for i, parent := range e.path[:len(e.path)-1] {
		index := slices.IndexFunc(parent.entries, func(x entry) bool { return x.value == e.path[i+1] })
		if index+1 < len(parent.entries) {
			limit = lineStart(e.text, begin(parent.entries[index+1]))
		}
	}
	return limit
}

func begin(x entry) int {
	if x.key != nil {
		return x.key.start
	}
	return x.value.start
}

// replaceNull puts the missing keys below a key that holds nothing yet.
func (e *edit) replaceNull(n *node) []way {
	if n.end < 0 || len(e.path) < 2 || e.inFlow() {
		return nil
	}
	parent, i := e.position()
	if parent.kind != mapping {
		return nil
	}
	emptied := *e
	head := strings.TrimRight(e.text[:n.start], " ")
	emptied.text = head + e.text[n.end:]
	lineEnd := len(head) + len(nextLine(emptied.text[len(head):]))
	return emptied.insertBlock(lineEnd, strings.Repeat(" ", parent.entries[i].key.column+e.indentStep()))
}

// insertFlow puts the missing keys at the end of a mapping between brackets.
func (e *edit) insertFlow(n *node) []way {
	at, before := n.start+1, ""
	if len(n.entries) > 0 {
		at, before = n.entries[len(n.entries)-1].value.end, ", "
	}
	if n.end < 0 {
		return nil
	}
	ways := e.each(e.forms(plain, ""), func(form string) way {
		for _, s := range slices.Backward(e.rest[1:]) {
			form = "{" + yamlKey(s.key) + ": " + form + "}"
		}
		return e.splice(at, at, before+yamlKey(e.rest[0].key)+": "+form)
	})
	return ways
}

// cutLines takes the lines of the last node away.
func (e *edit) cutLines() way {
	parent, i := e.position()
	if parent.style == flow || len(parent.entries) == 1 {
		return func() (string, bool) { return "", false }
	}
	start := lineStart(e.text, begin(parent.entries[i]))
	return e.splice(start, contentEnd(e.text, start, e.limit(), begin(parent.entries[i])-start), "")
}
