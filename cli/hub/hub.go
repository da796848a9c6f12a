// Package hub owns the commands around the hub's process.
package hub

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
)

// NewCmdHub is `plural hub`.
func NewCmdHub(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "hub",
		Short:   "Install, run and reach the hub",
		Example: cmdutil.Example("plural hub serve --repo https://git.example.com/fleet.git --data /var/lib/plural", "plural hub status"),
	}, newCmdServe(f, nil), newCmdStatus(f), newCmdInstall(f), newCmdUpgrade(f), newCmdOpen(f), newCmdHint(f), newCmdToken(f))
}

// newCmdHint is what a git host's hook runs.
func newCmdHint(f *cmdutil.Factory) *cobra.Command {
	var tokenFile, url string
	cmd := &cobra.Command{
		Use:   "hint",
		Short: "Tell the hub that somebody pushed",
		Long: "Tell the hub that somebody pushed.\n\nThe hub looks at its repositories at once instead of at the next interval. " +
			"Nothing depends on it.",
		Example: cmdutil.Example("plural hub hint", "plural hub hint --url https://hub.example.com --token-file token"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return hint(cmd.Context(), f, url, tokenFile)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "the hub's `URL` (default as for every command)")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "the `FILE` that holds the token of a user with the verb hint")
	return cmd
}

func hint(ctx context.Context, f *cmdutil.Factory, url, tokenFile string) error {
	if url != "" {
		f.Hub = url
	}
	url, err := f.HubAddress()
	if err != nil {
		return err
	}
	token, err := hintToken(f, url, tokenFile)
	if err != nil {
		return err
	}
	hub, err := f.HubAt(url, token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	return hub.Hint(ctx)
}

// hintTimeout keeps a hook, which somebody's push may wait for, short.
const hintTimeout = 5 * time.Second

func hintToken(f *cmdutil.Factory, url, file string) (string, error) {
	if file != "" {
		if err := cmp.Or(f.CheckNamed(url, "the token of --token-file"), f.CheckPlain(url)); err != nil {
			return "", err
		}
		token, err := readSecret(file)
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		return string(token), nil
	}
	token, err := f.HubToken(url)
	if err == nil && token == "" {
		err = errors.New("no token is known for this hub: plural hub hint --token-file FILE")
	}
	return token, err
}

// readSecret reads a file that holds one word.
func readSecret(file string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	return bytes.TrimSpace(raw), err
}
