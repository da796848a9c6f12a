package paint

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Clean is a text as a terminal may have it, on one line: line breaks and tabs are spaces, other control characters and direction
// marks are escaped, and so is everything but ASCII where the look says so.
func (l *Look) Clean(text string) string {
	if plain(text) {
		return text
	}
	return string(l.appendClean(make([]byte, 0, len(text)+16), text))
}

// plain says that a text is printable ASCII throughout, as almost all are: its bytes are its cells.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func (l *Look) appendClean(out []byte, text string) []byte {
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			out = append(out, ' ')
		case r >= 0xFE00 && r <= 0xFE0F:
			// Variation selectors change how wide the character before them is, and terminals do not agree on it.
		case !strconv.IsPrint(r):
			quoted := strconv.AppendQuoteRuneToASCII(nil, r)
			out = append(out, quoted[1:len(quoted)-1]...)
		case l.options.ASCII && r >= utf8.RuneSelf:
			out = append(out, '?')
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// Width is how many cells a text takes, cleaned or painted.
func Width(text string) int {
	if plain(text) {
		return len(text)
	}
	return ansi.StringWidth(text)
}

// Cut is a text, cleaned, in at most width cells.
func (l *Look) Cut(text string, width int) string {
	text = l.Clean(text)
	if Width(text) <= width {
		return text
	}
	return l.cut(text, width)
}

// cut shortens what is too long.
func (l *Look) cut(text string, width int) string {
	if width <= 0 {
		return ""
	}
	if plain(text) {
		return text[:min(len(text), width-1)] + l.glyphs[Ellipsis]
	}
	return ansi.Truncate(text, width, l.glyphs[Ellipsis])
}

// Pad is a text, cleaned, in exactly width cells.
func (l *Look) Pad(text string, width int) string {
	text = l.Cut(text, width)
	return text + spaces(width-Width(text))
}

// Fit is a line of painted pieces in at most width cells. Control sequences other than colours are escaped.
func (l *Look) Fit(line string, width int) string {
	if plain(line) && len(line) <= width {
		return line
	}
	line = l.keepColors(line)
	if Width(line) <= width {
		return line
	}
	return l.cut(line, width)
}

// keepColors is Clean but for sequences that only set colours.
func (l *Look) keepColors(line string) string {
	if strings.IndexByte(line, ansi.ESC) < 0 {
		return l.Clean(line)
	}
	out := make([]byte, 0, len(line))
	for line != "" {
		at := strings.IndexByte(line, ansi.ESC)
		if at < 0 {
			at = len(line)
		}
		out, line = l.appendClean(out, line[:at]), line[at:]
		if n := colorLength(line); n > 0 && l.options.Color {
			out, line = append(out, line[:n]...), line[n:]
		} else if line != "" {
			out, line = l.appendClean(out, line[:1]), line[1:]
		}
	}
	return string(out)
}

// colorLength is how long the sequence is that a text begins with, if it is one that sets colours.
func colorLength(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < len(text) && i < 32; i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// Figure is a number with commas between thousands.
func Figure(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func spaces(n int) string {
	const some = "                                                                                "
	if n <= 0 {
		return ""
	}
	if n <= len(some) {
		return some[:n]
	}
	return strings.Repeat(" ", n)
}
