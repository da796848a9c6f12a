package cryptocmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitfilter"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace/snapshot"
)

func newCmdFilter(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    "filter",
		Short:  "Seal and open files for git, which starts this",
		Hidden: true,
		Args:   cmdutil.Exactly(),
		RunE:   func(cmd *cobra.Command, _ []string) error { return serveFilter(cmd.Context(), f) },
	}
}

// serveFilter speaks git's long-running filter protocol on the process's streams until git hangs up.
func serveFilter(ctx context.Context, f *cmdutil.Factory) error {
	repo, err := gitcmd.Find(ctx, ".")
	if err != nil {
		return err
	}
	locked, err := gitsetup.Locked(ctx, repo)
	if err != nil {
		return err
	}
	memory, err := repo.GitPath(ctx, "plural/known")
	if err != nil {
		return err
	}
	filter, err := gitfilter.New(gitfilter.Config{
		Repo: repo, Locked: locked, Identities: f.Identities().Load, Confirmed: f.Confirmed(), Notes: f.IO.ErrOut,
		Memory: sealer.Remember(memory),
	})
	if err != nil {
		return err
	}
	return errors.Join(gitfilter.Serve(ctx, f.IO.In, f.IO.Out, filter), filter.Close())
}

type hookOptions struct {
	f    *cmdutil.Factory
	args []string
}

func newCmdHook(f *cmdutil.Factory) *cobra.Command {
	o := &hookOptions{f: f}
	return &cobra.Command{
		Use:    "hook NAME [ARG...]",
		Short:  "Check files for git, which starts this as a hook",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.args = args[1:]
			return o.run(cmd.Context(), args[0])
		},
	}
}

func (o *hookOptions) run(ctx context.Context, name string) error {
	repo, err := gitcmd.Find(ctx, ".")
	if err != nil {
		return err
	}
	switch name {
	case "pre-commit":
		return o.preCommit(ctx, repo)
	case "pre-push":
		return o.prePush(ctx, repo)
	case "post-checkout", "post-merge":
		return o.follow(ctx, repo)
	}
	return &ui.Err{Msg: fmt.Sprintf("there is no hook %q", name), Fix: "plural crypto doctor --fix, which writes the hooks anew"}
}

func (o *hookOptions) preCommit(ctx context.Context, repo *gitcmd.Repo) error {
	files, err := repo.FS(ctx, "")
	if err != nil {
		return err
	}
	v, err := sealer.Open(sealer.Config{Files: files, Identities: o.f.Identities().Load, Confirmed: o.f.Confirmed()})
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	report, err := leakcheck.PreCommit(ctx, repo, v)
	if err != nil {
		return err
	}
	if err := o.tell(report, "commit"); err != nil {
		return err
	}
	return o.tellLarge(ctx, repo)
}

// tellLarge warns of files that a commit brings and that no service can be delivered with. Where no service reads them they are
// good, which a hook has no time to find out.
func (o *hookOptions) tellLarge(ctx context.Context, repo *gitcmd.Repo) error {
	out, err := repo.Call("diff", "--cached", "--name-only", "--diff-filter=AM", "--no-renames", "-z").Run(ctx)
	if err != nil {
		return err
	}
	for _, path := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(repo.Top, path))
		if err != nil || !info.Mode().IsRegular() || info.Size() <= snapshot.MaxBlob {
			continue // what is not in the work tree is in no service's way yet
		}
		o.f.Say("plural: %s has %d MiB: a service that reads files of more than %d MiB is not delivered\n"+
			"  fix: plural validate names the services that read it; keep it elsewhere, or leave it out by their spec.exclude",
			ui.Clean(path), info.Size()>>20, snapshot.MaxBlob>>20)
	}
	return nil
}

func (o *hookOptions) prePush(ctx context.Context, repo *gitcmd.Repo) error {
	if len(o.args) == 0 {
		return errors.New("git names no remote to push to")
	}
	report, err := leakcheck.PrePush(ctx, repo, o.f.IO.In, o.args[0])
	if err != nil {
		return err
	}
	return o.tell(report, "push")
}

// tell says what a guard did and left alone, and refuses what it refuses.
func (o *hookOptions) tell(report *leakcheck.Report, action string) error {
	for _, f := range report.Mended {
		o.f.Say("plural: sealed anew: %s", ui.Clean(f.String()))
	}
	for _, f := range report.Warned {
		o.f.Say("plural: left as it is: %s\n  fix: %s", ui.Clean(f.String()), f.Fix)
	}
	if len(report.Refused) == 0 {
		return nil
	}
	problems := make([]ui.Problem, len(report.Refused))
	for i, f := range report.Refused {
		problems[i] = ui.Problem{Where: f.Path + " (" + f.Where + ")", Message: f.Message, Fix: f.Fix}
	}
	return &ui.Err{
		Msg:      fmt.Sprintf("%s refused: %s not sealed", action, count(len(problems), "file is", "files are")),
		Problems: problems, Fix: "plural crypto status --check names them all", Doc: ui.DocNotSealed, Err: report.Err(action),
	}
}

// follow keeps the clone's settings what the policy says that was checked out, and tells of changes to confirm.
func (o *hookOptions) follow(ctx context.Context, repo *gitcmd.Repo) error {
	locked, err := gitsetup.Locked(ctx, repo)
	if err != nil || locked {
		return err
	}
	v, err := vaultOf(ctx, o.f, repo)
	if errors.Is(err, policy.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	self, err := Program()
	if err != nil {
		return err
	}
	if err := gitsetup.Install(ctx, repo, self); err != nil {
		return err
	}
	if err := v.Confirm(); err != nil {
		o.f.Say("plural: %s", ui.Clean(err.Error()))
	}
	return nil
}
