package service

import (
	"context"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
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
	_ = s.hub.Sync(ctx, ".") // a hub that is not told looks by itself, later
	var left []matter
	err := waitfor.Until(ctx, s.f, func(ctx context.Context) (bool, error) {
		now, err := s.look(ctx)
		if err == nil {
			left = now
		}
		return len(now) == 0, err
	}, func() error { return s.pending(left) })
	if err == nil {
		s.f.Say("observed: it waits no more")
	}
	return err
}

// look is what still waits of what was agreed to. The error is that of a commit that the hub refuses.
func (s settled) look(ctx context.Context) ([]matter, error) {
	status, err := s.hub.Status(ctx)
	if err != nil {
		return nil, err
	}
	if err := waitfor.Refused(status, s.commit); err != nil {
		return nil, err
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
		Msg: fmt.Sprintf("the agreement is pushed as %s, and not observed after %s", cmdutil.ShortCommit(s.commit), waitfor.Timeout),
		Fix: "see plural status; it is taken up when the clusters are heard of again",
		Doc: ui.DocNotConverged, Code: ui.ExitPending,
	}
	for i := range left {
		told.Problems = append(told.Problems, ui.Problem{Message: "waits: " + left[i].title()})
	}
	return told
}
