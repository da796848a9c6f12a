package cmdutil

import (
	"errors"
	"fmt"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/cli/ui"
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
