package cmdutil

import (
	"errors"
	"fmt"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/workspace/resolve"
)

// RenderProblem is why something does not render, as it is told after the words that say what.
func RenderProblem(about string, err error) ui.Problem {
	p := ui.Problem{Message: about + err.Error()}
	var known *render.Error
	if errors.As(err, &known) {
		p.Where, p.Fix = known.File, known.Fix
		if p.Where != "" && known.Line > 0 {
			p.Where += fmt.Sprintf(":%d", known.Line)
		}
		p.Message = about + known.Message
	}
	return p
}

// InspectProblems are what is wrong with what services render to, as it is told.
func InspectProblems(r *inspect.Report) []ui.Problem {
	var problems []ui.Problem
	for _, failure := range r.Failed {
		var held *resolve.Problem
		if errors.As(failure.Err, &held) {
			problems = append(problems, HeldProblem(held))
			continue
		}
		about := "service " + failure.Service
		if !failure.Everywhere {
			about += " on " + Few(failure.Clusters)
		}
		problems = append(problems, RenderProblem(about+": ", failure.Err))
	}
	for _, e := range r.Errors {
		problems = append(problems, ui.Problem{Where: e.Where, Message: e.Message, Fix: e.Fix})
	}
	return problems
}
