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
	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/crypto/vault"
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

func masked(v *vault.Vault, name string, content []byte) ([]byte, error) {
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
func maskKey(v *vault.Vault) ([]byte, error) {
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
	var sides [3][]byte
	var ours []byte
	for i, name := range []string{o.base, o.ours, o.theirs} {
		content, err := readBounded(name, seal.MaxFile)
		if err != nil {
			return fmt.Errorf("merge %q: %w", o.path, err)
		}
		if i == 1 {
			ours = content
		}
		if sides[i], err = plaintextOf(c.vault, o.path, content); err != nil {
			return err
		}
	}
	merged, conflicts, err := values.Merge(o.path, sides[0], sides[1], sides[2])
	if err != nil {
		return fmt.Errorf("merge %q: %w", o.path, err)
	}
	sealed, moved, err := c.vault.Keep(o.path, merged, ours)
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

// plaintextStrict is plaintextOf for a file that must be where it was sealed for.
func plaintextStrict(v *vault.Vault, path string, content []byte) ([]byte, error) {
	if !seal.IsSealed(content) {
		return content, nil
	}
	return v.Open(path, content)
}
