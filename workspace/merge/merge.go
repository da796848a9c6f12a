// Package merge owns the three-way merge of texts.
//
// It refuses to know git, and what the texts mean.
//
// Three compares lines. The lines that all three versions have in common divide them into regions; of a region that only one
// side changed, that side is taken, and one that both changed differently stands in the result three times, between git's
// conflict markers. That is what `git merge-file --diff3` does, but for how repeated lines are matched: where a text has the
// same line several times, two programs may take different ones of them for each other. Folder does the same for every
// file of three folders.
package merge

import (
	"bytes"
	"slices"
)

// Labels name the three versions in conflict markers.
type Labels struct{ Base, Ours, Theirs string }

// maxMerged bounds a text that is merged by lines, in bytes. Larger ones are merged as a whole, like binary ones.
const maxMerged = 8 << 20

// Three merges the changes from base to theirs into ours, and counts the regions in conflict. Of texts that cannot be merged by
// lines (binary or very large ones) that both sides changed, ours is taken, and that is one conflict.
func Three(base, ours, theirs []byte, labels Labels) (merged []byte, conflicts int) {
	switch {
	case bytes.Equal(ours, theirs), bytes.Equal(base, theirs):
		return bytes.Clone(ours), 0
	case bytes.Equal(base, ours):
		return bytes.Clone(theirs), 0
	case whole(base) || whole(ours) || whole(theirs):
		return bytes.Clone(ours), 1
	}
	m := &merger{base: lines(base), ours: lines(ours), theirs: lines(theirs), labels: labels}
	m.run()
	return m.out.Bytes(), m.conflicts
}

// whole says whether a text is not to be merged by lines. Like git, it takes a zero byte near the beginning for a sign of that.
func whole(text []byte) bool {
	const near = 8000
	return len(text) > maxMerged || bytes.IndexByte(text[:min(len(text), near)], 0) >= 0
}

// lines are a text's, each with its end.
func lines(text []byte) [][]byte { return slices.Collect(bytes.Lines(text)) }

// merger puts one result together.
type merger struct {
	base, ours, theirs [][]byte
	labels             Labels
	out                bytes.Buffer
	conflicts          int
}

// run walks the changes of both sides, which are sorted, and joins those that touch into regions.
func (m *merger) run() {
	ids := map[string]int{}
	base, ours, theirs := number(ids, m.base), number(ids, m.ours), number(ids, m.theirs)
	left, right := difference(base, ours), difference(base, theirs)
	at := 0 // how much of base is written
	for len(left)+len(right) > 0 {
		r := region{from: first(left, right)}
		r.to = r.from
		for grown := true; grown; {
			grown = r.take(&left, &r.left) || r.take(&right, &r.right)
		}
		m.write(m.base[at:r.from])
		m.region(r)
		at = r.to
	}
	m.write(m.base[at:])
}

// change says that lines [from, to) of base became lines [newFrom, newTo) of the other text.
type change struct{ from, to, newFrom, newTo int }

// region is a part of base, from one line to another, that the changes in it make something else of.
type region struct {
	from, to    int
	left, right []change
}

func first(left, right []change) int {
	switch {
	case len(left) == 0:
		return right[0].from
	case len(right) == 0:
		return left[0].from
	}
	return min(left[0].from, right[0].from)
}

// take moves the next change into the region if it touches it.
func (r *region) take(from, into *[]change) bool {
	if len(*from) == 0 || (*from)[0].from > r.to {
		return false
	}
	c := (*from)[0]
	*from, *into = (*from)[1:], append(*into, c)
	r.to = max(r.to, c.to)
	return true
}

// side is what one side has in the place of the region.
func (r *region) side(changes []change, base, text [][]byte) [][]byte {
	if len(changes) == 0 {
		return base[r.from:r.to]
	}
	begin, end := changes[0], changes[len(changes)-1]
	return text[begin.newFrom-(begin.from-r.from) : end.newTo+(r.to-end.to)]
}

// region writes one region.
func (m *merger) region(r region) {
	ours, theirs := r.side(r.left, m.base, m.ours), r.side(r.right, m.base, m.theirs)
	switch {
	case len(r.right) == 0 || same(ours, theirs):
		m.write(ours)
	case len(r.left) == 0:
		m.write(theirs)
	default:
		m.conflict(ours, m.base[r.from:r.to], theirs)
	}
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// conflict writes all three versions.
func (m *merger) conflict(ours, base, theirs [][]byte) {
	m.conflicts++
	end := m.lineEnd()
	for _, part := range []struct {
		marker, label string
		lines         [][]byte
	}{{"<<<<<<<", m.labels.Ours, ours}, {"|||||||", m.labels.Base, base}, {"=======", "", theirs}} {
		m.marker(part.marker, part.label, end)
		m.write(part.lines)
	}
	m.marker(">>>>>>>", m.labels.Theirs, end)
}

// marker writes a line of its own, also below a line that has no end.
func (m *merger) marker(sign, label, end string) {
	if text := m.out.Bytes(); len(text) > 0 && text[len(text)-1] != '\n' {
		m.out.WriteString(end)
	}
	m.out.WriteString(sign)
	if label != "" {
		m.out.WriteString(" " + label)
	}
	m.out.WriteString(end)
}

// lineEnd is that of the texts, as their first lines have it: that of Windows where none has another.
func (m *merger) lineEnd() string {
	end := "\n"
	for _, text := range [][][]byte{m.ours, m.theirs, m.base} {
		switch {
		case len(text) == 0 || !bytes.HasSuffix(text[0], []byte("\n")):
		case bytes.HasSuffix(text[0], []byte("\r\n")):
			end = "\r\n"
		default:
			return "\n"
		}
	}
	return end
}

func (m *merger) write(lines [][]byte) {
	for _, line := range lines {
		m.out.Write(line)
	}
}

// number gives equal lines equal numbers.
func number(ids map[string]int, lines [][]byte) []int {
	numbers := make([]int, len(lines))
	for i, line := range lines {
		id, ok := ids[string(line)]
		if !ok {
			id = len(ids)
			ids[string(line)] = id
		}
		numbers[i] = id
	}
	return numbers
}
