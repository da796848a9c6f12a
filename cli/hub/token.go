package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace/fleet"
)

func newCmdToken(f *cmdutil.Factory) *cobra.Command {
	return &cobra.Command{
		Use:   "token FILE",
		Short: "Write a new token of the operator's to a file",
		Long: "Write a new token of the operator's to a file: the one of --token-file, where the hub runs.\n\n" +
			"It is good for 90 days, and for emergencies: users log in with their own, see plural auth token create. A hub that\n" +
			"runs takes it up within seconds, and from then on refuses the former one. All replicas need the same. In a cluster\n" +
			"plural up --context renews it.",
		Example: cmdutil.Example("plural hub token ../token", "plural hub token ../hub.token"),
		Args:    cmdutil.Exactly("FILE"),
		RunE:    func(_ *cobra.Command, args []string) error { return writeToken(f, args[0]) },
	}
}

func writeToken(f *cmdutil.Factory, file string) error {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("write token: %w", err)
	}
	defer root.Close()
	expires := f.Now().Add(fleet.OperatorLifetime)
	if err := replace.File(root, filepath.Base(file), []byte(fleet.NewOperatorToken(expires)+"\n"), 0o600); err != nil {
		return fmt.Errorf("write token: %w", err)
	}
	f.Say("%s holds a new token, good until %s", ui.Clean(file), expires.UTC().Format(time.DateOnly))
	return nil
}
