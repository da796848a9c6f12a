package planner

import (
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/workspace/fleet"
)

// overBudget refuses a fleet that takes away more than one commit may, unless a person has agreed to exactly that.
func overBudget(good *sources.Commit, f *fleet.Fleet) []v1.Problem {
	if good == nil {
		return nil
	}
	losses, err := fleet.Losses(good.Fleet, f)
	if err != nil {
		return []v1.Problem{{File: f.Workspace.Position.File, Line: f.Workspace.Position.Line, Message: err.Error()}}
	}
	var problems []v1.Problem
	for i := range losses {
		lost := &losses[i]
		problems = append(problems, v1.Problem{
			File: "services", Token: lost.Token(), Services: lost.Services(), Message: lost.Message(), Fix: lost.Fix(""),
		})
	}
	return problems
}
