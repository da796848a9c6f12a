package pkg

import (
	"context"
	"os"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packs"
)

// The packages of the program's own that make a fleet.
const (
	HubPackage   = "hub"
	AgentPackage = "agent"
)

// Hub asks for the hub.
func Hub() packs.Wanted { return packs.Wanted{Name: HubPackage} }

// Agent asks for the agent, on every cluster: but for those with the tag agent=none, which run theirs some other way.
func Agent() packs.Wanted {
	all := fleet.Selector{MatchExpressions: []fleet.Requirement{{Key: "agent", Operator: "NotIn", Values: []string{"none"}}}}
	return packs.Wanted{Name: AgentPackage, Clusters: all}
}

// Ensure commits those of the packages to a repo that it does not have yet, with all that they need. Answers come from --set
// and --answers of the command that this is a part of, with PACKAGE. before each name; what else is open is asked on a terminal.
func Ensure(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, wanted []packs.Wanted, set []string, answers string) error {
	_, p, err := lacking(ctx, f, repo, wanted, set, answers, "")
	if err != nil || p == nil {
		return err
	}
	result, err := p.Plan(ctx)
	if err != nil {
		return err
	}
	_, err = repo.Commit(ctx, result.Message, result.Changes)
	return err
}

// Put is Ensure of one package, whose answers need no name before them, as a change that is shown and carried as far as making
// says. added says that the repo did not have it.
func Put(
	ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, making *change.CommitOptions,
	wanted packs.Wanted, set []string, answers string,
) (added bool, made change.Outcome, err error) {
	d, p, err := lacking(ctx, f, repo, []packs.Wanted{wanted}, set, answers, wanted.Name)
	if err != nil || p == nil {
		return false, made, err
	}
	if err := d.show(p); err != nil {
		return true, made, err
	}
	result, err := p.Plan(ctx)
	if err != nil {
		return true, made, err
	}
	made, err = making.CarryOutFiles(ctx, d.repo, result.Changes, d.foldNew, result.Message)
	return true, made, err
}

// lacking proposes those of the packages that the repo does not have, answered; nil when it has them all.
func lacking(
	ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, wanted []packs.Wanted, set []string, answers, main string,
) (*packageRepo, *packs.Proposal, error) {
	in := *f
	in.Dir = repo.Root()
	d, err := open(&in)
	if err != nil {
		return nil, nil, err
	}
	var missing []packs.Wanted
	for _, w := range wanted {
		if _, there := d.World.Fleet.Installation(w.Name); !there {
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 {
		return d, nil, nil
	}
	p, err := d.Add(ctx, missing...)
	if err != nil {
		return nil, nil, err
	}
	g := &given{f: &in, set: set, file: answers}
	return d, p, g.answer(ctx, p, main)
}

// Installed are the installations of a package that a repo has, by name.
func Installed(repo *workspace.Repo, of string) ([]string, error) {
	f, err := fleet.Load(os.DirFS(repo.Root()))
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range f.Installations {
		if in := &f.Installations[i]; in.PackageName() == of {
			names = append(names, in.Metadata.Name)
		}
	}
	return names, nil
}

// Version is the one that a repo has of an installation; empty where it has none.
func Version(repo *workspace.Repo, name string) (string, error) {
	lock, err := lockfile.Load(os.DirFS(repo.Root()))
	if err != nil {
		return "", err
	}
	entry, _ := lock.Entry(name)
	return entry.Version, nil
}
