package tables

import (
	"fmt"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
)

// nothing is what stands in the place of rows: why there are none, and what to do.
func (t *table[T]) nothing(width int) []string {
	why, fix := t.absence()
	lines := []string{"", "   " + t.Look.Paint(paint.Bold, why)}
	if fix != "" {
		lines = append(lines, "   "+t.Look.Paint(paint.Faint, fix))
	}
	if there, _ := t.view.Total(); there == 0 && t.Fleet.State.Link == model.Offline {
		lines = append(lines, t.mistakes()...)
	}
	for i := range lines {
		lines[i] = t.Look.Fit(lines[i], width)
	}
	return lines
}

// mistakes are what keeps the repo from saying what should be.
func (t *table[T]) mistakes() []string {
	var lines []string
	for i := range t.Fleet.Problems {
		p := &t.Fleet.Problems[i]
		where := p.File
		if p.Line > 0 {
			where += fmt.Sprintf(":%d", p.Line)
		}
		if where != "" {
			where += ": "
		}
		lines = append(lines, "   "+t.Look.Paint(paint.Name, where)+t.Look.Paint(paint.Plain, p.Message))
	}
	return lines
}

func (t *table[T]) absence() (why, fix string) {
	state := t.Fleet.State
	there, all := t.view.Total()
	switch {
	case there == 0 && state.LoggedOut:
		return "the hub does not know you: " + state.Why, t.LogIn("L logs in")
	case there == 0 && (state.Link == model.Connecting || state.Asked):
		return "connecting to the hub", state.Why
	case there == 0 && !t.list.Whole() && (all > 0 || state.Link == model.Live):
		return "the " + t.noun + " are on their way", ""
	case there == 0 && state.Link == model.Offline && len(t.Fleet.Problems) > 0:
		return fmt.Sprintf("the installation repo has %d mistakes", len(t.Fleet.Problems)), "plural validate names them, and how to mend them"
	case there == 0 && state.Link == model.Offline && t.stream == v1.Happened:
		return "only a hub knows what happened", "plural tui --hub URL, or plural auth login"
	case there == 0 && state.Link != model.Live && state.Why != "":
		return "no " + t.noun + " are known: " + state.Why, "plural doctor says what is wrong"
	case there == 0:
		return "there are no " + t.noun + " yet", t.start
	case t.faulty && t.filter != "":
		return "nothing that fits is wrong", "f shows what is healthy, esc takes the filter away"
	case t.faulty:
		return "nothing is wrong", "f shows all " + t.noun
	case t.filter != "":
		return "no " + t.noun + " fit the filter", "/ changes it, esc takes it away"
	}
	return "there are no " + t.noun + " of " + t.scope(), t.start
}
