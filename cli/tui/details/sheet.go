package details

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/pluralsh/plural/cli/tui/paint"
)

// span is a piece of a line in one style.
type span struct {
	style paint.Style
	text  string
}

// line is what stands in one line, before it is known how wide that is.
type line []span

func say(style paint.Style, text string) line { return line{{style, text}} }

// sheet is lines of which a window shows some.
type sheet struct {
	lines []line
	// wrap has long lines go on below; left is how many cells are shifted out where they do not.
	wrap bool
	left int
	// top is the first line that is seen, over how many of its rows stand above the window.
	top, over int
	// end says that the last line is to be seen, whatever comes.
	end bool
	// sought is what is looked for in the lines, and pattern what finds it; nil: nothing is. hit is the line that was
	// gone to for it.
	sought  string
	pattern *regexp.Regexp
	hit     int
	// height and width are those of the last drawing.
	height, width int
	look          *paint.Look
}

// moves are the keys of every sheet.
type moves struct{ down, up, pageDown, pageUp, half, halfUp, first, last, left, right, wrap key.Binding }

func bind(help, text string, keys ...string) key.Binding {
	return key.NewBinding(key.WithKeys(keys...), key.WithHelp(help, text))
}

func movesOf() moves {
	return moves{
		down: bind("j", "down", "j", "down"), up: bind("k", "up", "k", "up"),
		pageDown: bind("pgdn", "page down", "pgdown", "ctrl+f", "space"), pageUp: bind("pgup", "page up", "pgup", "ctrl+b"),
		half: bind("ctrl+d", "half a page down", "ctrl+d"), halfUp: bind("ctrl+u", "half a page up", "ctrl+u"),
		first: bind("g", "begin", "g", "home"), last: bind("G", "end", "G", "end"),
		left: bind("left", "scroll left", "left"), right: bind("right", "scroll right", "right"),
		wrap: bind("w", "wrap", "w"),
	}
}

func (m moves) all() []key.Binding {
	return []key.Binding{m.down, m.up, m.pageDown, m.pageUp, m.half, m.halfUp, m.first, m.last, m.left, m.right}
}

// sideways is how many cells a key shifts lines by.
const sideways = 16

// update moves the window as a key or the mouse wheel says, and says whether it was one of those.
func (s *sheet) update(msg tea.Msg) bool {
	if wheel, ok := msg.(tea.MouseWheelMsg); ok {
		switch wheel.Button {
		case tea.MouseWheelUp:
			s.scroll(-3)
		case tea.MouseWheelDown:
			s.scroll(3)
		}
		return true
	}
	press, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return false
	}
	switch m := movesOf(); {
	case key.Matches(press, m.down):
		s.scroll(1)
	case key.Matches(press, m.up):
		s.scroll(-1)
	case key.Matches(press, m.pageDown):
		s.scroll(max(s.height-1, 1))
	case key.Matches(press, m.pageUp):
		s.scroll(-max(s.height-1, 1))
	case key.Matches(press, m.half):
		s.scroll(max(s.height/2, 1))
	case key.Matches(press, m.halfUp):
		s.scroll(-max(s.height/2, 1))
	case key.Matches(press, m.first):
		s.top, s.over, s.end = 0, 0, false
	case key.Matches(press, m.last):
		s.end = true
	case key.Matches(press, m.left):
		s.left = max(0, s.left-sideways)
	case key.Matches(press, m.right):
		if !s.wrap {
			s.left += sideways
		}
	default:
		return false
	}
	return true
}

// jump has a line seen first.
func (s *sheet) jump(to int) { s.top, s.over, s.end = max(0, min(to, len(s.lines)-1)), 0, false }

// scroll moves the window by rows.
func (s *sheet) scroll(by int) {
	s.settle()
	s.end = false
	for ; by > 0; by-- {
		if s.over++; s.over >= s.rows(s.top) {
			s.top, s.over = s.top+1, 0
		}
		if s.top >= len(s.lines) {
			break
		}
	}
	for ; by < 0 && (s.top > 0 || s.over > 0); by++ {
		if s.over--; s.over < 0 {
			s.top--
			s.over = s.rows(s.top) - 1
		}
	}
	s.settle()
}

