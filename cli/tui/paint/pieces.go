package paint

import "strings"

// Bar is a bar of width cells of which the part done of all is full. It is full only when all is done, and empty only when
// nothing is.
func (l *Look) Bar(done, all, width int) string {
	if width <= 0 {
		return ""
	}
	n := 0
	if all > 0 {
		done = min(max(done, 0), all)
		n = done * width / all
		if n == 0 && done > 0 {
			n = 1
		}
		if n == width && done < all {
			n = width - 1
		}
	}
	return l.paint(Good, strings.Repeat(l.glyphs[Full], n)) + l.paint(Faint, strings.Repeat(l.glyphs[Empty], width-n))
}

// Box is a frame of width and height cells with a title, around lines of painted pieces.
func (l *Look) Box(title string, lines []string, width, height int) []string {
	if width < 4 || height < 2 {
		return nil
	}
	if width < 7 {
		title = "" // there is no cell for it between the spaces
	}
	if title != "" {
		title = l.Paint(Title, " "+l.Cut(title, width-6)+" ")
	}
	twigs := func(n int) string { return strings.Repeat(l.glyphs[Twig], max(n, 0)) }
	side := l.paint(Rule, l.glyphs[Trunk])
	out := make([]string, 0, height)
	left, right := l.glyphs[TopLeft]+l.glyphs[Twig], twigs(width-3-Width(title))+l.glyphs[TopRight]
	out = append(out, l.paint(Rule, left)+title+l.paint(Rule, right))
	for i := range height - 2 {
		line := ""
		if i < len(lines) {
			line = l.Fit(lines[i], width-4)
		}
		out = append(out, side+" "+line+spaces(width-4-Width(line))+" "+side)
	}
	return append(out, l.paint(Rule, l.glyphs[BottomLeft]+twigs(width-2)+l.glyphs[BottomRight]))
}

// KeyHint is a key with what it does, for a footer.
func (l *Look) KeyHint(key, text string) string {
	return l.Paint(Key, key) + " " + l.Paint(Hint, text)
}

// paint is Paint for what is clean.
func (l *Look) paint(s Style, text string) string {
	if l.sgr[s] == "" || text == "" {
		return text
	}
	return l.sgr[s] + text + off
}
