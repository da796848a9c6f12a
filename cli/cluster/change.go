package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

// intent is one commit to the installation repo that a command is about to make.
type intent struct {
	factory *cmdutil.Factory
	repo    *workspace.Repo
	// editor is nil where nothing is sealed.
	editor *rekey.Editor
	plan   *rekey.Plan
	// resumed says that an earlier run's commit was made just now. Nobody has pushed it.
	resumed bool
}

// open finds the installation repo, and brings to its end what an earlier run was killed at, unless nothing may be done.
// Where the repo is sealed, the person must have confirmed who can read what in it.
func open(ctx context.Context, f *cmdutil.Factory, dryRun bool) (*intent, error) {
	repo, err := f.Repo()
	if err != nil {
		return nil, err
	}
	about, underWay := rekey.UnderWay(repo)
	if underWay && dryRun {
		return nil, &ui.Err{
			Msg: "an earlier change has not come to its end: " + about, Fix: "plural crypto doctor --fix", Doc: ui.DocUnfinished,
		}
	}
	c := &intent{factory: f, repo: repo, plan: &rekey.Plan{Changes: map[string][]byte{}}}
	resumed, err := rekey.Resume(ctx, repo, f.Confirmed())
	if err != nil {
		return nil, err
	}
	if c.resumed = resumed != nil; c.resumed {
		f.Say("finished what an earlier run was stopped at: %s", about)
	}
	c.editor, err = rekey.Open(repo, f.Keys(), f.Confirmed())
	if errors.Is(err, policy.ErrNone) {
		return c, nil
	}
	return c, err
}

// read is the repo's file at path, nil when there is none.
func (c *intent) read(path string) ([]byte, error) {
	root, err := os.OpenRoot(c.repo.Root())
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	file, err := root.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster's file: %w", err)
	}
	return file, nil
}

// write makes the change in the work tree alone, for the person to commit.
func (c *intent) write() error {
	root, err := os.OpenRoot(c.repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	for _, path := range c.paths() {
		if err := c.writeFile(root, path, c.plan.Changes[path]); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	if c.editor == nil {
		return nil
	}
	return c.factory.Confirmed().Confirm(c.editor.Vault().Policy().Repository, c.plan.After)
}

// writeFile leaves a file that is plain in the work tree as it is, but for its time: git then seals it anew.
func (c *intent) writeFile(root *os.Root, path string, content []byte) error {
	if content == nil {
		return root.Remove(path)
	}
	name := filepath.FromSlash(path)
	old, err := root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && seal.IsSealed(content) && !seal.IsSealed(old) {
		now := time.Now()
		return root.Chtimes(name, now, now)
	}
	if bytes.Equal(old, content) && err == nil {
		return nil
	}
	return replace.File(root, name, content, 0o644)
}

func (c *intent) paths() []string { return slices.Sorted(maps.Keys(c.plan.Changes)) }

// step is what a change does to one file.
type step struct {
	Action string `json:"action"`
	File   string `json:"file"`
}

func (c *intent) steps() []step {
	steps := []step{}
	for _, path := range c.paths() {
		action := "write"
		switch {
		case c.plan.Changes[path] == nil:
			action = "remove"
		case slices.Contains(c.plan.Resealed, path):
			action = "seal again"
		}
		steps = append(steps, step{action, path})
	}
	return steps
}

// show prints what would be done, in the place of doing it.
func (c *intent) show() error {
	printer, err := c.factory.Printer("table")
	if err != nil {
		return err
	}
	steps := c.steps()
	view := ui.View{Value: steps, Columns: []ui.Column{{Name: "ACTION"}, {Name: "FILE"}}}
	for _, s := range steps {
		view.Names = append(view.Names, s.File)
		view.Rows = append(view.Rows, []string{s.Action, ui.Clean(s.File)})
	}
	return printer.Print(view)
}

// sayReaders says what changes in who can read what.
func (c *intent) sayReaders() {
	if c.editor == nil {
		return
	}
	for _, d := range c.plan.Differences() {
		sign := "-"
		if d.Added {
			sign = "+"
		}
		c.factory.Say("  %s %s", sign, ui.Clean(d.Line))
	}
}
