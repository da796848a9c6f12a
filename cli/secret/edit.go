package secret

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/replace"
)

// edit is how far a change goes.
type edit struct {
	f        *cmdutil.Factory
	message  string
	dryRun   bool
	noCommit bool
	noPush   bool
}

func (o *edit) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&o.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&o.noPush, "no-push", false, "commit, but leave the push to you")
}

// carryOut shows the change and makes it, as far as is wanted.
// The message is that of the commit unless the person gave one; it stands in clear, so it names no key.
func (o *edit) carryOut(ctx context.Context, t *target, before, after []byte, message string) error {
	shown := masked(t, before, after)
	if o.dryRun {
		_, err := io.WriteString(o.f.IO.Out, shown)
		return err
	}
	o.f.Say("%s", strings.TrimSuffix(shown, "\n"))
	if o.noCommit {
		return o.write(ctx, t, after)
	}
	commit, err := t.repo.Commit(ctx, cmp.Or(o.message, message), map[string][]byte{t.path: after})
	if err != nil {
		return err
	}
	remote, err := t.repo.HasRemote()
	if err != nil {
		return err
	}
	if o.noPush || !remote {
		o.f.Say("committed as %s; push it: git push", cmdutil.ShortCommit(commit))
		return nil
	}
	pushed, err := t.repo.Push(ctx)
	if err != nil {
		return fmt.Errorf("the change is committed as %s, and not pushed: %w", cmdutil.ShortCommit(commit), err)
	}
	o.f.Say("committed and pushed as %s", cmdutil.ShortCommit(pushed))
	return nil
}

// masked is the change without values.
func masked(t *target, before, after []byte) string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails
	old := "a/" + t.path
	if t.content == nil {
		old = "/dev/null"
	}
	return udiff.Unified(old, "b/"+t.path, string(values.Mask(t.path, before, key)), string(values.Mask(t.path, after, key)))
}

// write changes the work tree alone. The file keeps the form that it has: plain, for git to seal when it is added, or
// sealed, where git would not.
func (o *edit) write(ctx context.Context, t *target, text []byte) error {
	sealed := seal.IsSealed(t.content)
	if t.content == nil {
		clone, err := gitcmd.Find(ctx, t.repo.Root())
		if err != nil {
			return err
		}
		if sealed, err = gitsetup.Locked(ctx, clone); err != nil {
			return err
		}
	}
	if sealed {
		var err error
		if text, err = t.vault.Seal(t.path, text); err != nil {
			return err
		}
	}
	if err := t.replace(text); err != nil {
		return fmt.Errorf("write %q: %w", t.path, err)
	}
	o.f.Say("changed %s; commit it: git add %s && git commit", t.path, t.path)
	return nil
}

// replace puts content in the place of the file.
func (t *target) replace(content []byte) error {
	root, err := os.OpenRoot(t.repo.Root())
	if err != nil {
		return err
	}
	defer root.Close()
	return replace.File(root, t.path, content, t.mode)
}
