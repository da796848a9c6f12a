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

// Ensure commits those of the packages to a repo that it does not have yet, with all that they need. What no answer was given to is
// asked on a terminal.
func Ensure(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, wanted []packs.Wanted, g *Given) error {
	_, p, err := lacking(ctx, f, repo, wanted, g, "")
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
	d, p, err := lacking(ctx, f, repo, []packs.Wanted{wanted}, NewGiven(f, set, answers), wanted.Name)
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
	ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, wanted []packs.Wanted, g *Given, main string,
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
	return d, p, g.answer(ctx, p, main)
}

// Reanswer commits other answers of an installation, and takes those of unset away, where the repo has it and says otherwise.
func Reanswer(
	ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, name string, answers map[string]any, unset ...string,
) (changed bool, err error) {
	in := *f
	in.Dir = repo.Root()
	d, err := open(&in)
	if err != nil {
		return false, err
	}
	if _, there := d.World.Fleet.Installation(name); !there {
		return false, nil
	}
	changes, err := d.Set(name, answers, unset)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	_, err = repo.Commit(ctx, "Configure package "+name, changes)
	return err == nil, err
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
