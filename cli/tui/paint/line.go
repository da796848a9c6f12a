package paint

// line is one line as it is written, from left to right. Its bytes are used again by the next one.
type line struct {
	look    *Look
	out     []byte
	width   int
	used    int // cells that are written
	pending int // cells of space that are not: a line does not end with them
	under   bool
	style   Style
	styled  bool // a sequence is in effect
}

func (w *line) begin(l *Look, width int, under bool) {
	*w = line{look: l, out: w.out[:0], width: width, under: under}
}

func (w *line) space(n int) { w.pending += max(n, 0) }

func (w *line) sign(s Style, glyph string, on bool) {
	if on {
		w.write(s, glyph)
		return
	}
	w.space(1)
}

// write adds a clean text, cut where the line ends.
func (w *line) write(s Style, text string) {
	w.flush()
	cells, room := Width(text), w.width-w.used
	if cells > room {
		text = w.look.cut(text, room)
		cells = Width(text)
	}
	if cells == 0 {
		return
	}
	w.set(s)
	w.out = append(w.out, text...)
	w.used += cells
}

func (w *line) flush() {
	n := min(w.pending, w.width-w.used)
	w.pending = 0
	if n <= 0 {
		return
	}
	w.set(Plain)
	w.out = append(w.out, spaces(n)...)
	w.used += n
}

// set makes what follows look like a style.
func (w *line) set(s Style) {
	if w.styled && w.style == s {
		return
	}
	sgr := w.look.sgr[s]
	if w.under {
		sgr = w.look.under[s]
	}
	switch {
	case sgr != "":
		w.out = append(w.out, sgr...)
		w.style, w.styled = s, true
	case w.styled:
		w.out = append(w.out, off...)
		w.styled = false
	}
}

func (w *line) end() string {
	if w.styled {
		w.out = append(w.out, off...)
	}
	return string(w.out)
}
