package service

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
	f                        *cmdutil.Factory
	message                  string
	dryRun, noCommit, noPush bool
	wait                     bool
}

// flags declares them. What is waited for stands in the help of --wait.
func (m *making) flags(flags *pflag.FlagSet, wait string) {
	flags.StringVarP(&m.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&m.dryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&m.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&m.noPush, "no-push", false, "commit, but leave the push to you")
	flags.BoolVar(&m.wait, "wait", true, wait)
}

// carryOut makes the change, as far as is wanted, with this message where the person gave none. The commit is the one that was
// pushed; empty when none was.
func (m *making) carryOut(ctx context.Context, repo *workspace.Repo, c *amend.Change, message string) (pushed string, err error) {
	diff := udiff.Unified("a/"+c.File, "b/"+c.File, string(c.Before), string(c.After))
	if m.dryRun {
		_, err := io.WriteString(m.f.IO.Out, diff)
		return "", err
	}
	m.f.Say("%s", strings.TrimSuffix(diff, "\n"))
	if m.noCommit {
		return "", m.write(repo, c)
	}
	commit, err := repo.Commit(ctx, cmp.Or(m.message, message), map[string][]byte{c.File: c.After})
	if err != nil {
		return "", err
	}
	remote, err := repo.HasRemote()
	if err != nil {
		return "", err
	}
	if m.noPush || !remote {
		m.f.Say("committed as %s; push it: git push", cmdutil.ShortCommit(commit))
		return "", nil
	}
	if pushed, err = repo.Push(ctx); err != nil {
		return "", fmt.Errorf("the change is committed as %s, and not pushed: %w", cmdutil.ShortCommit(commit), err)
	}
	m.f.Say("committed and pushed as %s", cmdutil.ShortCommit(pushed))
	return pushed, nil
}

// write changes the work tree alone.
func (m *making) write(repo *workspace.Repo, c *amend.Change) error {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(c.File)
	if err != nil {
		return fmt.Errorf("look at %q: %w", c.File, err)
	}
	if err := replace.File(root, c.File, c.After, info.Mode().Perm()); err != nil {
		return fmt.Errorf("write %q: %w", c.File, err)
	}
	m.f.Say("changed %s; commit it: git add %s && git commit", c.File, c.File)
	return nil
}

// explained sets the fix of a change that cannot be made apart.
func explained(err error) error {
	var refused *amend.Error
	if errors.As(err, &refused) {
		return &ui.Err{Msg: refused.Message, Fix: refused.Fix, Err: err}
	}
	return err
}
