package cryptocmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/vault"
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
			"The editor ($VISUAL, $EDITOR, else vi) works on a private copy in memory, where the system has such a place. Only a change is written back: as git keeps it in a locked clone, in clear in an unlocked one. A copy that cannot be sealed is kept, and the error says where.",
		Example: cmdutil.Example("plural crypto edit secrets/db.yaml"),
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
		return &ui.Err{Msg: fmt.Sprintf("%q is not to be sealed", path), Cause: "no pattern of .plural/seal.yaml covers it", Fix: "edit it as any other file"}
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
func (o *editOptions) session(ctx context.Context, repo *workspace.Repo, v *vault.Vault, path string, before []byte, locked bool) error {
	draft, err := newDraft(o.f.Getenv, filepath.Base(path), before)
	if err != nil {
		return err
	}
	if err := o.editor(ctx, draft.name); err != nil {
		draft.wipe()
		return err
	}
	after, err := readBounded(draft.name, seal.MaxFile)
	if err != nil {
		return fmt.Errorf("read what was edited: %w", err)
	}
	if bytes.Equal(before, after) {
		draft.wipe()
		o.f.Say("nothing was changed")
		return nil
	}
	if err := o.writeBack(repo, v, path, after, locked); err != nil {
		return &ui.Err{Msg: fmt.Sprintf("%q is not written: %v", path, err), Cause: "what you edited is in " + draft.name, Fix: fixOf(err), Err: err}
	}
	draft.wipe()
	o.f.Say("next  git add %s", o.file)
	return nil
}

// writeBack seals in any case: what cannot be sealed must not wait in the work tree for somebody's git add to fail.
func (o *editOptions) writeBack(repo *workspace.Repo, v *vault.Vault, path string, after []byte, locked bool) error {
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

// editor runs the person's editor, whose setting may be several words, as git does.
func (o *editOptions) editor(ctx context.Context, file string) error {
	command := cmp.Or(o.f.Getenv("VISUAL"), o.f.Getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "sh", "-c", command+` "$@"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.f.IO.In, o.f.IO.ErrOut, o.f.IO.ErrOut
	if o.f.IO.OutTTY {
		cmd.Stdout = o.f.IO.Out
	}
	if err := cmd.Run(); err != nil {
		return &ui.Err{Msg: fmt.Sprintf("the editor %q failed, and nothing is changed", command), Cause: err.Error(), Fix: "set VISUAL or EDITOR", Err: err}
	}
	return nil
}

// draft is a private copy in a folder of its own.
type draft struct {
	dir, name string
}

// newDraft writes content where only this user gets at it, in memory if there is such a place.
func newDraft(getenv func(string) string, base string, content []byte) (*draft, error) {
	var dir string
	var err error
	for _, parent := range []string{getenv("XDG_RUNTIME_DIR"), "/dev/shm", os.TempDir()} {
		if parent == "" {
			continue
		}
		if dir, err = os.MkdirTemp(parent, "plural-edit-"); err == nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("make a private folder: %w", err)
	}
	d := &draft{dir: dir, name: filepath.Join(dir, base)}
	if err := os.WriteFile(d.name, content, 0o600); err != nil {
		d.wipe()
		return nil, fmt.Errorf("write a private copy: %w", err)
	}
	return d, nil
}

// wipe overwrites whatever lies in the draft's folder, what the editor left beside the file too, and removes it.
func (d *draft) wipe() {
	entries, _ := os.ReadDir(d.dir)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			overwrite(filepath.Join(d.dir, entry.Name()), info.Size())
		}
	}
	_ = os.RemoveAll(d.dir) // what is left is empty
}

func overwrite(name string, size int64) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if _, err := file.Write(make([]byte, size)); err == nil {
		_ = file.Sync() // best effort: the file goes away in any case
	}
}
