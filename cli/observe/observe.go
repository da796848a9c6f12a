// Package observe owns the waiting of a person's machine until a commit is seen to have its effect.
//
// It refuses to know what the commit changes and how it was made: it is told by name what has to be well, or gone.
//
// The hub is told that there is something to look at, and then asked again and again: first which commit it serves, then how what
// was named is at that commit. Each change of what is seen is one line on stderr. What is refused or fails ends the wait at once;
// what waits for a person, and what is not there when the time is over, ends it with ui.ExitPending.
package observe

import (
	"context"
	"errors"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

const (
	// lookEvery is the wait between two looks at the hub.
	lookEvery = 500 * time.Millisecond
	// Timeout is how long is waited where --timeout says nothing: a silent cluster must not keep a person waiting.
	Timeout = 2 * time.Minute
)

// About is what has to be well once the commit is served. Where it names nothing, the commit only has to be served.
type About struct {
	Services []string
	Clusters []string
	// Gone says that they have to be there no more.
	Gone bool
}

// errUnsettled is why a wait ended that nobody bounded.
var errUnsettled = errors.New("it was not observed in time")

// Commit waits until the hub serves the commit, or a newer one that holds it, and what it is about is as it has to be. The
// error is a *ui.Err, with ExitPending when the time was over before.
func Commit(ctx context.Context, f *cmdutil.Factory, hub *client.Client, commit string, about About) error {
	return errors.New("observe: not there yet")
}

// Until looks at the hub until look says that there is no more to wait for. A hub that is away for a while is waited for.
// When the time is over that is taken where --timeout says nothing, the error is what pending says.
func Until(ctx context.Context, f *cmdutil.Factory, look func(context.Context) (done bool, err error), pending func() error) error {
	if f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, Timeout, errUnsettled)
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

// Refused is the error about a commit that the hub does not take, or nil.
func Refused(status *v1.Status, commit string) error {
	if status.Head.ID != commit || len(status.Refused) == 0 {
		return nil
	}
	var problems []ui.Problem
	for _, p := range status.Refused {
		problems = append(problems, cmdutil.HubProblem(p))
	}
	return cmdutil.Problems("the commit "+cmdutil.ShortCommit(commit), problems)
}
