package cryptocmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/editor"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/workspace"
)

type editOptions struct {
	f    *cmdutil.Factory
	file string
}

func newCmdEdit(f *cmdutil.Factory) *cobra.Command {
	o := &editOptions{f: f}
	return &cobra.Command{
		Use:   "edit FILE",
		Short: "Edit a sealed file in $EDITOR",
		Long: "Edit a sealed file in $EDITOR.\n\n" +
			"The editor ($VISUAL, $EDITOR, else vi) works on a private copy in memory, where the system has such a place. Only a change is written back: as git keeps it in a locked clone, in clear in an unlocked one. A copy that cannot be sealed is kept, and the error says where.\n\n" +
			"The commit is left to you, for several files may belong together; plural secret set commits by itself.",
		Example: cmdutil.Example("plural crypto edit secrets/db.yaml", "plural crypto edit apps/web/db.secret.yaml"),
		Args:    cmdutil.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return o.run(cmd.Context())
		},
	}
}

func (o *editOptions) run(ctx context.Context) error {
	repo, err := o.f.Repo()
	if err != nil {
		return err
	}
	v, err := repo.Vault(nil)
	if err != nil {
		return err
	}
	path, err := inRepo(repo.Root(), o.file)
	if err != nil {
		return err
	}
	if must, err := v.Must(path); err != nil {
		return err
	} else if !must {
		return &ui.Err{
			Msg: fmt.Sprintf("%q is not to be sealed", path), Cause: "no pattern of .plural/seal.yaml covers it", Fix: "edit it as any other file", Doc: ui.DocNotSealed,
		}
	}
	disk, err := readBounded(filepath.Join(repo.Root(), filepath.FromSlash(path)), seal.MaxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %q: %w", path, err)
	}
	before := disk
	if seal.IsSealed(disk) {
		if before, err = v.Open(path, disk); err != nil {
			return err
		}
	}
	locked, err := isLocked(ctx, repo.Root())
	if err != nil {
		return err
	}
	return o.session(ctx, repo, v, path, before, locked || seal.IsSealed(disk))
}

func isLocked(ctx context.Context, root string) (bool, error) {
	repo, err := gitcmd.Find(ctx, root)
	if err != nil {
		return false, err
	}
	return gitsetup.Locked(ctx, repo)
}

// session lets the editor work on a copy, and writes back what it made.
func (o *editOptions) session(ctx context.Context, repo *workspace.Repo, v *sealer.Vault, path string, before []byte, locked bool) error {
	draft, err := editor.Open(o.f, filepath.Base(path), before)
	if err != nil {
		return err
	}
	if err := draft.Edit(ctx); err != nil {
		draft.Wipe()
		return err
	}
	after, err := draft.Text(seal.MaxFile)
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		draft.Wipe()
		o.f.Say("nothing was changed")
		return nil
	}
	if err := o.writeBack(repo, v, path, after, locked); err != nil {
		return &ui.Err{Msg: fmt.Sprintf("%q is not written: %v", path, err), Cause: "what you edited is in " + draft.Name(), Fix: fixOf(err), Err: err}
	}
	draft.Wipe()
	o.f.Say("next  git add %s && git commit", o.file)
	return nil
}

// writeBack seals in any case: what cannot be sealed must not wait in the work tree for somebody's git add to fail.
func (o *editOptions) writeBack(repo *workspace.Repo, v *sealer.Vault, path string, after []byte, locked bool) error {
	content, err := v.Seal(path, after)
	if err != nil {
		return err
	}
	if !locked {
		content = after
	}
	root, err := os.OpenRoot(repo.Root())
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	return put(root, path, content)
}

func fixOf(err error) string {
	var known *ui.Err
	if errors.As(cmdutil.Explain(err), &known) {
		return known.Fix
	}
	return ""
}
