// Package change owns how a change of the installation repo is carried out on a person's machine.
//
// It refuses to know what is changed: a change is one file as it was and as it will be. How far it is carried, from a look at
// it to a commit that is pushed, the person's flags say, which are the same for every command.
package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Making is how far a change is carried.
type Making struct {
	Factory *cmdutil.Factory
	// DryRun shows the change and makes none.
	DryRun           bool
	message          string
	noCommit, noPush bool
}

// Flags declares what a person may say of it.
func (m *Making) Flags(flags *pflag.FlagSet) {
	flags.StringVarP(&m.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&m.DryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&m.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&m.noPush, "no-push", false, "commit, but leave the push to you")
}

// Made is how far a change was carried.
type Made struct {
	// Written says that the file is changed, by a commit or in the work tree; it may be when there is an error too.
	Written bool
	// Pushed is the commit that was pushed; empty when none was.
	Pushed string
}

// CarryOut makes the change, as far as is wanted, with this message where the person gave none.
func (m *Making) CarryOut(ctx context.Context, repo *workspace.Repo, c *amend.Change, message string) (Made, error) {
	diff := udiff.Unified("a/"+c.File, "b/"+c.File, string(c.Before), string(c.After))
	if m.DryRun {
		_, err := io.WriteString(m.Factory.IO.Out, diff)
		return Made{}, err
	}
	m.Factory.Say("%s", strings.TrimSuffix(diff, "\n"))
	if m.noCommit {
		err := m.write(repo, c)
		return Made{Written: err == nil}, err
	}
	commit, err := repo.Commit(ctx, cmp.Or(m.message, message), map[string][]byte{c.File: c.After})
	if err != nil {
		return Made{}, err
	}
	remote, err := repo.HasRemote()
	if err != nil {
		return Made{Written: true}, err
	}
	if m.noPush || !remote {
		m.Factory.Say("committed as %s; push it: git push", cmdutil.ShortCommit(commit))
		return Made{Written: true}, nil
	}
	pushed, err := repo.Push(ctx)
	if err != nil {
		return Made{Written: true}, fmt.Errorf("the change is committed as %s, and not pushed: %w", cmdutil.ShortCommit(commit), err)
	}
	m.Factory.Say("committed and pushed as %s", cmdutil.ShortCommit(pushed))
	return Made{Written: true, Pushed: pushed}, nil
}

// newFile is the mode of a file that is not there yet.
const newFile fs.FileMode = 0o644

// write changes the work tree alone.
func (m *Making) write(repo *workspace.Repo, c *amend.Change) error {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	mode := newFile
	info, err := root.Stat(c.File)
	switch {
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look at %q: %w", c.File, err)
	}
	if err := replace.File(root, c.File, c.After, mode); err != nil {
		return fmt.Errorf("write %q: %w", c.File, err)
	}
	m.Factory.Say("changed %s; commit it: git add %s && git commit", c.File, c.File)
	return nil
}

// Explained sets the fix of a change that cannot be made apart.
func Explained(err error) error {
	var refused *amend.Error
	if errors.As(err, &refused) {
		return &ui.Err{Msg: strings.TrimSpace(refused.Message), Fix: refused.Fix, Err: err}
	}
	return err
}
