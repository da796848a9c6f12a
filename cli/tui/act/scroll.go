package act

import (
	"strings"

	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// text is one line in a style.
type text struct {
	style paint.Style
	s     string
}

// scroller shows lines, wrapped, of which not all need to fit.
type scroller struct {
	lines   []text
	wrapped []text
	// width is what wrapped is for, height how many lines were drawn last.
	width, height, top int
}

func (s *scroller) set(lines []text) { s.lines, s.width = lines, 0 }

// scrolling is what its keys do.
func scrolling() []key.Binding {
	return []key.Binding{key.NewBinding(key.WithKeys("down", "up"), key.WithHelp("↑↓", "scroll"))}
}

// key moves by a key; false: the key does not.
func (s *scroller) key(k string) bool {
	switch k {
	case "down", "j":
		s.top++
	case "up", "k":
		s.top--
	case "pgdown", "ctrl+f", "space":
		s.top += max(s.height-1, 1)
	case "pgup", "ctrl+b":
		s.top -= max(s.height-1, 1)
	case "ctrl+d":
		s.top += max(s.height/2, 1)
	case "ctrl+u":
		s.top -= max(s.height/2, 1)
	case "home", "g":
		s.top = 0
	case "end", "G":
		s.top = len(s.wrapped)
	default:
		return false
	}
	return true
}

// wheel moves by the mouse.
func (s *scroller) wheel(down bool) {
	const lines = 3
	if down {
		s.top += lines
		return
	}
	s.top -= lines
}

func (s *scroller) draw(l *paint.Look, width, height int) []string {
	s.wrap(l, width)
	s.height = height
	s.top = min(max(s.top, 0), max(len(s.wrapped)-height, 0))
	var out []string
	for _, t := range s.wrapped[s.top:min(s.top+height, len(s.wrapped))] {
		out = append(out, l.Paint(t.style, t.s))
	}
	return out
}

// rest says how much there is that cannot be seen; empty: none.
func (s *scroller) rest() bool { return s.top+s.height < len(s.wrapped) }

func (s *scroller) wrap(l *paint.Look, width int) {
	if s.width == width {
		return
	}
	s.width, s.wrapped = width, s.wrapped[:0]
	for _, t := range s.lines {
		for part := range strings.SplitSeq(ansi.Hardwrap(l.Clean(t.s), max(width, 1), true), "\n") {
			s.wrapped = append(s.wrapped, text{t.style, part})
		}
	}
}

// plainly are lines as they were said.
func plainly(style paint.Style, said string) []text {
	var out []text
	for line := range strings.Lines(said) {
		out = append(out, text{style, strings.TrimRight(line, "\r\n")})
	}
	return out
}

// diffed are the lines of a diff.
func diffed(said string) []text {
	out := plainly(paint.Plain, said)
	for i := range out {
		switch s := out[i].s; {
		case strings.HasPrefix(s, "+++"), strings.HasPrefix(s, "---"):
			out[i].style = paint.Bold
		case strings.HasPrefix(s, "+"):
			out[i].style = paint.Added
		case strings.HasPrefix(s, "-"):
			out[i].style = paint.Removed
		case strings.HasPrefix(s, "@@"):
			out[i].style = paint.Hunk
		}
	}
	return out
}
