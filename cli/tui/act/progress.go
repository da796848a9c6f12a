package act

import (
	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// progress shows how far a job of several commands is.
type progress struct {
	desk   *Desk
	job    *job
	scroll scroller
	// seen is how many commands had begun when it was drawn last.
	seen int
}

// Init has nothing to ask for: the desk takes in what happens.
func (p *progress) Init() tea.Cmd { return nil }

// Title says how far it is.
func (p *progress) Title() string {
	if p.job.over() {
		return p.job.String()
	}
	return p.job.progress()
}

// Typing takes esc, which stops the job, for as long as there is something to stop.
func (p *progress) Typing() bool { return !p.job.over() }

// Keys are its own.
func (p *progress) Keys() []key.Binding {
	if p.job.over() {
		return scrolling()
	}
	return append(scrolling(), bind("esc", "stop"), bind("b", "leave it at work"))
}

// Update takes a key.
func (p *progress) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		p.scroll.wheel(msg.Button == tea.MouseWheelDown)
	case tea.KeyPressMsg:
		switch k := msg.String(); {
		case p.scroll.key(k), p.job.over():
		case k == "b", k == "q":
			return pane.Ask(pane.Back{})
		case k == "esc":
			if p.desk.stop(p.job) {
				return told(false, "%s", p.job.remains())
			}
		}
	}
	return nil
}

// Draw are the commands with how they are and, at the end, what came of it.
func (p *progress) Draw(width, height int) []string {
	p.scroll.set(p.lines())
	p.scroll.wrap(p.desk.world.Look, width)
	if begun := len(p.job.entries); begun != p.seen {
		p.seen = begun
		p.scroll.top = max(p.scroll.top, begun-height/2)
	}
	return p.scroll.draw(p.desk.world.Look, width, height)
}

func (p *progress) lines() []text {
	var out []text
	for i, args := range p.job.commands {
		glyph, style, word := p.desk.sign(nil)
		if i < len(p.job.entries) {
			glyph, style, word = p.desk.sign(p.job.entries[i])
		}
		out = append(out, text{style, glyph + " " + p.desk.world.Look.Pad(word, 8) + " " + p.job.runner.Line(args)})
	}
	if !p.job.over() {
		return out
	}
	style := paint.Good
	if p.job.bad() > 0 {
		style = paint.Bad
	}
	out = append(out, text{}, text{style, p.job.summary()})
	for _, e := range p.job.entries {
		if e.Ending == Failed || e.Ending == Stopped {
			out = append(out, text{}, text{paint.Key, "$ " + e.Line}, text{paint.Bad, "  " + e.Told})
		}
	}
	return out
}

// sign is how a command is: a glyph with a word. None has not begun.
func (d *Desk) sign(e *Entry) (glyph string, style paint.Style, word string) {
	phase, word := v1.Pending, "waits"
	if e != nil {
		word = e.Ending.String()
		switch e.Ending {
		case Running:
			phase = v1.Progressing
		case Done:
			phase = v1.Healthy
		case Failed:
			phase = v1.Failed
		case Stopped:
			phase = v1.Unregistered
		}
	}
	glyph, style = d.world.Look.Phase(phase)
	return glyph, style, word
}
