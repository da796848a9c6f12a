package console

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	"github.com/charmbracelet/x/ansi"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// row puts painted words side by side for as long as they fit into width cells, and fills what is left.
type row struct {
	look  *paint.Look
	width int
	b     strings.Builder
	used  int
	// cut says that something did not fit.
	cut bool
}

// add appends a word after a gap, if it fits.
func (w *row) add(gap int, style paint.Style, text string) bool {
	text = w.look.Clean(text)
	if w.used == 0 {
		gap = 0
	}
	if w.used+gap+paint.Width(text) > w.width {
		w.cut = true
		return false
	}
	w.b.WriteString(strings.Repeat(" ", gap))
	w.b.WriteString(w.look.Paint(style, text))
	w.used += gap + paint.Width(text)
	return true
}

// end puts a word at the right end, if it fits.
func (w *row) end(style paint.Style, text string) {
	if text == "" {
		return
	}
	if room := w.width - w.used - paint.Width(w.look.Clean(text)); room > 1 {
		w.add(room, style, text)
	}
}

func (m *Model) row() *row { return &row{look: m.World.Look, width: m.width} }

// pulse is the fleet in figures: always in sight, whatever is looked at. Where there is no room for words, signs stand for them.
func (m *Model) pulse() string {
	state, style := m.state()
	room := m.width - paint.Width(state) - 2
	w := m.figures(room, true)
	if w.cut {
		w = m.figures(room, false)
	}
	m.aside(w)
	w.width = m.width
	w.end(style, state)
	return w.b.String()
}

// figures are how many there are of what, and how they are.
func (m *Model) figures(room int, words bool) *row {
	w, s := m.row(), m.World.Fleet.Summary
	w.width = room
	if s == nil {
		w.add(0, paint.Faint, "nothing is known yet")
		return w
	}
	if s.Refused > 0 {
		w.add(0, paint.Bad, fmt.Sprintf("commit %s refused", short(s.Head.ID)))
	}
	m.count(w, s.Clusters, "cluster", words)
	m.count(w, s.Deployments, "deployment", words)
	return w
}

// aside adds what is good to know where there is room for it.
func (m *Model) aside(w *row) {
	s := m.World.Fleet.Summary
	if s == nil || w.cut {
		return
	}
	if n := m.rolling(); n > 0 {
		text := fmt.Sprintf("%d upgrades rolling", n)
		if n == 1 {
			text = "1 upgrade rolling"
		}
		w.add(3, paint.Busy, text)
	}
	if s.Commit.ID == "" {
		return
	}
	git := "git " + short(s.Commit.ID)
	if s.Commit.Time != nil {
		git += " " + duration.HumanDuration(max(0, m.World.Now().Sub(*s.Commit.Time)))
	}
	w.add(3, paint.Faint, git)
}

// count is how many there are, and how many of them are how: what is well, and then the worst first. Signs and words say it, colours
// only besides.
func (m *Model) count(w *row, counts v1.Counts, noun string, words bool) {
	total := counts.Total()
	if total != 1 {
		noun += "s"
	}
	phases := v1.Phases()
	slices.Reverse(phases[1:])
	w.add(3, paint.Bold, fmt.Sprintf("%s %s", paint.Figure(total), noun))
	for _, phase := range phases {
		n := counts[phase]
		glyph, style := m.World.Look.Phase(phase)
		switch {
		case n == 0:
		case words:
			w.add(2, style, fmt.Sprintf("%s %s %s", glyph, paint.Figure(n), phase))
		default:
			w.add(1, style, glyph+paint.Figure(n))
		}
	}
}

// state says how what is shown came to be known, and how old it is.
func (m *Model) state() (string, paint.Style) {
	state, now := m.World.Fleet.State, m.World.Now()
	if state.LoggedOut {
		return m.loggedOut(), paint.Bad
	}
	switch state.Link {
	case model.Live:
		return "live", paint.Good
	case model.Broken:
		return "hub away " + duration.HumanDuration(max(0, now.Sub(state.Since))), paint.Bad
	case model.Offline:
		if state.AsOf.IsZero() && state.Asked {
			break
		}
		if state.AsOf.IsZero() {
			return "offline, never seen", paint.Busy
		}
		word := "offline"
		if state.Asked {
			word = "connecting"
		}
		return word + ", seen " + duration.HumanDuration(max(0, now.Sub(state.AsOf))) + " ago", paint.Busy
	case model.Connecting:
	}
	return "connecting", paint.Busy
}

// loggedOut is the word for that, with how old what is shown is.
func (m *Model) loggedOut() string {
	as := m.World.Fleet.AsOf()
	if as.IsZero() {
		return "logged out"
	}
	return "logged out, seen " + duration.HumanDuration(max(0, m.World.Now().Sub(as))) + " ago"
}

// rolling is how many upgrades are under way, counted anew when one changed.
func (m *Model) rolling() int {
	list := m.World.Fleet.Upgrades
	if at := list.Generation(); at != m.counted.at {
		m.counted.at, m.counted.n = at, 0
		view := list.View()
		defer view.Close()
		for i := range view.Len() {
			if view.At(i).State == v1.UpgradeRolling {
				m.counted.n++
			}
		}
	}
	return m.counted.n
}

func short(commit string) string {
	if commit == "" {
		return "-"
	}
	return commit[:min(len(commit), 7)]
}

