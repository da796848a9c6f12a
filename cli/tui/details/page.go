package details

import (
	"context"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

// page is a pane that shows the answer to one question, as lines.
type page[T any] struct {
	sheet
	asking[T]
	w     *pane.World
	about pane.Subject
	name  string
	// from says who is asked.
	from     string
	question func(context.Context) (T, error)
	write    func(T) []line
	// seen says when an answer was true, where that is not now; zero: it is. arrived, if set, is told of each answer that came.
	seen    func(T) time.Time
	arrived func(T)
	// prepare, if set, comes before each asking. knows, if set, says that there would be an answer by now without anybody to ask.
	prepare func()
	knows   func() bool
	// every, if set, is after how long it is asked again by itself, and asked when it was asked last.
	every   time.Duration
	asked   time.Time
	ages    bool // what is written says how old something is
	wraps   bool // w wraps long lines
	cancel  context.CancelFunc
	cancels context.Context //nolint:containedctx // that of the pane's questions: it ends with the pane
}

func newPage[T any](w *pane.World, about pane.Subject, name string) *page[T] {
	p := &page[T]{w: w, about: about, name: name, from: "the hub"}
	p.cancels, p.cancel = context.WithCancel(w.Context) //nolint:gosec // Close calls it
	return p
}

// Init asks.
func (p *page[T]) Init() tea.Cmd {
	if p.prepare != nil {
		p.prepare()
	}
	p.asked, p.quiet = p.w.Now(), false
	cmd := p.ask(p.cancels, p.question)
	p.rewrite()
	return cmd
}

// Close ends what is under way.
func (p *page[T]) Close() { p.cancel() }

// Title is what is shown of whom.
func (p *page[T]) Title() string { return title(p.name, p.about) }

// Note is how old it is.
func (p *page[T]) Note() string { return p.note(p.w.Now()) }

// Subjects are what the pane is about.
func (p *page[T]) Subjects() []pane.Subject { return []pane.Subject{p.about} }

// Marked is none.
func (p *page[T]) Marked() int { return 0 }

// Unmark has nothing to do.
func (p *page[T]) Unmark() {}

// Keys are those of reading, and asking again.
func (p *page[T]) Keys() []key.Binding {
	keys := []key.Binding{again()}
	if p.wraps {
		keys = append(keys, movesOf().wrap)
	}
	return append(keys, movesOf().all()...)
}

func again() key.Binding { return bind("r", "ask again", "r") }

// Update moves, or takes the answer in.
func (p *page[T]) Update(msg tea.Msg) tea.Cmd {
	if p.take(msg, p.w.Now()) {
		if p.err == nil && p.seen != nil {
			if at := p.seen(p.value); !at.IsZero() {
				p.at = at
			}
		}
		p.rewrite()
		if p.err == nil && p.arrived != nil {
			p.arrived(p.value)
		}
		return nil
	}
	switch msg := msg.(type) {
	case pane.Tick:
		if p.err != nil && p.at.IsZero() && !p.under && p.knows != nil && p.knows() {
			return p.Init()
		}
		if p.every > 0 && !p.under && p.w.Now().Sub(p.asked) >= p.every {
			cmd := p.Init()
			p.quiet = true
			return cmd
		}
		if p.ages {
			p.rewrite()
		}
	case tea.KeyPressMsg:
		switch {
		case key.Matches(msg, again()):
			return p.Init()
		case p.wraps && key.Matches(msg, movesOf().wrap):
			p.wrap, p.left = !p.wrap, 0
			return nil
		}
	}
	p.sheet.update(msg)
	return nil
}

// rewrite has the lines say what is known now.
func (p *page[T]) rewrite() {
	p.lines = nil
	if p.err != nil {
		p.lines = append(trouble(p.err), line{})
	}
	if !p.at.IsZero() {
		p.lines = append(p.lines, p.write(p.value)...)
	} else if p.under {
		p.lines = append(p.lines, say(paint.Faint, "asking "+p.from+" ..."))
	}
}

// Draw is what can be seen of it.
func (p *page[T]) Draw(width, height int) []string { return p.draw(p.w.Look, width, height) }

// title is "describe edge-1/web".
func title(name string, s pane.Subject) string { return name + " " + nameOf(s) }

func nameOf(s pane.Subject) string {
	switch s.Kind {
	case pane.KindFleet:
		return "the fleet"
	case pane.KindDeployment:
		return s.Cluster + "/" + s.Service
	case pane.KindObject:
		if s.Object != nil {
			return s.Object.Kind + "/" + s.Object.Name
		}
	case pane.KindCommit:
		return s.Name[:min(7, len(s.Name))]
	}
	for _, name := range []string{s.Name, s.Service, s.Cluster} {
		if name != "" {
			return name
		}
	}
	return "the fleet"
}
