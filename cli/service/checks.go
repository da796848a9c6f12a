package service

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/document"
	"github.com/pluralsh/plural/cli/patch"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/inspect"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// checks are what a change of a service is looked at for, before it is shown.
type checks struct {
	f      *cmdutil.Factory
	name   string
	change *document.Change
	// fields are those that the command line sets.
	fields    []yamledit.Field
	committed func() bool
	// confirm is the service's name, where the command line gives it once more.
	confirm *string
}

func (c checks) all(ctx context.Context) func(*workspace.Repo, *fleet.Fleet) error {
	return func(repo *workspace.Repo, after *fleet.Fleet) error {
		if err := hasFolder(c.name, c.committed)(repo, after); err != nil {
			return err
		}
		if c.committed() {
			c.uncommitted(ctx, repo, after)
		}
		files, err := offline.Read(repo, "")
		if err != nil {
			return err
		}
		state := &offline.State{Fleet: after, Files: *files}
		if err := warnUnread(ctx, c.f, c.name, c.fields, c.change.DryRun, state); err != nil {
			return err
		}
		var before *fleet.Fleet // none where there is a mistake in it, which the change may mend
		was, err := files.Fleet()
		if err == nil {
			before = was.Fleet
		} else if !errors.As(err, new(fleet.Errors)) {
			return err
		}
		if err := c.judge(ctx, before, state); err != nil {
			return err
		}
		return c.leaving(ctx, before, after)
	}
}

// uncommitted warns of files of the service that are not as they were committed: the change is checked with them, and is pushed without.
func (c checks) uncommitted(ctx context.Context, repo *workspace.Repo, after *fleet.Fleet) {
	s, ok := after.Service(c.name)
	if !ok || s.Spec.Source.Name != "" {
		return
	}
	changed, err := patch.Files(ctx, repo, "HEAD")
	if err != nil { // there may be no commit yet
		return
	}
	folder := path.Clean(cmp.Or(s.Spec.Source.Path, "."))
	changed = slices.DeleteFunc(changed, func(file string) bool { return folder != "." && !strings.HasPrefix(file, folder+"/") })
	if len(changed) > 0 {
		c.f.Say("warning: not committed, so that clusters do not get it with this change: %s", cmdutil.Few(changed))
		c.f.Say("  fix: git add %s && git commit, before this", ui.Clean(folder))
	}
}

// judged is what clusters would say of what a change makes of a service. Nobody is asked for a passphrase: what is sealed for a key
// that has one is left to the clusters.
func judged(ctx context.Context, f *cmdutil.Factory, name string, before *fleet.Fleet, after *offline.State) (*inspect.Report, error) {
	keys := f.Identities()
	keys.Ask = nil
	renderer, err := preview.New(after.Taken(), keys.Load)
	if err != nil {
		return nil, err
	}
	what := inspect.Inspection{Fleet: after.Fleet, Sources: after, Resolver: resolve.New(), Renderer: renderer}
	if store := f.LastSeen(); store != nil {
		seen, _ := store.Load() // the newest version of Kubernetes will do
		what.Versions = seen.Versions()
	}
	return inspect.OfService(ctx, what, name, before)
}

// judge refuses what clusters would refuse of what the change makes of the service.
func (c checks) judge(ctx context.Context, before *fleet.Fleet, after *offline.State) error {
	report, err := judged(ctx, c.f, c.name, before, after)
	if err != nil {
		return err
	}
	for _, warning := range report.Warnings {
		c.f.Say("warning: %s", ui.Clean(warning.Sentence()))
	}
	told := cmdutil.Problems("service "+c.name+" as it would be", cmdutil.InspectProblems(report))
	if told == nil {
		return nil
	}
	told.Cause = "nothing was changed"
	return told
}
