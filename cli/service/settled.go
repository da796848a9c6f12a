package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
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

// errUnsettled is why a wait ended that nobody bounded.
var errUnsettled = errors.New("it was not observed in time")

// await looks at the hub until look says that there is no more to wait for. A hub that is away for a while is waited for.
// When the time is over that is taken where --timeout says nothing, the error is what pending says.
func await(ctx context.Context, f *cmdutil.Factory, look func(context.Context) (done bool, err error), pending func() error) error {
	if f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, settleTimeout, errUnsettled)
		defer cancel()
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		done, err := look(ctx)
		var away *client.Unreachable
		switch {
		case errors.Is(context.Cause(ctx), errUnsettled):
			return pending()
		case err != nil && !errors.As(err, &away):
			return err
		case err == nil && done:
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errUnsettled) {
				return pending()
			}
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

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
	err := await(ctx, s.f, func(ctx context.Context) (bool, error) {
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
	if err := refused(status, s.commit); err != nil {
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

// refused is the error about a commit that the hub does not take.
func refused(status *v1.Status, commit string) error {
	if status.Head.ID != commit || len(status.Refused) == 0 {
		return nil
	}
	var problems []ui.Problem
	for _, p := range status.Refused {
		problems = append(problems, cmdutil.HubProblem(p))
	}
	return cmdutil.Problems("the commit "+cmdutil.ShortCommit(commit), problems)
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
