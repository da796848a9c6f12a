package values

import (
	"slices"
	"strings"
)

// Merge merges what two sides made of base. When all three are YAML, JSON or env files with keys, it goes key by key:
// changes to different keys never hurt each other, wherever they stand, and comments go with the key below them. Lists
// and texts of several lines are merged by line. Anything else is merged by line as a whole.
//
// conflicts counts the places where both sides want something different. Each stands in merged between the lines
// "<<<<<<< ours", "=======" and ">>>>>>> theirs". The ends of lines stay those of the sides. The error, beside ours and
// one conflict, is ErrFormat when a side is no text; a file that is damaged is merged by line.
func Merge(name string, base, ours, theirs []byte) (merged []byte, conflicts int, err error) {
	switch {
	case string(ours) == string(theirs) || string(base) == string(theirs):
		return ours, 0, nil
	case string(base) == string(ours):
		return theirs, 0, nil
	case !isText(base) || !isText(ours) || !isText(theirs):
		return ours, 1, &Error{File: name, Message: "both sides changed it, and it is not UTF-8 text", Err: ErrFormat}
	}
	in, ends := sameEnds(mergeTexts{string(base), string(ours), string(theirs)})
	merged, conflicts = ends.restore(in.merge(name))
	return merged, conflicts, nil
}

// mergeTexts are the three texts of a merge.
type mergeTexts struct{ base, ours, theirs string }

// each is s with every text changed.
func (s mergeTexts) each(change func(string) string) mergeTexts {
	return mergeTexts{change(s.base), change(s.ours), change(s.theirs)}
}

// merge is the most careful merge that says what the sides want.
func (s mergeTexts) merge(name string) []piece {
	files := s.files(name)
	if files == nil {
		return mergeLines(s.base, s.ours, s.theirs)
	}
	for _, byLine := range []bool{true, false} {
		m := merger{comma: files[0].format == formatJSON, byLine: byLine}
		if pieces := m.files(files); files.agree(pieces) {
			return pieces
		}
	}
	if pieces := mergeLines(s.base, s.ours, s.theirs); files.agree(pieces) || countConflicts(pieces) > 0 {
		return pieces
	}
	return disputed(s.ours, s.theirs)
}

// mergeFiles is the three files of a merge, read alike: base, ours, theirs.
type mergeFiles []*file

// files reads all three sides; nil unless each has keys and as many documents as the others. A file without any text is
// one that has no keys yet.
func (s mergeTexts) files(name string) mergeFiles {
	t := make(mergeFiles, 3)
	for i, text := range []string{s.theirs, s.ours, s.base} {
		f, err := parse(name, []byte(text))
		if strings.TrimSpace(text) == "" && i > 0 {
			f, err = &file{name: name, format: t[2].format, docs: []*document{{}}}, nil
		} else if err == nil && !f.hasKeys() {
			return nil
		}
		if err != nil || f.flaw != nil || i > 0 && (f.format != t[2].format || len(f.docs) != len(t[2].docs)) {
			return nil
		}
		t[2-i] = f
	}
	return t
}

// agree says whether pieces, whichever side wins the conflicts, hold under each key what the sides want there.
func (t mergeFiles) agree(pieces []piece) bool {
	j := judge{disputed: countConflicts(pieces) > 0}
	for side := 1; side <= 2; side++ {
		var b strings.Builder
		for _, p := range pieces {
			b.WriteString(p.text)
			if side == 1 {
				b.WriteString(p.ours)
			} else {
				b.WriteString(p.theirs)
			}
		}
		got, err := parse(t[0].name, []byte(b.String()))
		if err != nil || got.flaw != nil || got.format != t[0].format || len(got.docs) != len(t[0].docs) {
			return false
		}
		for i, doc := range got.docs {
			if !j.accepts(t[0].docs[i].root, t[1].docs[i].root, t[2].docs[i].root, doc.root, t[side].docs[i].root) {
				return false
			}
		}
	}
	return true
}

// judge holds a merged value against the three it comes from.
type judge struct {
	// disputed: there are conflicts, so a value that both sides changed may be one side's.
	disputed bool
}

// accepts says whether got is what follows from base, ours and theirs; side is that one of them which wins conflicts.
func (j judge) accepts(base, ours, theirs, got, side *node) bool {
	switch {
	case ours.same(theirs) || base.same(theirs):
		return got.same(ours)
	case base.same(ours):
		return got.same(theirs)
	case j.disputed && got.same(side):
		return true
	case got == nil || ours == nil || theirs == nil || ours.kind != theirs.kind || got.kind != ours.kind:
		return false
	case ours.kind == scalar:
		return strings.Contains(ours.text, "\n") && strings.Contains(theirs.text, "\n") && got.tag == ours.tag
	case ours.kind != mapping:
		return ours.kind == list
	}
	all := []map[string]*node{base.byKey(), ours.byKey(), theirs.byKey(), got.byKey(), side.byKey()}
	judged := map[string]bool{} // a key that was judged once for each side would be judged 3^depth times
	for _, e := range slices.Concat(ours.entries, theirs.entries, got.entries) {
		k := e.key.text
		if e.key.kind != scalar || !judged[k] && !j.accepts(all[0][k], all[1][k], all[2][k], all[3][k], all[4][k]) {
			return false
		}
		judged[k] = true
	}
	return true
}

