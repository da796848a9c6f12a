package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// lookEvery is the wait between two looks at the hub.
	lookEvery = 500 * time.Millisecond
	// settleTimeout is how long is waited where --timeout says nothing: a silent cluster must not keep a person waiting.
	settleTimeout = 2 * time.Minute
)

// settled waits until nothing that was agreed to waits any more.
type settled struct {
	f      *cmdutil.Factory
	hub    *client.Client
	about  subject
	agreed []matter
	// commit is the one that holds the agreement.
	commit string
}

func (s settled) wait(ctx context.Context) error {
	if s.f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, settleTimeout, errUnsettled)
		defer cancel()
	}
	_ = s.hub.Sync(ctx, ".") // a hub that is not told looks by itself, later
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	var left []matter
	for {
		now, err := s.look(ctx)
		var away *client.Unreachable
		switch {
		case errors.As(err, &away): // it may be back in time
		case errors.Is(context.Cause(ctx), errUnsettled):
			return s.pending(left)
		case err != nil:
			return err
		default:
			if left = now; len(left) == 0 {
				s.f.Say("observed: it waits no more")
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errUnsettled) {
				return s.pending(left)
			}
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// errUnsettled is why a wait ended that nobody bounded.
var errUnsettled = errors.New("the agreement was not observed in time")

// look is what still waits of what was agreed to. The error is that of a commit that the hub refuses.
func (s settled) look(ctx context.Context) ([]matter, error) {
	status, err := s.hub.Status(ctx)
	if err != nil {
		return nil, err
	}
	if status.Head.ID == s.commit && len(status.Refused) > 0 {
		var problems []ui.Problem
		for _, p := range status.Refused {
			problems = append(problems, cmdutil.HubProblem(p))
		}
		return nil, cmdutil.Problems("the commit "+cmdutil.ShortCommit(s.commit), problems)
	}
	found, err := s.about.ask(ctx, s.hub)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found.chosen, func(m matter) bool {
		return !slices.ContainsFunc(s.agreed, func(agreed matter) bool { return agreed.token == m.token })
	}), nil
}

func (s settled) pending(left []matter) error {
	told := &ui.Err{
		Msg: fmt.Sprintf("the agreement is pushed as %s, and not observed after %s", cmdutil.ShortCommit(s.commit), settleTimeout),
		Fix: "see plural status; it is taken up when the clusters are heard of again", Code: ui.ExitPending,
	}
	for i := range left {
		told.Problems = append(told.Problems, ui.Problem{Message: "waits: " + left[i].title()})
	}
	return told
}