// settle keeps the window over lines, and full of them where there are enough.
func (s *sheet) settle() {
	if s.end {
		s.top, s.over = len(s.lines), 0
	}
	s.top = max(0, min(s.top, len(s.lines)))
	if s.top < len(s.lines) {
		s.over = max(0, min(s.over, s.rows(s.top)-1))
	}
	// The last place from which the window is full.
	top, over, room := len(s.lines), 0, s.height
	for room > 0 && top > 0 {
		top--
		n := s.rows(top)
		over = max(0, n-room)
		room -= n
	}
	if s.top > top || s.top == top && s.over > over {
		s.top, s.over = top, over
	}
}

// rows is how many rows a line takes.
func (s *sheet) rows(i int) int {
	if !s.wrap || s.look == nil || i < 0 || i >= len(s.lines) {
		return 1
	}
	return len(wrapped(s.look, s.lines[i], s.width))
}

// draw is the window.
func (s *sheet) draw(look *paint.Look, width, height int) []string {
	s.look, s.width, s.height = look, width, height
	s.settle()
	var out []string
	for i, skip := s.top, s.over; i < len(s.lines) && len(out) < height; i, skip = i+1, 0 {
		rows := []line{shifted(look, s.lines[i], s.left)}
		if s.wrap {
			rows = wrapped(look, s.lines[i], width)
		}
		for _, row := range rows[skip:] {
			if len(out) < height {
				out = append(out, painted(look, setOff(row, s.pattern), width))
			}
		}
	}
	return out
}

// painted is a line in at most width cells. It costs no more than what is seen of it.
func painted(look *paint.Look, l line, width int) string {
	var b strings.Builder
	room := width + 1 // one more, so that what is cut says so
	for _, s := range l {
		text := begin(look.Clean(s.text[:whole(s.text, 16*room+64)]), room)
		b.WriteString(look.Paint(s.style, text))
		if room -= paint.Width(text); room <= 0 {
			break
		}
	}
	return look.Fit(b.String(), width)
}

// whole is how many of a text's first bytes are whole characters.
func whole(text string, to int) int {
	if to >= len(text) {
		return len(text)
	}
	for to > 0 && !utf8.RuneStart(text[to]) {
		to--
	}
	return to
}

// begin is what of a clean text fits into so many cells.
func begin(text string, cells int) string {
	if len(text) <= cells {
		return text // no character has more cells than bytes
	}
	for looked := max(cells, 0) + 16; ; looked *= 2 {
		window := text[:whole(text, looked)]
		if part := ansi.Truncate(window, cells, ""); len(part) < len(window) || len(window) == len(text) {
			return part
		}
	}
}

// shifted is a line without its first cells.
func shifted(look *paint.Look, l line, by int) line {
	for i, s := range l {
		if by <= 0 {
			return l[i:]
		}
		text := look.Clean(s.text)
		cut := begin(text, by)
		if len(cut) < len(text) {
			return append(line{{s.style, text[len(cut):]}}, l[i+1:]...)
		}
		by -= paint.Width(text)
	}
	return nil
}

// wrapped is a line in rows of at most width cells, each broken at a space where there is one in its second half. Rows after the
// first begin where the text does, or its value.
func wrapped(look *paint.Look, l line, width int) []line {
	indent := 0
	if len(l) > 0 {
		indent = len(l[0].text) - len(strings.TrimLeft(l[0].text, " "))
		if l[0].style == paint.Name && len(l) > 1 {
			indent = paint.Width(look.Clean(l[0].text))
		}
	}
	if indent > width/2 {
		indent = 0
	}
	width = max(width, 1)
	rows := []line{nil}
	room := width
	for _, s := range l {
		text := look.Clean(s.text)
		for {
			part := begin(text, room)
			last := &rows[len(rows)-1]
			if len(part) == len(text) {
				*last = append(*last, span{s.style, text})
				room -= paint.Width(text)
				break
			}
			if part == "" && room == width-indent {
				break // a character that is wider than the screen
			}
			if at := strings.LastIndexByte(part, ' '); at > len(part)/2 {
				part = part[:at+1]
			}
			*last = append(*last, span{s.style, strings.TrimRight(part, " ")})
			text = strings.TrimPrefix(text[len(part):], " ")
			rows, room = append(rows, line{{paint.Plain, strings.Repeat(" ", indent)}}), width-indent
		}
	}
	return rows
}
