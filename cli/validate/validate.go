// Package validate owns the check of an installation repo.
//
// It refuses to know what a mistake is: fleet, resolve, sealed and views say so of files, installer/inspect of what services render
// to. The command collects what they say, offline.
package validate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/sealcheck"
	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/views"
)

// summary is what a sound repo is told to be.
type summary struct {
	Workspace string `json:"workspace"`
	Clusters  int    `json:"clusters"`
	Sources   int    `json:"sources"`
	Services  int    `json:"services"`
	// Renditions are the different outcomes of services, Objects what they hold, Kubernetes the versions that they were checked against.
	Renditions int      `json:"renditions"`
	Objects    int      `json:"objects"`
	Kubernetes []string `json:"kubernetes,omitempty"`
	// Unchecked are services that cannot be rendered on this machine, each with the reason.
	Unchecked []string `json:"unchecked,omitempty"`
	// Warnings say what may surprise.
	Warnings []string `json:"warnings,omitempty"`
	// Notices say what the commit does that may not be meant.
	Notices []string `json:"notices,omitempty"`

	fleet *fleet.Fleet
	seen  *fleetcache.Seen
	// against is Kubernetes, with whose versions they are.
	against string
}

type options struct {
	f      *cmdutil.Factory
	commit string
	// past are the commits whose fleet what is checked takes the place of, the newest first.
	past []past
	// maxFile is how large a file may be that a service reads, in bytes.
	maxFile int64
	strict  bool
}

