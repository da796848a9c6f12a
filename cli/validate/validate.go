// Package validate owns the check of an installation repo.
//
// It refuses to know what a mistake is: fleet, resolve, sealed and views say so. The command collects what they say, offline.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealed"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/views"
)

// summary is what a sound repo is told to be.
type summary struct {
	Workspace string `json:"workspace"`
	Clusters  int    `json:"clusters"`
	Sources   int    `json:"sources"`
	Services  int    `json:"services"`
	// Unchecked are services whose files, or a part of them, lie in another repository.
	Unchecked []string `json:"unchecked,omitempty"`
	// Warnings say what services' files leave out.
	Warnings []string `json:"warnings,omitempty"`
}

// NewCmdValidate is `plural validate`.
func NewCmdValidate(f *cmdutil.Factory) *cobra.Command {
	var commit string
	var maxFile int64
	cmd := &cobra.Command{
		Use:     "validate",
		GroupID: cmdutil.GroupStart,
		Short:   "Check every file of the installation repo, offline",
		Long: `Check every file of the installation repo, offline.

All mistakes are listed, each with its file and line. The hub makes the same
check and refuses a commit that fails it. In the work tree, files that must be
sealed may be in clear: they are sealed on their way into git. Services whose
files, or a part of them, lie in another repository are checked as far as this
one goes. A file that is too large to be delivered is a mistake of the service
that reads it, and none where no service does.`,
		Example: cmdutil.Example("plural validate", "plural validate --commit HEAD~1"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), f, commit, maxFile) },
	}
	cmd.Flags().Int64Var(&maxFile, "max-file-bytes", snapshot.MaxBlob, "how large a file may be that a service reads, as the hub's option of that name says")
	cmd.Flags().StringVar(&commit, "commit", "", "check this `REVISION` in the place of the work tree")
	return cmd
}

func run(ctx context.Context, f *cmdutil.Factory, commit string, maxFile int64) error {
	printer, err := f.Printer("")
	if err != nil {
		return err
	}
	repo, err := f.Repo()
	if err != nil {
		return err
	}
	files, err := offline.Read(repo, commit)
	if err != nil {
		return err
	}
	files.Taken().Limit(maxFile)
	state, elsewhere, err := check(ctx, files)
	if err != nil {
		return err
	}
	s := summary{
		Workspace: state.Fleet.Workspace.Metadata.Name,
		Clusters:  len(state.Fleet.Clusters), Sources: len(state.Fleet.Sources), Services: len(state.Fleet.Services),
		Unchecked: elsewhere, Warnings: state.Warnings(),
	}
	return printer.Print(ui.View{Value: s, Names: []string{"workspace/" + s.Workspace}, Screen: s.screen})
}

// check is the sound fleet, with the services that it cannot look into; or all that is wrong.
func check(ctx context.Context, files *offline.Files) (state *offline.State, elsewhere []string, err error) {
	unsealed, err := files.Unsealed(ctx)
	if err != nil {
		return nil, nil, err
	}
	problems := tellUnsealed(unsealed)
	var mistakes fleet.Errors
	if _, err := views.Load(files.Taken().FS()); errors.As(err, &mistakes) {
		problems = append(problems, cmdutil.FleetProblems(mistakes)...)
	} else if err != nil {
		return nil, nil, err
	}
	state, err = files.Fleet()
	switch {
	case errors.As(err, &mistakes):
		problems = append(problems, cmdutil.FleetProblems(mistakes)...)
	case err != nil:
		return nil, nil, err
	default:
		var found []resolve.Problem
		if found, elsewhere, err = state.Problems(ctx); err != nil {
			return nil, nil, err
		}
		problems = append(problems, tell(found)...)
	}
	if told := cmdutil.Problems("the installation repo", problems); told != nil {
		return nil, nil, told
	}
	return state, elsewhere, nil
}

func (s summary) screen(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s is sound: %s, %s, %s\n", ui.Clean(s.Workspace),
		count(s.Clusters, "cluster"), count(s.Sources, "source"), count(s.Services, "service"))
	if err == nil && len(s.Unchecked) > 0 {
		_, err = fmt.Fprintf(w, "not looked into, because their files lie in another repository: %s\n", strings.Join(s.Unchecked, ", "))
	}
	for _, warning := range s.Warnings {
		if err == nil {
			_, err = fmt.Fprintf(w, "warning: %s\n", ui.Clean(warning))
		}
	}
	return err
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func tell(list []resolve.Problem) []ui.Problem {
	problems := make([]ui.Problem, len(list))
	for i, p := range list {
		problems[i] = cmdutil.HeldProblem(&p)
		if p.Service == "" {
			problems[i].Message = p.Message
		}
	}
	return problems
}

func tellUnsealed(list []sealed.Problem) []ui.Problem {
	problems := make([]ui.Problem, len(list))
	for i, p := range list {
		problems[i] = ui.Problem{Where: fleet.Position{File: p.File, Line: p.Line}.String(), Message: p.Message, Fix: p.Fix}
	}
	return problems
}
