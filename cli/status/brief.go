package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

// briefly is how long a hub is given to say how the fleet is in a few lines: who types the program's name alone gets an answer
// within a second, whatever the hub does.
const briefly = 800 * time.Millisecond

// Brief prints in a few lines where the person stands: how the fleet is, or why the hub does not say, and what to run next. That the
// hub is away is no error.
func Brief(ctx context.Context, f *cmdutil.Factory) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	address, err := f.HubAddress()
	var status *v1.Status
	if err == nil {
		bounded, cancel := context.WithTimeoutCause(ctx, briefly, &client.Unreachable{
			Hub: address, Err: fmt.Errorf("it has not answered for %s", briefly),
		})
		defer cancel()
		if !printer.Human() {
			return Show(bounded, f)
		}
		status, err = ask(bounded, f)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	steps := []string{"plural tui            see and steer all of it on one screen", "plural --help         all commands"}
	var lines strings.Builder
	if repo, err := f.Repo(); err == nil {
		fmt.Fprintf(&lines, "installation repo %s\n", ui.Clean(repo.Root()))
	}
	if err != nil {
		told := away(err)
		fmt.Fprintln(&lines, ui.Clean(told.Error()))
		steps = append(strings.Split(cmp.Or(told.Fix, "plural doctor"), "\n"),
			"plural validate       check the repo, for which no hub is needed", steps[1])
	} else {
		s := screen{f.IO, f.Now()}
		s.first(&lines, status)
		s.pulse(&lines, status)
		s.refused(&lines, status)
		if stands := s.stands(status, status.Clusters.Total()); stands != "" {
			fmt.Fprintln(&lines, stands)
		}
		first := strings.TrimPrefix(next(status, status.Clusters.Total(), f.Mender(ctx, address)), "next  ")
		steps = append([]string{"plural status         all that there is to say", first}, steps...)
	}
	if _, err := fmt.Fprint(f.IO.Out, lines.String()); err != nil {
		return err
	}
	f.Say("\nnext  %s", ui.CleanText(strings.Join(steps, "\n      ")))
	return nil
}

func ask(ctx context.Context, f *cmdutil.Factory) (*v1.Status, error) {
	hub, err := f.HubClient()
	if err != nil {
		return nil, err
	}
	return hub.Status(ctx)
}

// away is why a hub does not say how the fleet is.
func away(err error) *ui.Err {
	var told *ui.Err
	if !errors.As(cmdutil.Explain(err), &told) {
		return &ui.Err{Msg: err.Error(), Fix: "plural doctor", Err: err}
	}
	return told
}
