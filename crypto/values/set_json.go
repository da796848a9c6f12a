package values

import "strings"

// jsonWays are the ways to change a JSON document.
func (e *edit) jsonWays() []way {
	n := e.last()
	switch {
	case e.leaf == nil:
		return []way{e.cutJSON()}
	case n == nil:
		return []way{e.splice(0, len(e.text), e.jsonObject(e.rest, "\n", "  ", ": ")+"\n")}
	case len(e.rest) == 0:
		return []way{e.splice(n.start, n.end, e.jsonLeaf())}
	case n.kind == scalar:
		lead, unit, colon := e.jsonShape(n)
		return []way{e.splice(n.start, n.end, e.jsonObject(e.rest, lead, unit, colon))}
	}
	return []way{e.insertJSON(n)}
}

func (e *edit) jsonLeaf() string {
	if e.leaf.tag == "!!str" {
		return quoteJSON(e.leaf.text)
	}
	return e.leaf.text
}

// jsonValue is the leaf inside the objects that the keys name; lead is what stands before a sibling of these objects.
func (e *edit) jsonValue(keys place, lead, unit, colon string) string {
	if len(keys) == 0 {
		return e.jsonLeaf()
	}
	return e.jsonObject(keys, lead, unit, colon)
}

func (e *edit) jsonObject(keys place, lead, unit, colon string) string {
	inner := lead
	if strings.Contains(lead, "\n") {
		inner += unit
	} else {
		inner, lead = "", ""
	}
	return "{" + inner + quoteJSON(keys[0].key) + colon + e.jsonValue(keys[1:], inner, unit, colon) + lead + "}"
}

// jsonShape is how the document is laid out: what stands before the line of n, one level of indentation, and what stands
// between a key and its value.
func (e *edit) jsonShape(n *node) (lead, unit, colon string) {
	unit, colon = "  ", ": "
	if root := e.doc.root; root.kind == mapping && len(root.entries) > 0 {
		first := root.entries[0]
		colon = e.text[first.key.end:first.value.start]
		if indent := e.blanksBefore(first.key.start); strings.Contains(indent, "\n") {
			unit = indent[strings.LastIndexByte(indent, '\n')+1:]
		} else {
			return "", "", colon
		}
	}
	line := e.text[lineStart(e.text, n.start):n.start]
	return e.lineEnd() + line[:len(line)-len(strings.TrimLeft(line, " \t"))], unit, colon
}

// blanksBefore are the blanks that end at a byte.
func (e *edit) blanksBefore(at int) string {
	return e.text[len(strings.TrimRight(e.text[:at], " \t\r\n")):at]
}

// insertJSON puts the missing keys at the end of an object.
func (e *edit) insertJSON(n *node) way {
	lead, unit, colon := e.jsonShape(n)
	if len(n.entries) == 0 {
		return e.splice(n.start, n.end, e.jsonObject(e.rest, lead, unit, colon))
	}
	last := n.entries[len(n.entries)-1]
	sibling := e.blanksBefore(last.key.start)
	if sibling == "" && strings.HasSuffix(colon, " ") {
		sibling = " "
	}
	text := "," + sibling + quoteJSON(e.rest[0].key) + colon + e.jsonValue(e.rest[1:], sibling, unit, colon)
	return e.splice(last.value.end, last.value.end, text)
}

// cutJSON takes the last node away, with one comma.
func (e *edit) cutJSON() way {
	parent, i := e.position()
	list := parent.entries
	switch {
	case len(list) == 1:
		return e.splice(parent.start+1, parent.end-1, "")
	case i == 0:
		return e.splice(begin(list[0]), begin(list[1]), "")
	}
	return e.splice(list[i-1].value.end, list[i].value.end, "")
}
