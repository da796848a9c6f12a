package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/gitpoller"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// validator looks at commits with what it remembers of those before.
type validator struct {
	repos    *gitpoller.Set
	sources  *sources.Set
	resolver *resolve.Resolver
	sealed   *sealcheck.Checker
	// timeout bounds the judgement of one commit.
	timeout time.Duration
	// late says that something was not done within its time in this turn, and is to be gone on with.
	late bool
}

// planTimeout is how long a commit may be judged, and how long a plan of it may take. What was found out until then is
// remembered, so that the next turn goes on from there.
const planTimeout = 2 * time.Minute

// examine reads a commit as the successor of good, which may be nil. It returns the candidate, or everything that is
// wrong with it: a commit becomes the fleet's desired state as a whole or not at all.
func (v *validator) examine(ctx context.Context, snap *snapshot.Snapshot, good *sources.Commit) (*sources.Commit, []v1.Problem) {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	problems := v.unsealed(ctx, snap)
	f, err := fleet.Load(snap.FS())
	if err != nil {
		return nil, append(problems, mistakes(err)...)
	}
	next := &sources.Commit{Fleet: f, Snapshot: snap}
	held, err := v.resolver.Validate(ctx, f, newest{snap, idsOf(v.sources.Of(next)), v.repos})
	if err != nil {
		return nil, append(problems, v.unfinished(err))
	}
	for _, found := range held {
		if found.Source == "" { // what is wrong with another repository holds its services, and nothing else
			problems = append(problems, view.Problem(&found))
		}
	}
	problems = append(problems, overBudget(good, f)...)
	if len(problems) > 0 {
		return nil, problems
	}
	return next, nil
}

// unsealed lists what must be sealed and is not as it must be.
func (v *validator) unsealed(ctx context.Context, snap *snapshot.Snapshot) []v1.Problem {
	found, err := v.sealed.Check(ctx, snap)
	if err != nil {
		return []v1.Problem{v.unfinished(err)}
	}
	var problems []v1.Problem
	for _, p := range found {
		problems = append(problems, v1.Problem{File: p.File, Line: p.Line, Message: p.Message, Fix: p.Fix})
	}
	return problems
}

// unfinished is the problem with a commit that could not be judged to the end.
func (v *validator) unfinished(err error) v1.Problem {
	if !errors.Is(err, context.DeadlineExceeded) {
		return v1.Problem{Message: err.Error()}
	}
	v.late = true
	return v1.Problem{
		Message: fmt.Sprintf("the commit is not judged after %s: %v", v.timeout, err),
		Fix:     "take out what does not belong into the repository, or give the hub more processor time; it goes on with its next look",
	}
}

// mistakes says in people's words why a fleet could not be loaded.
func mistakes(err error) []v1.Problem {
	var all fleet.Errors
	if !errors.As(err, &all) {
		return []v1.Problem{{Message: err.Error()}}
	}
	problems := make([]v1.Problem, 0, len(all))
	for _, m := range all {
		problems = append(problems, v1.Problem{File: m.File, Line: m.Line, Message: m.Message, Fix: m.Fix})
	}
	return problems
}

func describe(c snapshot.Commit) v1.Commit {
	at := c.Time
	return v1.Commit{ID: c.ID, Subject: c.Subject, Author: c.Author, Time: &at}
}