// byKey is what n holds under each key; nothing when it is no mapping.
func (n *node) byKey() map[string]*node {
	m := map[string]*node{}
	if n != nil && n.kind == mapping {
		for _, e := range n.entries {
			m[e.key.text] = e.value
		}
	}
	return m
}

// merger puts sections together.
type merger struct {
	// comma: keys are separated by commas, and blanks mean nothing.
	comma bool
	// byLine: values that are not mappings are merged by line; otherwise both sides' changes to one are a conflict.
	byLine bool
}

// files merges document by document.
func (m merger) files(t mergeFiles) []piece {
	var pieces []piece
	for i, doc := range t[0].docs {
		b, o, th := t[0].cut(doc), t[1].cut(t[1].docs[i]), t[2].cut(t[2].docs[i])
		if o == nil || th == nil || b == nil {
			pieces = append(pieces, mergeLines(string(doc.text), string(t[1].docs[i].text), string(t[2].docs[i].text))...)
			continue
		}
		pieces = append(pieces, m.section(b, o, th)...)
	}
	return pieces
}

// section merges a mapping; base is empty when both sides added it.
func (m merger) section(base, ours, theirs *section) []piece {
	var list [][]piece
	for _, key := range order(base.keys(), ours.keys(), theirs.keys()) {
		if pieces := m.item(base.byKey[key], ours.byKey[key], theirs.byKey[key]); len(pieces) > 0 {
			list = append(list, pieces)
		}
	}
	pieces := m.blanks(base.open, ours.open, theirs.open)
	for i, item := range list {
		if m.comma && i+1 < len(list) {
			item[len(item)-1] = item[len(item)-1].with(",")
		}
		pieces = append(pieces, item...)
	}
	return append(pieces, m.blanks(base.close, ours.close, theirs.close)...)
}

// with is p with a text behind it, on each side that has one.
func (p piece) with(text string) piece {
	if !p.conflict {
		p.text += text
		return p
	}
	if p.ours != "" {
		p.ours += text
	}
	if p.theirs != "" {
		p.theirs += text
	}
	return p
}

// blanks merges what stands between keys.
func (m merger) blanks(base, ours, theirs string) []piece {
	pieces := mergeLines(base, ours, theirs)
	if m.comma && countConflicts(pieces) > 0 {
		return agreed(ours)
	}
	return pieces
}

// item merges one key; nothing is left of a key that is gone.
func (m merger) item(base, ours, theirs *item) []piece {
	switch {
	case ours == nil && theirs == nil:
		return nil
	case theirs == nil:
		return m.missing(base, ours, ours, nil)
	case ours == nil:
		return m.missing(base, theirs, nil, theirs)
	case base == nil:
		base = &item{inner: newSection("")}
		if ours.inner != nil && theirs.inner != nil {
			base.inner.open, base.inner.close = ours.inner.open, ours.inner.close
		}
	}
	body := m.body(base, ours, theirs)
	if m.comma {
		return withLead(ours.lead, theirs.lead, body)
	}
	return append(m.blanks(base.lead, ours.lead, theirs.lead), body...)
}

// withLead puts the blanks before a key in front of it; a conflict that starts there takes them in.
func withLead(ours, theirs string, body []piece) []piece {
	if len(body) > 0 && body[0].conflict {
		body[0].ours, body[0].theirs = ours+body[0].ours, theirs+body[0].theirs
		return body
	}
	return append(agreed(ours), body...)
}

// body merges what one key holds.
func (m merger) body(base, ours, theirs *item) []piece {
	switch {
	case ours.body == theirs.body || base.body == theirs.body:
		return agreed(ours.body)
	case base.body == ours.body:
		return agreed(theirs.body)
	case base.inner != nil && ours.inner != nil && theirs.inner != nil:
		return m.section(base.inner, ours.inner, theirs.inner)
	case m.byLine:
		return mergeLines(base.body, ours.body, theirs.body)
	}
	return []piece{{conflict: true, ours: ours.body, theirs: theirs.body}}
}

// missing is a key that one side does not have: left is the other side's.
func (m merger) missing(base, left, ours, theirs *item) []piece {
	whole := func(i *item) string {
		if i == nil {
			return ""
		}
		return i.lead + i.body
	}
	switch {
	case base == nil:
		return agreed(whole(left))
	case base.body == left.body && (m.comma || strings.TrimSpace(base.lead) == strings.TrimSpace(left.lead)):
		return nil
	}
	return []piece{{conflict: true, ours: whole(ours), theirs: whole(theirs)}}
}

// order is the keys of both sides: in the order of ours, unless only theirs has moved them, with the keys that the other
// side added behind those that they follow there.
func order(base, ours, theirs []string) []string {
	first, second := ours, theirs
	if slices.Equal(common(base, ours), common(ours, base)) && !slices.Equal(common(base, theirs), common(theirs, base)) {
		first, second = theirs, ours
	}
	known, shared := set(first), set(second)
	behind := map[string][]string{} // what second adds behind a key of first, or, for "", in front of them all
	last := ""
	for _, key := range second {
		if known[key] {
			last = key
		} else {
			behind[last] = append(behind[last], key)
		}
	}
	merged, waiting := make([]string, 0, len(first)), behind[""]
	for _, key := range first {
		if shared[key] {
			merged = append(merged, waiting...)
			waiting = behind[key]
		}
		merged = append(merged, key)
	}
	return append(merged, waiting...)
}

// common is the elements of list that are in other too.
func common(list, other []string) []string {
	in := set(other)
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !in[s] })
}

func set(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}
