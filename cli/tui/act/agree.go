package act

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/ui"
)

// maxLooks bounds how many commands of a plan are tried dry before a person is asked.
const maxLooks = 20

// agreement asks a person whether a plan is to be carried out: it shows the commands and what they would change.
type agreement struct {
	desk *Desk
	plan *plan
	// on is where the marks are that go when it is agreed to; nil: there are none.
	on   pane.Pointing
	care Care
	// looks are the dry runs so far, of wanted.
	looks  []Result
	wanted int
	typed  string
	// confirms are what commands want to be given again.
	confirms []string
	scroll   scroller
	ctx      context.Context //nolint:containedctx // ends with the pane
	cancel   context.CancelFunc
}

// looked says that the newest dry run has ended.
type looked struct {
	by     *agreement
	result Result
}

func newAgreement(d *Desk, p *plan, on pane.Pointing) *agreement {
	a := &agreement{desk: d, plan: p, on: on, care: p.care}
	if p.action.Care >= Look {
		a.wanted = min(len(p.commands), maxLooks)
	}
	a.ctx, a.cancel = context.WithCancel(d.ctx)
	a.scroll.set(a.lines())
	return a
}

// Init begins to look.
func (a *agreement) Init() tea.Cmd { return a.look() }

func (a *agreement) look() tea.Cmd {
	if len(a.looks) == a.wanted {
		return nil
	}
	args := dry(a.plan.commands[len(a.looks)])
	return later(a.desk, func() looked { return looked{a, a.plan.runner.Run(a.ctx, args)} })
}

// took takes a dry run in.
func (a *agreement) took(r Result) tea.Cmd {
	a.looks = append(a.looks, r)
	a.confirm(&r)
	a.scroll.set(a.lines())
	return a.look()
}

// confirm has the command that was looked at last be given what it wants confirmed, once a person has typed that.
func (a *agreement) confirm(r *Result) {
	word := said(r.Err, ui.ToConfirm)
	if word == "" || !isName(word) {
		return
	}
	a.care, a.confirms = Typed, append(a.confirms, word)
	at := len(a.looks) - 1
	a.plan.commands[at] = append(slices.Clone(a.plan.commands[at]), "--confirm="+word)
}

// Close ends what is looked at.
func (a *agreement) Close() { a.cancel() }

// Title is what is asked about.
func (a *agreement) Title() string { return a.plan.String() }

// Typing takes all keys: what is under the question is not to be acted on.
func (a *agreement) Typing() bool { return true }

// Keys are those that answer.
func (a *agreement) Keys() []key.Binding {
	keys := scrolling()
	if a.plan.instead != nil {
		keys = append(keys, bind(inGit, "say it in git instead"))
	}
	switch {
	case a.refused() || len(a.looks) < a.wanted:
		return append(keys, bind("esc", "leave it"))
	case a.care == Typed:
		return append(keys, bind("enter", "do it"), bind("esc", "leave it"))
	}
	return append(keys, bind("y", "do it"), bind("n", "leave it"))
}

// Update takes an answer.
func (a *agreement) Update(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.MouseWheelMsg:
		a.scroll.wheel(msg.Button == tea.MouseWheelDown)
	case tea.PasteMsg:
		a.write(msg.Content)
	case tea.KeyPressMsg:
		if a.care == Typed {
			return a.typing(msg)
		}
		switch k := msg.String(); k {
		case "y", "Y":
			return a.agree()
		case "n", "N", "esc", "enter", "q":
			return pane.Ask(pane.Back{})
		case inGit:
			return a.other()
		default:
			a.scroll.key(k)
		}
	}
	return nil
}

func (a *agreement) typing(msg tea.KeyPressMsg) tea.Cmd {
	switch k := msg.String(); k {
	case "esc":
		return pane.Ask(pane.Back{})
	case "enter":
		if a.typed != a.word() {
			return told(true, "%q is not %q: nothing was done", a.typed, a.word())
		}
		return a.agree()
	case inGit:
		return a.other()
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(a.typed)
		a.typed = a.typed[:len(a.typed)-n]
	case "up", "down", "pgup", "pgdown", "home", "end", "ctrl+d", "ctrl+u":
		a.scroll.key(k)
	default:
		a.write(msg.Text)
	}
	return nil
}

// inGit is the key for what does the same for good.
const inGit = "ctrl+g"

