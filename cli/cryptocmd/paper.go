package cryptocmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/crypto/keys"
)

func newCmdExport(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Print a backup of your identity, fit for paper",
		Long: "Print a backup of your identity, fit for paper.\n\n" +
			"The sheet holds the private key in numbered lines with checksums. Print it or write it down, and keep it where only you get at it. SSH keys are not on it: their backup is your own affair.",
		Example: cmdutil.Example("plural crypto export", "plural crypto export > sheet.txt"),
		Args:    cmdutil.Exactly(),
		RunE: func(*cobra.Command, []string) error {
			return export(f)
		},
	}
}

func export(f *cmdutil.Factory) error {
	source := f.Identities()
	ids, err := ownIdentities(source)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return &ui.Err{
			Msg: "there is no identity to back up", Cause: "no file lies in " + source.Dir, Fix: "plural crypto init", Doc: ui.DocIdentity,
		}
	}
	sheet := identities.Sheet{Name: "this machine's user", Made: f.Now()}
	if v, err := openVault(f); err == nil { // a backup is made anywhere; in a repository the sheet says more
		sheet.Repository = v.Policy().Repository
		if me, ok := whoIs(v.Groups(), ids); ok {
			sheet.Name = me
		}
	}
	text, err := identities.Paper(sheet, ids)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f.IO.Out, text)
	return err
}

// ownIdentities are the person's identities without SSH keys, which are theirs for other ends too.
func ownIdentities(source identities.Source) ([]age.Identity, error) {
	source.Home = ""
	return source.Load()
}

// whoIs is the person whose public keys are those of ids.
func whoIs(set *groups.Set, ids []age.Identity) (string, bool) {
	var mine []string
	for _, id := range ids {
		if text, ok := keys.RecipientOf(id); ok {
			mine = append(mine, keys.Fingerprint(text))
		}
	}
	for _, p := range set.People() {
		for _, key := range p.Keys {
			if slices.Contains(mine, keys.Fingerprint(key.Text)) {
				return p.Name, true
			}
		}
	}
	return "", false
}

type importOptions struct {
	f    *cmdutil.Factory
	file string
	name string
	keep identityStorage
}

func newCmdImport(f *cmdutil.Factory) *cobra.Command {
	o := &importOptions{f: f}
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Restore an identity from a backup",
		Long: "Restore an identity from a backup.\n\n" +
			"FILE holds the numbered lines of the sheet that plural crypto export printed, or is an age identity file; - is standard input. A line that is mistyped is named. What is there already is never overwritten.",
		Example: cmdutil.Example("plural crypto import sheet.txt", "plural crypto import - --passphrase"),
		Args:    cmdutil.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.name, "name", "identity", "what the identity's file is called")
	o.keep.flags(cmd)
	return cmd
}

func (o *importOptions) run(ctx context.Context) error {
	text, err := o.read()
	if err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	source := o.f.Identities()
	ids, err := identities.ParsePaper(o.file, text, source.Ask)
	if err != nil {
		return err
	}
	if known, err := ownIdentities(source); err == nil && holdsAll(known, ids) {
		o.f.Say("this identity is here already")
		return nil
	}
	options, err := o.keep.options(source.Ask)
	if err != nil {
		return err
	}
	recipient, place, err := source.Save(o.name, ids, options)
	if err != nil {
		return err
	}
	o.f.Say("the identity is in %s; its public key is\n  %s", place, recipient)
	o.f.Say("next  plural crypto unlock, in a clone of the repository")
	return ctx.Err()
}

func (o *importOptions) read() ([]byte, error) {
	if o.file == "-" {
		return io.ReadAll(io.LimitReader(o.f.IO.In, maxKeys))
	}
	return readBounded(o.file, maxKeys)
}

// holdsAll says whether all of ids are among known.
func holdsAll(known, ids []age.Identity) bool {
	var have []string
	for _, id := range known {
		if text, ok := keys.RecipientOf(id); ok {
			have = append(have, text)
		}
	}
	return !slices.ContainsFunc(ids, func(id age.Identity) bool {
		text, ok := keys.RecipientOf(id)
		return !ok || !slices.Contains(have, text)
	})
}

// identityStorage is how a new identity is to be kept.
type identityStorage struct {
	passphrase, keyring bool
}

func (k *identityStorage) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&k.passphrase, "passphrase", false, "protect the identity with a passphrase, which is asked for")
	cmd.Flags().BoolVar(&k.keyring, "keyring", false, "keep the identity in the operating system's keyring")
}

// options asks for the passphrase, where one is wanted.
func (k *identityStorage) options(ask func(string) (string, error)) (identities.Options, error) {
	o := identities.Options{Keyring: k.keyring}
	if !k.passphrase {
		return o, nil
	}
	if k.keyring {
		return o, &ui.Err{Msg: "--passphrase does not go with --keyring", Fix: "leave one of them out: the keyring has a lock of its own"}
	}
	if ask == nil {
		return o, &ui.Err{
			Msg: "nobody can be asked for a passphrase", Fix: "leave --passphrase out, or run this on a terminal", Doc: ui.DocNoInput,
		}
	}
	first, err := ask("Passphrase for the identity")
	if err != nil {
		return o, err
	}
	second, err := ask("The same again")
	switch {
	case err != nil:
		return o, err
	case first != second:
		return o, errors.New("the two passphrases differ")
	case strings.TrimSpace(first) == "":
		return o, errors.New("the passphrase is empty")
	}
	o.Passphrase = first
	return o, nil
}
