package secret

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"charm.land/huh/v2"
	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/replace"
)

// maxValue bounds a value, in bytes.
const maxValue = 1 << 20

type setOptions struct {
	f         *cmdutil.Factory
	file, key string
	kind      string
	message   string
	dryRun    bool
	noCommit  bool
	noPush    bool
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	o := &setOptions{f: f}
	cmd := &cobra.Command{
		Use:   "set FILE KEY",
		Short: "Set one value of a sealed file, from stdin",
		Long: `Set one value of a YAML, JSON or env file that is sealed in git, commit the file
and push it.

The value comes from stdin, or is asked for on a terminal; the end of a single
line is not part of it. Keys are written like data.password, hosts[0].name or
data.tls\.key, and are made where they are missing. Everything else in the file
stays as it is.`,
		Example: cmdutil.Example(
			"plural secret set secrets/db.yaml stringData.password",
			"plural secret set secrets/db.yaml stringData.port --type number --no-commit",
			"plural secret set secrets/app.env TOKEN -m 'Rotate the token' --yes"),
		Args: cmdutil.Exactly("FILE", "KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file, o.key = args[0], args[1]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kind, "type", string(values.String), "string, number, bool or null")
	flags.StringVarP(&o.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&o.dryRun, "dry-run", false, "show the change, and make none")
	flags.BoolVar(&o.noCommit, "no-commit", false, "change the file in the work tree only")
	flags.BoolVar(&o.noPush, "no-push", false, "commit, but leave the push to you")
	return cmd
}

func (o *setOptions) run(ctx context.Context) error {
	t, err := open(o.f, o.file)
	if err != nil {
		return err
	}
	if err := t.mustBeSealed(); err != nil {
		return err
	}
	before, err := o.before(ctx, t)
	if err != nil {
		return err
	}
	value, err := o.value(ctx)
	if err != nil {
		return err
	}
	after, err := values.SetTyped(t.path, before, o.key, value, values.Type(o.kind))
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		o.f.Say("nothing to do: %s has this value already", o.key)
		return nil
	}
	return o.carryOut(ctx, t, before, after)
}

// before is the file's text; a file that is missing is made when the person says so.
func (o *setOptions) before(ctx context.Context, t *target) ([]byte, error) {
	if t.content != nil {
		return t.text()
	}
	if o.f.Yes || o.dryRun {
		return nil, nil
	}
	yes, err := o.f.Prompter().Confirm(ctx, fmt.Sprintf("%s does not exist. Make it?", t.path), "--yes")
	if err == nil && !yes {
		err = context.Canceled
	}
	return nil, err
}

// value is what stdin holds, or what is typed.
func (o *setOptions) value(ctx context.Context) ([]byte, error) {
	if values.Type(o.kind) == values.Null {
		return nil, nil
	}
	if o.f.IO.InTTY {
		return o.ask(ctx)
	}
	value, err := io.ReadAll(io.LimitReader(o.f.IO.In, maxValue+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read value from stdin: %w", err)
	case len(value) > maxValue:
		return nil, &ui.Err{Msg: fmt.Sprintf("the value on stdin is larger than %d MiB", maxValue>>20)}
	}
	return withoutLineEnd(value), nil
}

// withoutLineEnd is value without the end of its line when it is a single one: echo adds it, and a password has none. A
// text of several lines, such as a key file, is kept to the last byte.
func withoutLineEnd(value []byte) []byte {
	line := bytes.TrimSuffix(bytes.TrimSuffix(value, []byte("\n")), []byte("\r"))
	if bytes.IndexByte(line, '\n') >= 0 {
		return value
	}
	return line
}

// ask takes the value from the terminal, unseen.
func (o *setOptions) ask(ctx context.Context) ([]byte, error) {
	if !o.f.Prompter().Able() {
		return nil, &ui.Err{Msg: "nothing said what the value is, and nobody can be asked", Fix: "write it to stdin"}
	}
	var typed string
	input := huh.NewInput().Title("Value of " + ui.Clean(o.key)).EchoMode(huh.EchoModePassword).Value(&typed)
	err := huh.NewForm(huh.NewGroup(input)).
		WithInput(o.f.IO.In).WithOutput(o.f.IO.ErrOut).WithAccessible(o.f.IO.Plain).RunWithContext(ctx)
	if errors.Is(err, huh.ErrUserAborted) {
		err = context.Canceled
	}
	return []byte(typed), err
}

// carryOut shows the change and makes it, as far as is wanted.
func (o *setOptions) carryOut(ctx context.Context, t *target, before, after []byte) error {
	shown := masked(t, before, after)
	if o.dryRun {
		_, err := io.WriteString(o.f.IO.Out, shown)
		return err
	}
	o.f.Say("%s", strings.TrimSuffix(shown, "\n"))
	if o.noCommit {
		return o.write(ctx, t, after)
	}
	// The message stands in clear, so it does not name the key.
	message := cmp.Or(o.message, "Change a value of "+t.path)
	commit, err := t.repo.Commit(ctx, message, map[string][]byte{t.path: after})
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
func (o *setOptions) write(ctx context.Context, t *target, text []byte) error {
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
