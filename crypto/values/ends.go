package values

import "strings"

// ends is how the lines of a merged text end.
type ends struct {
	// crlf: lines end with a carriage return as well. last: so does the last line end at all.
	crlf, last bool
}

// sameEnds brings the sides to lines that all end with a newline, so that lines differ by what they say alone; the ends
// that the merged text is to have are given back. Carriage returns stay where a side has lines with and without.
func sameEnds(s mergeTexts) (mergeTexts, ends) {
	vote := func(property func(string) bool) bool {
		if b := property(s.base); b != property(s.ours) {
			return !b
		}
		return property(s.theirs)
	}
	mixed := isMixed(s.base) || isMixed(s.ours) || isMixed(s.theirs)
	e := ends{
		crlf: !mixed && vote(func(text string) bool { return strings.Contains(text, "\r\n") }),
		last: vote(func(text string) bool { return strings.HasSuffix(text, "\n") }),
	}
	return s.each(func(text string) string {
		if !mixed {
			text = strings.ReplaceAll(text, "\r\n", "\n")
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text
	}), e
}

// isMixed says whether some lines of text end with a carriage return and others do not.
func isMixed(text string) bool {
	n := strings.Count(text, "\r\n")
	return n > 0 && n != strings.Count(text, "\n")
}

func countConflicts(pieces []piece) int {
	n := 0
	for _, p := range pieces {
		if p.conflict {
			n++
		}
	}
	return n
}

// restore writes pieces as one text with the ends that it is to have, and counts the conflicts.
func (e ends) restore(pieces []piece) ([]byte, int) {
	var w lineWriter
	for _, p := range pieces {
		if p.conflict {
			w.conflict(p)
		} else {
			w.write(p.text)
		}
	}
	text, conflicts := w.text.String(), countConflicts(pieces)
	if !e.last && conflicts == 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	if e.crlf {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return []byte(text), conflicts
}

// lineWriter writes pieces so that the marks of conflicts stand on lines of their own.
type lineWriter struct {
	text strings.Builder
	// within: the last text did not end its line. ended: the line that it is to end was ended for it.
	within, ended bool
}

func (w *lineWriter) write(text string) {
	if w.ended {
		text = strings.TrimPrefix(text, "\n")
	}
	w.ended = false
	if text != "" {
		w.text.WriteString(text)
		w.within = !strings.HasSuffix(text, "\n")
	}
}

// line writes a line of its own.
func (w *lineWriter) line(text string) {
	if w.within {
		w.write("\n")
	}
	w.write(text + "\n")
}

// conflict writes both sides. Where they follow on text within a line, both begin by ending that line.
func (w *lineWriter) conflict(p piece) {
	within := w.within
	w.line("<<<<<<< ours")
	w.ended = within
	w.write(p.ours)
	w.line("=======")
	w.ended = within
	w.write(p.theirs)
	w.line(">>>>>>> theirs")
	w.ended = within
}
