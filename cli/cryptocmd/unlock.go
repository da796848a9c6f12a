package cryptocmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/trust"
)

func newCmdUnlock(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "unlock",
		Short: "Let the work tree hold secrets in clear",
		Long: "Let the work tree hold secrets in clear.\n\n" +
			"Git is set up to seal what is added and to open what is checked out, in this clone only. Every sealed file that you can read is verified, then written in clear; nothing is written when one of them is damaged, or when the work tree holds changes. The first time you are shown who can open what, and confirm it.",
		Example: cmdutil.Example("plural crypto unlock", "plural crypto unlock --yes"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return unlock(cmd.Context(), f) },
	}
}

func newCmdLock(f *cmdutil.Factory) *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "lock",
		Short: "Let the work tree hold sealed files as git keeps them",
		Long: "Let the work tree hold sealed files as git keeps them.\n\n" +
			"Files with changes that git does not keep yet are named, and nothing is done. In a locked clone git takes sealed content only.\n\n" +
			"With --remove git forgets the program too: no filter, no hook, no attribute of its own stays in the clone. From then on\n" +
			"nothing keeps a plaintext out of it.",
		Example: cmdutil.Example("plural crypto lock", "plural crypto lock --remove"),
		Args:    cmdutil.Exactly(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return lock(cmd.Context(), f, remove) },
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "take filters, hooks and attributes out of the clone")
	return cmd
}

func unlock(ctx context.Context, f *cmdutil.Factory) error {
	c, err := openClone(ctx, f)
	if err != nil {
		return err
	}
	ring, err := c.vault.Keyring()
	if err != nil {
		return err
	}
	if len(ring.Groups()) == 0 {
		return c.stranger()
	}
	files, err := c.files(ctx)
	if err != nil {
		return err
	}
	clear, sealed, err := c.openAll(files)
	if err != nil {
		return err
	}
	var unconfirmed *trust.UnconfirmedError
	if err := c.vault.Confirm(); errors.As(err, &unconfirmed) {
		if err := confirm(ctx, f, c.git.Top); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := setUp(ctx, c.git); err != nil {
		return err
	}
	if err := c.write(clear); err != nil {
		return err
	}
	if err := reindex(ctx, c.f, c.git, slices.Collect(maps.Keys(clear))); err != nil {
		return err
	}
	f.Say("unlocked: %s in clear", count(len(files)-len(sealed), "file is", "files are"))
	if len(sealed) > 0 {
		f.Say("%s sealed: you are no member of what they are for: %s", count(len(sealed), "file stays", "files stay"), ui.Clean(strings.Join(sealed, ", ")))
	}
	return nil
}

// stranger is the error for somebody who can open nothing.
func (c *clone) stranger() error {
	ids, err := c.f.Identities().Load()
	if err != nil {
		return err
	}
	told := &ui.Err{
		Msg: "nothing in this repository can be opened with your identity", Cause: "people who can let you in: " + people(c.vault),
		Fix: "plural crypto init, which prints what one of them has to run", Doc: ui.DocCannotOpen,
	}
	if len(ids) == 0 {
		told.Msg = "there is no identity here"
		told.Fix = "restore yours: plural crypto import FILE; if you are new: plural crypto init --newcomer"
	}
	return told
}

// openAll verifies every file, and gives what is to be written, and the paths that stay sealed. It is an error when one
// is damaged, sealed for another place, or changed in the work tree.
func (c *clone) openAll(files []sealedFile) (clear map[string][]byte, sealed []string, err error) {
	clear = map[string][]byte{}
	var problems []ui.Problem
	for _, file := range files {
		plaintext, err := c.openOne(file)
		var locked *sealer.LockedError
		switch {
		case errors.As(err, &locked):
			sealed = append(sealed, file.path)
			plaintext = file.stored
		case err != nil:
			problems = append(problems, ui.Problem{Where: file.path, Message: err.Error(), Fix: fixOf(err)})
			continue
		}
		switch {
		case file.disk == nil, bytes.Equal(file.disk, plaintext): // removed, or not checked out; or done already
		case bytes.Equal(file.disk, file.stored):
			clear[file.path] = plaintext
		default:
			problems = append(problems, ui.Problem{Where: file.path, Message: "has changes that git does not keep yet", Fix: "commit or stash them first"})
		}
	}
	if len(problems) > 0 {
		return nil, nil, &ui.Err{
			Msg: fmt.Sprintf("nothing is unlocked: %s in the way", count(len(problems), "file is", "files are")), Problems: problems, Doc: ui.DocInTheWay,
		}
	}
	return clear, sealed, nil
}

// openOne is what git keeps of a file, in clear. What was never sealed is in clear already: status tells about it.
func (c *clone) openOne(file sealedFile) ([]byte, error) {
	plaintext, err := plaintextStrict(c.vault, file.path, file.stored)
	var retired *sealer.RetiredError
	if errors.As(err, &retired) { // it is readable and where it belongs; status tells about it
		plaintext, _, err = c.vault.Read(file.path, file.stored)
	}
	return plaintext, err
}

func lock(ctx context.Context, f *cmdutil.Factory, remove bool) error {
	c, err := openClone(ctx, f)
	if err != nil {
		return err
	}
	files, err := c.files(ctx)
	if err != nil {
		return err
	}
	sealed, err := c.closeAll(files)
	if err != nil {
		return err
	}
	if err := gitsetup.Lock(ctx, c.git); err != nil {
		return err
	}
	if err := c.write(sealed); err != nil {
		return err
	}
	if err := reindex(ctx, c.f, c.git, slices.Collect(maps.Keys(sealed))); err != nil {
		return err
	}
	f.Say("locked: %s as git keeps them", count(len(files), "file is", "files are"))
	if err := c.untracked(ctx); err != nil || !remove {
		return err
	}
	if err := gitsetup.Remove(ctx, c.git); err != nil {
		return err
	}
	f.Say("git knows nothing of sealed files in this clone any more; plural crypto unlock brings it back")
	return nil
}

// closeAll is what is to be written so that every file is as git keeps it. It is an error when that would lose a change.
func (c *clone) closeAll(files []sealedFile) (map[string][]byte, error) {
	sealed := map[string][]byte{}
	var problems []ui.Problem
	for _, file := range files {
		if file.disk == nil || bytes.Equal(file.disk, file.stored) {
			continue
		}
		plaintext, err := plaintextOf(c.vault, file.path, file.stored)
		switch {
		case err != nil:
			problems = append(problems, ui.Problem{Where: file.path, Message: "nothing here tells whether it has changes: " + err.Error(), Fix: fixOf(err)})
		case !bytes.Equal(file.disk, plaintext):
			problems = append(problems, ui.Problem{Where: file.path, Message: "has changes that git does not keep yet", Fix: "commit or stash them first"})
		default:
			sealed[file.path] = file.stored
		}
	}
	if len(problems) > 0 {
		return nil, &ui.Err{
			Msg: fmt.Sprintf("nothing is locked: %s would lose changes", count(len(problems), "file", "files")), Problems: problems, Doc: ui.DocInTheWay,
		}
	}
	return sealed, nil
}

// untracked names files in clear that git does not know: there is no sealed form of them.
func (c *clone) untracked(ctx context.Context) error {
	paths, err := c.git.Untracked(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if must, err := c.vault.Must(path); err == nil && must {
			c.f.Say("%s stays in clear: git does not know it", ui.Clean(path))
		}
	}
	return nil
}