// other asks about what does the same for good, if anything does.
func (a *agreement) other() tea.Cmd {
	if a.plan.instead == nil {
		return nil
	}
	return tea.Sequence(pane.Ask(pane.Back{}), pane.Ask(pane.Push{Pane: newAgreement(a.desk, a.plan.instead, nil)}))
}

// write adds what is typed.
func (a *agreement) write(typed string) {
	const most = 256
	if len(a.typed)+len(typed) <= most {
		a.typed += strings.TrimFunc(typed, unicode.IsControl)
	}
}

// word is what has to be typed.
func (a *agreement) word() string {
	if len(a.confirms) == 1 && len(a.plan.commands) == 1 {
		return a.confirms[0]
	}
	if len(a.plan.targets.Names) == 1 {
		return a.plan.targets.Names[0]
	}
	return fmt.Sprint(len(a.plan.targets.Names))
}

// refused says that a dry run failed: there is nothing to agree to.
func (a *agreement) refused() bool {
	for i := range a.looks {
		if a.looks[i].Code != 0 {
			return true
		}
	}
	return false
}

func (a *agreement) agree() tea.Cmd {
	switch {
	case a.refused():
		return told(true, "it cannot be done; esc goes back")
	case len(a.looks) < a.wanted:
		return told(true, "what it would change is not known yet")
	}
	a.plan.shown = nil
	for i := range a.looks {
		a.plan.shown = append(a.plan.shown, a.looks[i].Out)
	}
	if a.on != nil {
		a.on.Unmark()
	}
	return tea.Sequence(pane.Ask(pane.Back{}), a.desk.start(a.plan))
}

// lines are the commands, and what they would change.
func (a *agreement) lines() []text {
	var out []text
	if n := a.plan.targets.Names; len(n) > 1 {
		out = append(out, text{paint.Bold, fmt.Sprintf("%s: %s", a.plan.targets, strings.Join(n, ", "))}, text{})
	}
	for _, note := range a.plan.notes {
		out = append(out, text{paint.Busy, note})
	}
	if len(a.plan.notes) > 0 {
		out = append(out, text{})
	}
	for i, args := range a.plan.commands {
		out = append(out, text{paint.Key, "$ " + a.plan.runner.Line(args)})
		if i >= a.wanted {
			continue
		}
		if i < len(a.looks) {
			out = append(out, a.change(&a.looks[i])...)
		} else if i == len(a.looks) {
			out = append(out, text{paint.Busy, "looking at what it would change"})
		}
		out = append(out, text{})
	}
	return out
}

// change is what a dry run showed.
func (a *agreement) change(r *Result) []text {
	style := paint.Faint
	if r.Code != 0 {
		style = paint.Bad
	}
	out := append(plainly(style, r.Err), diffed(r.Out)...)
	if r.Code == 0 && r.Out == "" {
		out = append(out, text{paint.Faint, "no file would change"})
	}
	return out
}

// Draw is what it is about, and under it the question.
func (a *agreement) Draw(width, height int) []string {
	l := a.desk.world.Look
	out := a.scroll.draw(l, width, max(height-2, 1))
	for len(out) < height-2 {
		out = append(out, "")
	}
	rule := strings.Repeat(l.Glyph(paint.Twig), width)
	if a.scroll.rest() {
		rule = strings.Repeat(l.Glyph(paint.Twig), max(width-8, 0)) + l.Pad(" "+l.Glyph(paint.Down)+" more", min(width, 8))
	}
	return append(out, l.Paint(paint.Rule, rule), a.question(width))
}

func (a *agreement) question(width int) string {
	l := a.desk.world.Look
	switch {
	case a.refused():
		return l.Paint(paint.Bad, l.Cut("It cannot be done. esc goes back.", width))
	case len(a.looks) < a.wanted:
		return l.Paint(paint.Busy, l.Cut(fmt.Sprintf("Looking: %d of %d. esc goes back.", len(a.looks), a.wanted), width))
	case a.care == Typed:
		text := fmt.Sprintf("To %s, type %s: %s", a.plan, a.word(), a.typed)
		return l.Paint(paint.Bold, l.Cut(text, width-1)) + l.Paint(paint.Cursor, " ")
	}
	return l.Paint(paint.Bold, l.Cut(capital(a.plan.String())+"? y/N", width))
}

// capital is a sentence's beginning.
func capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[n:]
}
