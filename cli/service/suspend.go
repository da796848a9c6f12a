package service

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// suspension is a change of whether agents look after a service.
type suspension struct {
	f       *cmdutil.Factory
	service string
	// on says that they leave it alone; begin, done and message tell so.
	on                    bool
	done, nothing, commit string
	making                change.CommitOptions
}

func newCmdSuspend(f *cmdutil.Factory) *cobra.Command {
	return newCmdSuspension(f, suspension{on: true, done: "is suspended", nothing: "is suspended already", commit: "Suspend "}, &cobra.Command{
		Use:   "suspend NAME",
		Short: "Have agents leave a service alone, on all clusters",
		Long: `Have agents leave a service alone, on all clusters, until it is resumed: nothing
is applied, healed or deleted. What runs keeps running.

This writes spec.suspend into the service's file, commits and pushes it, and
waits until the hub serves the commit.`,
		Example: cmdutil.Example("plural service suspend web -m 'Leave web alone until the incident is over'", "plural svc suspend web --dry-run"),
	})
}

func newCmdResume(f *cmdutil.Factory) *cobra.Command {
	return newCmdSuspension(f, suspension{done: "goes on", nothing: "is not suspended", commit: "Resume "}, &cobra.Command{
		Use:   "resume NAME",
		Short: "Have agents look after a suspended service again",
		Long: `Have agents look after a suspended service again, from its newest state.

This takes spec.suspend out of the service's file, commits and pushes it, and
waits until the hub serves the commit.`,
		Example: cmdutil.Example("plural service resume web", "plural svc resume web --dry-run"),
	})
}

func newCmdSuspension(f *cmdutil.Factory, s suspension, cmd *cobra.Command) *cobra.Command {
	s.f, s.making = f, change.CommitOptions{Factory: f}
	s.making.Flags(cmd.Flags())
	cmd.Args = cmdutil.Exactly("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s.service = args[0]
		return s.run(cmd.Context())
	}
	return cmd
}

func (s *suspension) run(ctx context.Context) error {
	repo, err := s.f.Repo()
	if err != nil {
		return err
	}
	planned, err := yamledit.Suspend(os.DirFS(repo.Root()), s.service, s.on)
	if err != nil {
		return change.Explained(err)
	}
	if planned.Done() {
		s.f.Say("%s %s, in %s", ui.Clean(s.service), s.nothing, planned.File)
		return nil
	}
	made, err := s.making.CarryOut(ctx, repo, planned, s.commit+s.service)
	if err != nil {
		return err
	}
	observed, err := s.making.Observe(ctx, made, waitfor.About{})
	if observed {
		s.f.Say("observed: %s %s", ui.Clean(s.service), s.done)
	}
	return err
}
