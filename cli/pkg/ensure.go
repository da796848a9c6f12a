package pkg

import (
	"context"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/installer/packs"
	"github.com/pluralsh/plural/workspace"
)

// Ensure commits those of the packages to a repo that it does not have yet, with all that they need. Answers come from --set
// and --answers of the command that this is a part of, with PACKAGE. before each name; what else is open is asked on a terminal.
func Ensure(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, wanted []packs.Wanted, set []string, answers string) error {
	in := *f
	in.Dir = repo.Root()
	d, err := open(&in)
	if err != nil {
		return err
	}
	var missing []packs.Wanted
	for _, w := range wanted {
		if _, there := d.World.Fleet.Installation(w.Name); !there {
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	p, err := d.Add(ctx, missing...)
	if err != nil {
		return err
	}
	g := &given{f: &in, set: set, file: answers}
	if err := g.answer(ctx, p, ""); err != nil {
		return err
	}
	result, err := p.Plan(ctx)
	if err != nil {
		return err
	}
	_, err = repo.Commit(ctx, result.Message, result.Changes)
	return err
}
