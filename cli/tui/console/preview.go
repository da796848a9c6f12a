package console

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

const (
	// rest is how long the cursor stays on a row until somebody is asked about it: whoever goes through a list asks nothing.
	rest = 150 * time.Millisecond
	// beside is the width from which there is room for two panes side by side, below the height for two one above the other.
	beside = 140
	below  = 18
)

// preview is a second pane, about the row under the cursor of the list on top.
type preview struct {
	on bool
	// pane is nil until the cursor rests.
	pane  pane.Pane
	about pane.Subject
	// turn counts the rows that the cursor was on.
	turn int
}

// rested says that the cursor is on the row of that turn for a while.
type rested struct{ turn int }

// same says whether two subjects are one, however it is.
func same(a, b pane.Subject) bool {
	return a.Kind == b.Kind && a.Name == b.Name && a.Cluster == b.Cluster && a.Service == b.Service
}

// previews says whether what is on top has rows to be previewed.
func (m *Model) previews() bool {
	shown := []string{"fleet", "clusters", "services", "sources", "packages", "events", "history", "happened", "objects"}
	return slices.Contains(shown, m.stack[len(m.stack)-1].asked.Pane)
}

// toggle shows the preview, or takes it away.
func (m *Model) toggle() {
	m.preview.on = !m.preview.on
	m.preview.drop()
}

func (p *preview) drop() {
	if c, ok := p.pane.(pane.Closing); ok {
		c.Close()
	}
	p.pane, p.about = nil, pane.Subject{}
	p.turn++
}

// follow has the preview be about the row that the cursor is on now.
func (m *Model) follow() tea.Cmd {
	p := &m.preview
	if !p.on || len(m.stack) == 0 || !m.previews() {
		return nil
	}
	var about pane.Subject
	if subjects := m.subjects(); len(subjects) == 1 {
		about = subjects[0]
	}
	if same(about, p.about) {
		changed := about.Phase != p.about.Phase
		if p.about = about; changed && p.pane != nil {
			return p.pane.Init() // which keeps what it shows until it knows more
		}
		return nil
	}
	p.drop()
	if p.about = about; about.Kind == "" {
		return nil
	}
	turn := p.turn
	return tea.Tick(rest, func(time.Time) tea.Msg { return rested{turn} })
}

// rested asks about the row that the cursor stayed on.
func (m *Model) rested(turn int) tea.Cmd {
	p := &m.preview
	if turn != p.turn || !p.on || p.about.Kind == "" {
		return nil
	}
	made, err := m.Panes["describe"](m.World, p.about, "")
	if err != nil {
		return nil // there is nothing to be said of it
	}
	p.pane = made
	return made.Init()
}

// update has the preview take in a message that may be for it.
func (p *preview) update(msg tea.Msg) tea.Cmd {
	if p.pane == nil {
		return nil
	}
	return p.pane.Update(msg)
}

// scroll moves what the preview shows.
func (p *preview) scroll(k tea.KeyPressMsg) tea.Cmd {
	k.Mod &^= tea.ModShift
	return p.update(k)
}

// listWidth and listHeight are the cells of the pane on top, beside or above the preview.
func (m *Model) listWidth() int {
	if m.preview.on && m.previews() && m.width >= beside {
		return m.width - m.width*2/5 - 3
	}
	return m.width
}

func (m *Model) listHeight() int {
	height := m.room()
	if m.preview.on && m.previews() && m.width < beside && height >= below {
		height -= height * 2 / 5
	}
	return height
}

// body is what stands between the console's own lines.
func (m *Model) body(width, height int) []string {
	side := m.preview.on && m.previews()
	switch {
	case side && width >= beside:
		return m.sideBySide(width, height)
	case side && height >= below:
		return m.oneAboveTheOther(width, height)
	}
	return m.top().Draw(width, height)
}

func (m *Model) sideBySide(width, height int) []string {
	look := m.World.Look
	right := width * 2 / 5
	left := width - right - 3
	list, shown := m.top().Draw(left, height), m.preview.draw(look, right, height)
	between := " " + look.Paint(paint.Rule, look.Glyph(paint.Trunk)) + " "
	out := make([]string, height)
	for i := range out {
		if i < len(list) {
			out[i] = list[i]
		}
		out[i] += strings.Repeat(" ", max(left-paint.Width(out[i]), 0)) + between
		if i < len(shown) {
			out[i] += shown[i]
		}
	}
	return out
}

func (m *Model) oneAboveTheOther(width, height int) []string {
	look := m.World.Look
	lower := height * 2 / 5
	out := m.top().Draw(width, height-lower)
	for len(out) < height-lower {
		out = append(out, "")
	}
	return append(append(out, look.Paint(paint.Rule, strings.Repeat(look.Glyph(paint.Twig), width))), m.preview.draw(look, width, lower-1)...)
}

// draw is what is known of the row, under its name.
func (p *preview) draw(look *paint.Look, width, height int) []string {
	if p.pane == nil {
		return nil
	}
	lines := []string{look.Fit(look.Paint(paint.Title, p.pane.Title()), width)}
	lines = append(lines, p.pane.Draw(width, height-1)...)
	return lines[:min(len(lines), max(height, 0))]
}
