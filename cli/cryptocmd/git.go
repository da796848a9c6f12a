package cryptocmd

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
	"github.com/pluralsh/plural/crypto/values"
)

func newCmdTextconv(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:    "textconv FILE",
		Short:  "Show git a sealed file with its values masked",
		Hidden: true,
		Args:   cmdutil.Exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return textconv(cmd.Context(), f, args[0])
		},
	}
}

// textconv writes a file, which git names by a temporary one, with its values masked. What cannot be opened, or masked, is
// one line.
func textconv(ctx context.Context, f *cmdutil.Factory, file string) error {
	content, err := readBounded(file, seal.MaxFile)
	if err != nil {
		return fmt.Errorf("read %q: %w", file, err)
	}
	c, err := openClone(ctx, f)
	if errors.Is(err, policy.ErrNone) {
		_, err = fmt.Fprintf(f.IO.Out, "%d bytes; nothing says whom they are for\n", len(content))
		return err
	}
	if err != nil {
		return err
	}
	shown, err := masked(c.vault, file, content)
	if err != nil {
		return err
	}
	_, err = f.IO.Out.Write(shown)
	return err
}

func masked(v *sealer.Vault, name string, content []byte) ([]byte, error) {
	if seal.IsSealed(content) {
		plaintext, bound, err := v.Read(name, content)
		if err != nil {
			return fmt.Appendf(nil, "sealed, %d bytes, %s\n", len(content), digest(content)), nil
		}
		content = plaintext
		if bound != nil {
			name = bound.Path
		}
	}
	key, err := maskKey(v)
	if err != nil {
		return nil, err
	}
	return values.Mask(name, content, key), nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("sha256:%x", sum[:4])
}

// maskKey makes masks that are the same for the same value wherever the person sees them, and that tell nothing to whoever
// is no member of the same groups.
func maskKey(v *sealer.Vault) ([]byte, error) {
	ring, err := v.Keyring()
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, []byte("plural mask "+v.Policy().Repository))
	for _, name := range slices.Sorted(slices.Values(ring.Groups())) {
		id, err := ring.Identity(name, 0)
		if err != nil {
			return nil, err
		}
		if private, ok := id.(fmt.Stringer); ok {
			mac.Write([]byte(private.String()))
		}
	}
	return mac.Sum(nil), nil
}

type mergeOptions struct {
	f                  *cmdutil.Factory
	base, ours, theirs string
	path               string
}

func newCmdMerge(f *cmdutil.Factory) *cobra.Command {
	o := &mergeOptions{f: f}
	return &cobra.Command{
		Use:    "merge BASE OURS THEIRS MARKER-SIZE PATH",
		Short:  "Merge a sealed file for git",
		Hidden: true,
		Args:   cmdutil.Exactly("BASE", "OURS", "THEIRS", "MARKER-SIZE", "PATH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.base, o.ours, o.theirs, o.path = args[0], args[1], args[2], args[4]
			return o.run(cmd.Context())
		},
	}
}

// run merges what the three files hold, and puts the result, sealed, in the place of ours: git keeps what it finds there as
// it is, also of a conflict, whose markers come in clear with the checkout alone. Until that is done ours stays as it was.
func (o *mergeOptions) run(ctx context.Context) error {
	c, err := openClone(ctx, o.f)
	if err != nil {
		return err
	}
	var sides [3]side
	for i, name := range []string{o.base, o.ours, o.theirs} {
		if sides[i], err = o.read(c.vault, name); err != nil {
			return err
		}
	}
	for _, s := range sides[1:] {
		if err := o.belongs(c.vault, s, sides[0].bound); err != nil {
			return err
		}
	}
	merged, conflicts, err := values.Merge(o.path, sides[0].plaintext, sides[1].plaintext, sides[2].plaintext)
	if err != nil {
		return fmt.Errorf("merge %q: %w", o.path, err)
	}
	sealed, moved, err := c.vault.Keep(o.path, merged, sides[1].stored)
	if err == nil && moved != nil {
		sealed, err = c.vault.Seal(o.path, merged)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.ours, sealed, 0o600); err != nil {
		return fmt.Errorf("merge %q: %w", o.path, err)
	}
	if conflicts > 0 {
		return ui.Silent(ui.ExitFailed)
	}
	return nil
}

// side is one of the three files of a merge: as git keeps it, and what is inside. What is in clear is bound to nothing.
type side struct {
	stored, plaintext []byte
	bound             *seal.Binding
}

func (o *mergeOptions) read(v *sealer.Vault, name string) (s side, err error) {
	if s.stored, err = readBounded(name, seal.MaxFile); err != nil {
		return s, fmt.Errorf("merge %q: %w", o.path, err)
	}
	if s.plaintext = s.stored; seal.IsSealed(s.stored) {
		s.plaintext, s.bound, err = v.Read(o.path, s.stored)
	}
	return s, err
}

// belongs refuses a side that somebody put in another's place: the result is sealed for those who read this path. A file
// that one side has renamed may still be bound to where it was, as long as nobody reads it now who did not then.
func (o *mergeOptions) belongs(v *sealer.Vault, s side, base *seal.Binding) error {
	if !seal.IsSealed(s.stored) {
		return nil
	}
	err := s.bound.Check(v.Policy().Repository, o.path)
	if err == nil {
		return nil
	}
	if base != nil && s.bound.Check(base.Repository, base.Path) == nil && base.Repository == v.Policy().Repository {
		if widens, err := widens(v, o.path, s.bound); err != nil || !widens {
			return err
		}
	}
	return &ui.Err{Msg: err.Error(), Cause: "merged, it would be sealed for whoever reads " + o.path, Fix: "git merge --abort, and look at who did that: git log --all -- " + o.path, Err: err}
}

// widens says whether a file at path is for a group that the binding does not name.
func widens(v *sealer.Vault, path string, bound *seal.Binding) (bool, error) {
	wanted, err := v.Epochs(path)
	return slices.ContainsFunc(wanted, func(e seal.Epoch) bool {
		return !slices.ContainsFunc(bound.Groups, func(b seal.Epoch) bool { return b.Group == e.Group })
	}), err
}

// plaintextStrict is plaintextOf for a file that must be where it was sealed for.
func plaintextStrict(v *sealer.Vault, path string, content []byte) ([]byte, error) {
	if !seal.IsSealed(content) {
		return content, nil
	}
	return v.Open(path, content)
}
