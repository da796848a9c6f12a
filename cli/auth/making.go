package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/amend"
)

// making is how far a change of the installation repo is carried, as the person's flags say.
type making struct {
	factory                  *cmdutil.Factory
	message                  string
	dryRun, noCommit, noPush bool
}

func (m *making) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&m.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&m.dryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&m.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&m.noPush, "no-push", false, "commit, but leave the push to you")
}

// carryOut makes the change, as far as is wanted, with this message where the person gave none. It says whether the change was
// made, which it may have been when the push fails.
func (m *making) carryOut(ctx context.Context, repo *workspace.Repo, c *amend.Change, message string) (made bool, err error) {
	if m.dryRun {
		_, err := io.WriteString(m.factory.IO.Out, udiff.Unified("a/"+c.File, "b/"+c.File, string(c.Before), string(c.After)))
		return false, err
	}
	if m.noCommit {
		if err := write(repo, c); err != nil {
			return false, err
		}
		m.factory.Say("changed %s; commit it: git add %s && git commit", c.File, c.File)
		return true, nil
	}
	commit, err := repo.Commit(ctx, cmp.Or(m.message, message), map[string][]byte{c.File: c.After})
	if err != nil {
		return false, err
	}
	remote, err := repo.HasRemote()
	if err != nil {
		return true, err
	}
	if m.noPush || !remote {
		m.factory.Say("committed as %s; push it: git push", cmdutil.ShortCommit(commit))
		return true, nil
	}
	pushed, err := repo.Push(ctx)
	if err != nil {
		return true, fmt.Errorf("the change is committed as %s, and not pushed: %w", cmdutil.ShortCommit(commit), err)
	}
	m.factory.Say("committed and pushed as %s", cmdutil.ShortCommit(pushed))
	return true, nil
}

// write changes the work tree alone.
func write(repo *workspace.Repo, c *amend.Change) error {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	if err := replace.File(root, c.File, c.After, 0o644); err != nil {
		return fmt.Errorf("write %q: %w", c.File, err)
	}
	return nil
}

// explained sets the fix of a change that cannot be made apart.
func explained(err error) error {
	var refused *amend.Error
	if errors.As(err, &refused) {
		return &ui.Err{Msg: strings.TrimSpace(refused.Message), Fix: refused.Fix, Err: err}
	}
	return err
}
