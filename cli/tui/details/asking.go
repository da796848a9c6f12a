package details

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/ui"
)

// asking is one question, which may be asked again: its newest answer with its age. Answers to older questions are passed over.
type asking[T any] struct {
	turn  int
	under bool
	// quiet says that nobody asked for the question that is under way.
	quiet bool
	// value is the newest answer that was none of err; at is when it came, zero: never.
	value T
	at    time.Time
	err   error
}

// answer goes back to the pane that asked.
type answer[T any] struct {
	to    *asking[T]
	turn  int
	value T
	err   error
}

func (a *asking[T]) ask(ctx context.Context, question func(context.Context) (T, error)) tea.Cmd {
	a.turn++
	a.under = true
	turn := a.turn
	return func() tea.Msg {
		value, err := question(ctx)
		return answer[T]{a, turn, value, err}
	}
}

// take says whether a message was the answer.
func (a *asking[T]) take(msg tea.Msg, now time.Time) bool {
	got, ok := msg.(answer[T])
	if !ok || got.to != a || got.turn != a.turn {
		return false
	}
	a.under, a.err = false, got.err
	if got.err == nil {
		a.value, a.at = got.value, now
	}
	return true
}

// forget drops the answer: another question comes.
func (a *asking[T]) forget() { *a = asking[T]{turn: a.turn} }

// note is how old the answer is.
func (a *asking[T]) note(now time.Time) string {
	switch {
	case a.at.IsZero():
		return ""
	case a.under && !a.quiet:
		return "asking again"
	}
	text := "as of " + cmdutil.Ago(now, &a.at)
	if a.err != nil {
		text += ", not answered since"
	}
	return text
}

// errNoHub is what panes say that only a hub can fill.
func errNoHub() error {
	return &ui.Err{
		Msg: "there is no hub to ask", Cause: "this console shows the repository, and what was seen last",
		Fix: "plural tui --hub URL, or plural auth login", Doc: ui.DocNoHub,
	}
}

// trouble tells an error in a pane's place: what happened, why, and what to do about it.
func trouble(err error) []line {
	err = cmdutil.Explain(err)
	var told *ui.Err
	if !errors.As(err, &told) {
		return []line{say(paint.Bad, "error: "+err.Error())}
	}
	lines := []line{say(paint.Bad, "error: "+told.Msg)}
	if told.Cause != "" {
		lines = append(lines, fact("cause", told.Cause))
	}
	for _, p := range told.Problems {
		text := p.Message
		if p.Where != "" {
			text = p.Where + ": " + text
		}
		lines = append(lines, say(paint.Plain, "  "+text))
		if p.Fix != "" {
			lines = append(lines, fact("fix", p.Fix))
		}
	}
	if told.Fix != "" {
		lines = append(lines, fact("fix", told.Fix))
	}
	if told.Doc != "" {
		lines = append(lines, fact("more", told.Doc.Address()))
	}
	return lines
}

func fact(name, text string) line {
	return line{{paint.Name, "  " + name + ": "}, {paint.Plain, text}}
}
