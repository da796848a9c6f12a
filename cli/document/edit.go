package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/editor"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Edit lets the person change the document's file in their editor, until the repo is sound with it or they give up. What they
// wrote and nobody took is kept, and the error says where.
func (c *Change) Edit(ctx context.Context, name string) error {
	repo, err := c.Factory.Repo()
	if err != nil {
		return err
	}
	at, err := yamledit.Find(os.DirFS(repo.Root()), yamledit.Document{Kind: c.Kind, Name: name})
	if err != nil {
		return c.explained(err)
	}
	before, err := read(repo, at.File)
	if err != nil {
		return err
	}
	draft, err := editor.Open(c.Factory, path.Base(at.File), before)
	if err != nil {
		return err
	}
	planned, err := c.session(ctx, repo, name, at.File, before, draft)
	switch {
	case err != nil:
		return c.kept(draft, before, err)
	case planned == nil:
		draft.Wipe()
		c.Factory.Say("nothing was changed")
		return nil
	}
	if err := c.carryOut(ctx, repo, name, planned, "Edit "+c.noun()+" "+name); err != nil {
		if committed, readErr := read(repo, at.File); readErr == nil && bytes.Equal(committed, planned.After) {
			draft.Wipe() // it is in the work tree, whatever came after
			return err
		}
		return c.kept(draft, before, err)
	}
	draft.Wipe()
	return nil
}

// EditFlags declares what a person may say of an edit.
func (c *Change) EditFlags(flags *pflag.FlagSet) {
	c.Flags(flags)
	flags.BoolVar(&c.asks, "ask", false, "show the change, and ask before it is made")
}

// committing asks whether what was edited is to be made.
func (c *Change) committing(ctx context.Context) error {
	if c.Factory.Yes {
		return nil
	}
	yes, err := c.Factory.Prompter().Confirm(ctx, "Make this change?", "--yes")
	if err == nil && !yes {
		err = &ui.Err{Msg: "nothing was changed", Fix: "edit it again", Doc: ui.DocUnconfirmed}
	}
	return err
}

// session is the editor's run, again as long as what comes of it would be a mistake and the person wants to go on. It is nil when
// there is nothing to change.
func (c *Change) session(
	ctx context.Context, repo *workspace.Repo, name, file string, before []byte, draft *editor.Draft,
) (*yamledit.Change, error) {
	for {
		if err := draft.Edit(ctx); err != nil {
			return nil, err
		}
		text, err := draft.Text(fleet.MaxFile)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(text, before) || len(bytes.TrimSpace(text)) == 0 {
			return nil, nil
		}
		planned, err := yamledit.Rewrite(os.DirFS(repo.Root()), file, text)
		if err == nil && !bytes.Equal(planned.Before, before) {
			return nil, &ui.Err{
				Msg: file + " was changed by somebody else meanwhile", Fix: "edit it again", Doc: ui.DocConflictPush,
			}
		}
		if err == nil {
			err = c.keepsName(repo, planned, name)
		}
		if !errors.As(err, new(*yamledit.InvalidError)) && !errors.Is(err, errRenamed) {
			return planned, err
		}
		err = c.explained(err)
		if !c.Factory.Prompter().Able() {
			return nil, err
		}
		ui.Render(c.Factory.IO.ErrOut, err)
		again, asking := c.Factory.Prompter().Confirm(ctx, "Edit it again?", "an editor that leaves no mistake")
		if asking != nil {
			return nil, asking
		}
		if !again {
			return nil, err
		}
	}
}

// errRenamed is in errors about an edit after which its document is not there any more.
var errRenamed = errors.New("renamed")

// keepsName refuses an edit that gives the document another name, or takes it away: what runs by the old name would be deleted.
func (c *Change) keepsName(repo *workspace.Repo, planned *yamledit.Change, name string) error {
	after, err := fleet.Load(overlay.New(os.DirFS(repo.Root()), map[string][]byte{planned.File: planned.After}))
	if errors.As(err, new(fleet.Errors)) { // told already, and there before
		return nil
	}
	if err != nil {
		return err
	}
	stays := true
	switch c.Kind {
	case yamledit.Service:
		_, stays = after.Service(name)
	case yamledit.Source:
		_, stays = after.Source(name)
	case yamledit.Cluster:
		_, stays = after.Cluster(name)
	}
	if stays {
		return nil
	}
	return &ui.Err{
		Msg: fmt.Sprintf("%s is without %s %q: an edit changes no metadata.name", planned.File, c.noun(), name), Err: errRenamed,
		Fix: fmt.Sprintf("leave the name as it was; to take it away: plural %s delete %s", c.noun(), name), Doc: ui.DocUsage,
	}
}

// kept says where what was edited lies, when there is anything.
func (c *Change) kept(draft *editor.Draft, before []byte, err error) error {
	text, readErr := draft.Text(fleet.MaxFile)
	if readErr == nil && (bytes.Equal(text, before) || len(bytes.TrimSpace(text)) == 0) {
		draft.Wipe()
		return err
	}
	where := "what you edited is in " + draft.Name()
	var told *ui.Err
	if explained := cmdutil.Explain(err); errors.As(explained, &told) {
		out := *told
		if out.Cause != "" {
			where = out.Cause + "; " + where
		}
		out.Cause = where
		return &out
	}
	return &ui.Err{Msg: err.Error(), Cause: where, Err: err}
}

// read is a file of the repo's work tree.
func read(repo *workspace.Repo, file string) ([]byte, error) {
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.ReadFile(filepath.FromSlash(file))
}