// NewCmdValidate is `plural validate`.
func NewCmdValidate(f *cmdutil.Factory) *cobra.Command {
	o := options{f: f}
	cmd := &cobra.Command{
		Use:     "validate",
		GroupID: cmdutil.GroupStart,
		Short:   "Check the repo and what it renders to, offline",
		Long: `Check the installation repo and what it renders to, offline.

All mistakes are listed, each with its file and line. Every service is rendered
for every set of parameters that clusters give it, and each object is checked as
an API server would check it: unknown and missing fields, wrong types, values
that a field does not take, versions of APIs that Kubernetes removed. The
versions of Kubernetes are those that plural tui saw clusters have, which the
result names with when that was; where it saw none, it is the newest that this
program knows. Objects of other kinds are checked against the
CustomResourceDefinitions that services bring to the same clusters. An object
that two services make on the same cluster is a mistake of both.

Warnings are about what may be meant so: kinds that nothing in the fleet defines,
parameters and Helm values that nothing reads, services that no cluster fits,
namespaces one typing slip from another service's.
They fail only with --strict.

The hub refuses a commit with a mistake in the files of the fleet itself, such as
plural.yaml and services/, and one that takes away more than the deletion budget
allows where nobody agreed to that: both fail here. What does not render, or what a cluster does not take,
fails there, and keeps what it has. In the work tree, files that must be sealed
may be in clear: they are sealed on their way into git. Services whose sources are not on this machine, or that are sealed
for others, are named and checked as far as this repository goes. A file that is
too large to be delivered is a mistake of the service that reads it, and none
where no service does.`,
		Example: cmdutil.Example("plural validate", "plural validate --strict", "plural validate --commit HEAD~1"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&o.commit, "commit", "", "check this `REVISION` in the place of the work tree")
	cmd.Flags().Int64Var(&o.maxFile, "max-file-bytes", snapshot.MaxBlob,
		"how large a file may be that a service reads, as the hub's option of that name says")
	cmd.Flags().BoolVar(&o.strict, "strict", false, "let warnings fail too")
	return cmd
}

func (o options) run(ctx context.Context) error {
	printer, err := o.f.Printer("")
	if err != nil {
		return err
	}
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	files, err := offline.Read(repo, o.commit)
	if err != nil {
		return err
	}
	files.Taken().Limit(o.maxFile)
	s, problems, err := o.check(ctx, files)
	if err != nil {
		return err
	}
	if s != nil {
		o.past = o.earlier(repo, s.seen)
		problems = append(problems, o.refused(s.fleet, files.Taken().FS())...)
		for n := 0; n < len(o.past) && len(s.Notices) == 0; n++ {
			s.Notices = o.going(s.fleet, o.past[n].fleet, s.seen, files.Taken().FS())
		}
	}
	if told := cmdutil.Problems("the installation repo", problems); told != nil {
		if s != nil {
			for _, warning := range s.Warnings {
				o.f.Say("warning: %s", ui.Clean(warning))
			}
		}
		return told
	}
	if err := printer.Print(ui.View{Value: s, Names: []string{"workspace/" + s.Workspace}, Screen: s.screen}); err != nil {
		return err
	}
	if o.strict && len(s.Warnings) > 0 {
		return &ui.Err{
			Msg: fmt.Sprintf("there are warnings (%d), and --strict takes none", len(s.Warnings)), Fix: "mend what they name, or leave out --strict",
			Doc: ui.DocMistakes,
		}
	}
	return nil
}

// past is a commit with its fleet, which is nil where there is no such commit, or it makes no sense.
type past struct {
	commit string
	fleet  *fleet.Fleet
	files  fs.FS
}

// earlier are the commits whose fleet what is checked takes the place of: of a commit its parent, and of the work tree HEAD and what the
// hub was last seen to serve, where HEAD came out of that.
func (o options) earlier(repo *workspace.Repo, seen *fleetcache.Seen) []past {
	commits := []string{"HEAD"}
	if o.commit != "" {
		commits[0] = o.commit + "~1"
	} else if seen != nil && seen.Summary != nil {
		if came, err := repo.Contains(seen.Summary.Commit.ID); err == nil && came {
			commits = append(commits, cmdutil.ShortCommit(seen.Summary.Commit.ID))
		}
	}
	list := make([]past, len(commits))
	for n, commit := range commits {
		list[n].commit = commit
		if state, err := offline.Open(repo, commit); err == nil {
			list[n].fleet, list[n].files = state.Fleet, state.Taken().FS()
		}
	}
	return list
}

// check is what is told of a sound fleet, or all that is wrong. Where some files make no sense, the services of others are looked at.
func (o options) check(ctx context.Context, files *offline.Files) (*summary, []ui.Problem, error) {
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
	state, err := files.Fleet()
	if errors.As(err, &mistakes) {
		return nil, append(problems, cmdutil.FleetProblems(mistakes)...), nil
	} else if err != nil {
		return nil, nil, err
	}
	resolver := resolve.New()
	found, elsewhere, err := state.Problems(ctx)
	if err != nil {
		return nil, nil, err
	}
	problems = append(problems, tell(found)...)
	var seen *fleetcache.Seen
	if store := o.f.LastSeen(); store != nil {
		if seen, err = store.Load(); err != nil {
			seen = nil // the newest version of Kubernetes will do
		}
	}
	report, err := inspectFleet(ctx, o.f, state, resolver, seen)
	if err != nil {
		return nil, nil, err
	}
	return &summary{
		Workspace: state.Fleet.Workspace.Metadata.Name,
		Clusters:  len(state.Fleet.Clusters), Sources: len(state.Fleet.Sources), Services: len(state.Fleet.Services),
		Renditions: report.Renditions, Objects: report.Objects, Kubernetes: versions(report.Versions),
		Unchecked: unchecked(report, elsewhere, state.Fleet),
		Warnings:  slices.Concat(state.Warnings(), sentences(report.Warnings)),
		fleet:     state.Fleet, seen: seen, against: o.whose(report.Versions, seen),
	}, append(problems, cmdutil.InspectProblems(report)...), nil
}

// verdict is the first line.
func (s summary) verdict() string {
	switch {
	case s.Services == 0 && len(s.Notices) > 0:
		return "has no services any more"
	case s.Services == 0:
		return "has no services yet"
	case len(s.Warnings) > 0:
		return "has " + count(len(s.Warnings), "warning")
	}
	return "is sound"
}

func (s summary) screen(w io.Writer) error {
	lines := []string{fmt.Sprintf("%s %s: %s, %s, %s", ui.Clean(s.Workspace), s.verdict(),
		count(s.Clusters, "cluster"), count(s.Sources, "source"), count(s.Services, "service"))}
	if s.Services == 0 && len(s.Notices) == 0 {
		lines = append(lines, "add the first: plural service create NAME --path FOLDER --cluster CLUSTER")
	}
	if s.Objects > 0 {
		lines = append(lines, fmt.Sprintf("rendered and checked: %s, for Kubernetes %s", count(s.Objects, "object"), s.against))
	}
	if len(s.Unchecked) > 0 {
		lines = append(lines, "not looked into: "+strings.Join(s.Unchecked, ", "))
	}
	for _, warning := range s.Warnings {
		lines = append(lines, "warning: "+warning)
	}
	for _, notice := range s.Notices {
		lines = append(lines, "notice: "+notice)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, ui.Clean(line)); err != nil {
			return err
		}
	}
	return nil
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

func tellUnsealed(list []sealcheck.Problem) []ui.Problem {
	problems := make([]ui.Problem, len(list))
	for i, p := range list {
		problems[i] = ui.Problem{Where: fleet.Position{File: p.File, Line: p.Line}.String(), Message: p.Message, Fix: p.Fix}
	}
	return problems
}
