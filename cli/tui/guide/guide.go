// Package guide owns the console's help.
//
// It refuses to know what any key does: it is given the keys that do something now, in groups, with what they say of themselves.
//
// The person types to narrow the list; enter takes the help away and presses the key under the cursor.
package guide

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// Group are keys that belong together.
type Group struct {
	Title string
	Keys  []key.Binding
}

// Press asks the console to do what the key does, as if it had been pressed. The help is off the stack by then.
type Press struct{ Key string }

// Guide is the help.
type Guide struct {
	look   *paint.Look
	groups []Group
	typed  string
	rows   []row
	// cursor and top are rows; width is that of the widest key.
	cursor, top, width, height int
}

// row is a group's title or, where that is empty, a key.
type row struct {
	title string
	key   key.Binding
}

// New is a pane that shows the groups.
func New(look *paint.Look, groups []Group) *Guide {
	g := &Guide{look: look, groups: groups}
	for _, group := range groups {
		for _, b := range group.Keys {
			g.width = max(g.width, paint.Width(look.Clean(b.Help().Key)))
		}
	}
	g.narrow()
	return g
}

// narrow leaves the keys that what is typed is in, and puts the cursor on the first.
func (g *Guide) narrow() {
	g.rows, g.cursor, g.top = nil, 0, 0
	wanted := strings.ToLower(g.typed)
	for _, group := range g.groups {
		var found []row
		for _, b := range group.Keys {
			h := b.Help()
			if b.Enabled() && (strings.Contains(strings.ToLower(h.Desc), wanted) || strings.Contains(h.Key, g.typed)) {
				found = append(found, row{key: b})
			}
		}
		if len(found) > 0 {
			g.rows = append(append(g.rows, row{title: group.Title}), found...)
		}
	}
	g.move(1)
}

// move puts the cursor by keys further, over titles.
func (g *Guide) move(by int) {
	step := 1
	if by < 0 {
		step, by = -1, -by
	}
	for i := g.cursor + step; by > 0 && i >= 0 && i < len(g.rows); i += step {
		if g.rows[i].title == "" {
			g.cursor = i
			by--
		}
	}
}

// Init has nothing to ask for.
func (g *Guide) Init() tea.Cmd { return nil }

// Title is its name.
func (g *Guide) Title() string { return "help" }

// Typing takes all keys: letters narrow the list.
func (g *Guide) Typing() bool { return true }

// Keys are its own.
func (g *Guide) Keys() []key.Binding {
	return []key.Binding{
		key.NewBinding(key.WithKeys("enter"), key.WithHelp("enter", "press it")),
		key.NewBinding(key.WithKeys("esc"), key.WithHelp("esc", "back")),
	}
}

// Update takes a key.
func (g *Guide) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelDown {
			g.move(1)
		} else {
			g.move(-1)
		}
	case tea.PasteMsg:
		g.write(msg.Content)
	case tea.KeyPressMsg:
		return g.key(msg)
	}
	return nil
}

func (g *Guide) key(msg tea.KeyPressMsg) tea.Cmd {
	switch msg.String() {
	case "esc":
		return pane.Ask(pane.Back{})
	case "enter":
		if g.cursor >= len(g.rows) || g.rows[g.cursor].title != "" {
			return nil
		}
		return tea.Sequence(pane.Ask(pane.Back{}), pane.Ask(Press{g.rows[g.cursor].key.Keys()[0]}))
	case "down", "ctrl+n":
		g.move(1)
	case "up", "ctrl+p":
		g.move(-1)
	case "pgdown":
		g.move(max(g.height-1, 1))
	case "pgup":
		g.move(-max(g.height-1, 1))
	case "home":
		g.move(-len(g.rows))
	case "end":
		g.move(len(g.rows))
	case "ctrl+u":
		g.typed = ""
		g.narrow()
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(g.typed)
		g.typed = g.typed[:len(g.typed)-n]
		g.narrow()
	default:
		g.write(msg.Text)
	}
	return nil
}

// write adds what is typed.
func (g *Guide) write(typed string) {
	const most = 64
	typed = strings.TrimFunc(typed, unicode.IsControl)
	if typed != "" && len(g.typed)+len(typed) <= most {
		g.typed += typed
		g.narrow()
	}
}

// Draw is the line that is typed, and below it the keys.
func (g *Guide) Draw(width, height int) []string {
	l := g.look
	typed := l.Paint(paint.Faint, l.Cut("Type to narrow.", width))
	if g.typed != "" {
		typed = l.Paint(paint.Bold, l.Cut("/"+g.typed, width-1)) + l.Paint(paint.Cursor, " ")
	}
	out := []string{typed}
	if len(g.rows) == 0 {
		return append(out, l.Paint(paint.Faint, l.Cut("No key does anything like that.", width)))
	}
	g.height = max(height-len(out), 1)
	g.see()
	for i := g.top; i < min(g.top+g.height, len(g.rows)); i++ {
		out = append(out, g.line(i, width))
	}
	return out
}

// see has the cursor be among what is drawn, with the title above it where it is the first of its group.
func (g *Guide) see() {
	first := g.cursor
	if first > 0 && g.rows[first-1].title != "" {
		first--
	}
	g.top = min(max(min(g.top, first), g.cursor-g.height+1), max(len(g.rows)-g.height, 0))
}

func (g *Guide) line(i, width int) string {
	l, r := g.look, g.rows[i]
	if r.title != "" {
		return l.Paint(paint.Title, l.Cut(r.title, width))
	}
	h := r.key.Help()
	if i == g.cursor {
		text := l.Pad(l.Glyph(paint.Pointer)+" "+l.Pad(h.Key, g.width)+"  "+l.Clean(h.Desc), width)
		return l.Under(paint.Bold, text)
	}
	return l.Fit("  "+l.Paint(paint.Key, l.Pad(h.Key, g.width))+"  "+l.Paint(paint.Plain, h.Desc), width)
}