// crumbs are the titles of the stack, with the pane's note at the end.
func (m *Model) crumbs() string {
	w := m.row()
	note := ""
	if n, ok := m.top().(pane.Noted); ok {
		note = n.Note()
	}
	if p, ok := m.top().(pane.Pointing); ok && p.Marked() > 0 {
		note = strings.TrimPrefix(fmt.Sprintf("%s %s %d marked", note, m.World.Look.Glyph(paint.Between), p.Marked()), " "+m.World.Look.Glyph(paint.Between)+" ")
	}
	if m.World.ReadOnly {
		note += " " + m.World.Look.Glyph(paint.Between) + " read-only"
	}
	for i, l := range m.stack {
		style := paint.Faint
		switch {
		case m.World.Production(l.asked.About):
			style = paint.Bad
		case i == len(m.stack)-1:
			style = paint.Crumb
		}
		if i > 0 {
			w.add(1, paint.Faint, m.World.Look.Glyph(paint.Step))
		}
		w.add(1, style, l.Title())
	}
	if m.inProduction() {
		w.add(2, paint.Bad, production)
	}
	if f, ok := m.top().(pane.Filtered); ok && f.Filter() != "" {
		w.add(2, paint.Busy, "/"+f.Filter())
	}
	w.end(paint.Faint, note)
	return w.b.String()
}

// production is the tag of a cluster on which people are to be careful.
const production = pane.TagEnv + "=" + pane.Production

// inProduction says whether what is looked at is.
func (m *Model) inProduction() bool {
	return slices.ContainsFunc(m.stack, func(l level) bool { return m.World.Production(l.asked.About) })
}

// line is where a prompt stands, or what was told, or what is under way.
func (m *Model) line() string {
	w := m.row()
	switch {
	case m.prompt != nil:
		w.add(0, paint.Plain, ansi.TruncateLeft(m.prompt.line(), max(paint.Width(m.prompt.line())-m.width+1, 0), ""))
		if m.told.Text != "" {
			w.add(3, paint.Bad, m.World.Look.Cut(m.told.Text, m.width-w.used-3))
		} else if next := m.prompt.next(); next != "" {
			w.add(3, paint.Key, "tab")
			w.add(1, paint.Hint, next)
		}
		m.others(w)
	case m.told.Text != "":
		style := paint.Good
		if m.told.Bad {
			style = paint.Bad
		}
		w.add(0, style, m.World.Look.Cut(m.told.Text, m.width))
	case m.Actions.Busy() != "":
		w.add(0, paint.Busy, m.World.Look.Cut(m.Actions.Busy(), m.width))
	case m.World.Fleet.State.LoggedOut:
		w.add(0, paint.Bad, m.World.Look.Cut("logged out: "+m.World.LogIn("L logs in")+": "+m.World.Fleet.State.Why, m.width))
	case m.World.Fleet.State.Link != model.Live:
		w.add(0, paint.Faint, m.World.Look.Cut(m.World.Fleet.State.Why, m.width))
	}
	return w.b.String()
}

// others are what else may be typed in the place of the last word, as far as there is room.
func (m *Model) others(w *row) {
	if m.told.Text != "" {
		return
	}
	next := m.prompt.next()
	for _, word := range m.prompt.offered {
		if strings.HasSuffix(next, word) || strings.HasSuffix(m.prompt.Value(), word) {
			continue
		}
		if !w.add(2, paint.Faint, word) {
			return
		}
	}
}

// foremost is how many of the keys about what is pointed to come right behind the pane's first one: with that one, the filter and
// the help they are what 80 cells have room for.
const foremost = 3

// footer are the keys that matter here, as many as fit: where to find the others, the pane's first one, how to look closer, and
// then the rest.
func (m *Model) footer() string {
	keys := keysOf()
	always := []key.Binding{keys.help}
	if b := m.filterKey(); b.Enabled() {
		always = append(always, b)
	}
	always = append(always, keys.command)
	if len(m.stack) > 1 {
		always = append(always, keys.back)
	}
	w := m.row()
	if t, ok := m.top().(pane.Typing); ok && t.Typing() {
		hints(w, m.top().Keys())
		return w.b.String()
	}
	hints(w, always)
	hints(w, m.useful())
	return w.b.String()
}

// useful are the keys that do something here, the most useful first.
func (m *Model) useful() []key.Binding {
	own, groups := m.top().Keys(), m.groups()
	first, second := min(len(own), 1), min(len(own), 2)
	list := own[:first:first]
	var about []key.Binding
	for _, g := range groups[1 : len(groups)-1] {
		about = append(about, g.Keys...)
	}
	list = append(list, about[:min(len(about), foremost)]...)
	list = append(list, own[first:second]...)
	list = append(list, about[min(len(about), foremost):]...)
	return append(list, own[second:]...)
}

// hints adds keys for as long as they fit.
func hints(w *row, keys []key.Binding) {
	for _, b := range keys {
		if b.Enabled() && !hint(w, b) {
			return
		}
	}
}

// hint adds a key with what it does, if both fit.
func hint(w *row, b key.Binding) bool {
	h := b.Help()
	if w.used+2+paint.Width(h.Key)+1+paint.Width(h.Desc) > w.width {
		return false
	}
	return w.add(2, paint.Key, h.Key) && w.add(1, paint.Hint, h.Desc)
}
