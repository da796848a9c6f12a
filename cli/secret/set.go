package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"charm.land/huh/v2"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/values"
)

// maxValue bounds a value, in bytes.
const maxValue = 1 << 20

type setOptions struct {
	edit
	file, key string
	kind      string
}

func newCmdSet(f *cmdutil.Factory) *cobra.Command {
	o := &setOptions{edit: edit{f: f}}
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
	cmd.Flags().StringVar(&o.kind, "type", string(values.String), "string, number, bool or null")
	o.flags(cmd.Flags())
	return cmd
}

func (o *setOptions) run(ctx context.Context) error {
	if key, _, assigns := strings.Cut(o.key, "="); assigns {
		return &ui.Err{
			Msg:   fmt.Sprintf("%q is no key: the value comes from stdin, or is asked for on a terminal", key+"=…"),
			Cause: "what is on a command line, others on this machine can see; change the secret if it was one",
			Fix:   fmt.Sprintf("plural secret set %s %s < FILE", o.file, key), Doc: ui.DocUsage,
		}
	}
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
	after, err := values.Set(t.path, before, o.key, value, values.Type(o.kind))
	if err != nil {
		return err
	}
	if bytes.Equal(before, after) {
		o.f.Say("nothing to do: %s has this value already", o.key)
		return nil
	}
	return o.carryOut(ctx, t, before, after, "Change a value of "+t.path)
}

// before is the file's text. A file that is missing is made; who types on a terminal is asked first, for the name may be a slip.
func (o *setOptions) before(ctx context.Context, t *target) ([]byte, error) {
	if t.content != nil {
		return t.text()
	}
	if o.f.Yes || o.dryRun || !o.f.Prompter().Able() {
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
	case len(value) == 0:
		return nil, &ui.Err{
			Msg: "there is nothing on stdin, and nobody can be asked", Fix: "write the value to stdin; the empty one is a line end alone: echo |",
			Doc: ui.DocNoInput,
		}
	case len(value) > maxValue:
		return nil, &ui.Err{
			Msg: fmt.Sprintf("the value on stdin is larger than %d MiB", maxValue>>20), Fix: "keep it in a file of its own: plural crypto encrypt",
		}
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
		return nil, &ui.Err{
			Msg: "nothing said what the value is, and nobody can be asked", Fix: "write it to stdin", Doc: ui.DocNoInput,
		}
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
