// Package hub owns the commands around the hub's process.
package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/hubsvc"
	"github.com/pluralsh/plural/internal/lifeline"
)

// NewCmdHub is `plural hub`.
func NewCmdHub(f *cmdutil.Factory) *cobra.Command {
	return cmdutil.Noun(&cobra.Command{
		Use:     "hub",
		Short:   "Run and reach the hub",
		GroupID: cmdutil.GroupServers,
		Example: cmdutil.Example("plural hub serve --repo https://git.example.com/fleet.git --data /var/lib/plural"),
	}, newCmdServe(f, nil), newCmdHint(f))
}

type serveOptions struct {
	hubsvc.Options
	withParent bool
	factory    *cmdutil.Factory
}

func newCmdServe(f *cmdutil.Factory, runF func(*serveOptions) error) *cobra.Command {
	o := &serveOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a fleet from its installation repo",
		Long: "Serve a fleet from its installation repo.\n\n" +
			"The hub fetches the repo, works out what every cluster should run, and answers agents and people on one\n" +
			"port. All that it keeps below --data can be deleted: it is rebuilt from git and from the agents' reports.",
		Example: cmdutil.Example(
			"plural hub serve --repo https://git.example.com/fleet.git --data /var/lib/plural --tls-cert tls.crt --tls-key tls.key",
			"plural hub serve --repo file:///srv/fleet.git --allow-file-sources --data ./hub --listen 127.0.0.1:8080",
		),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(o)
			}
			return serve(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Repo, "repo", "", "the installation repo's `URL` (required)")
	flags.StringVar(&o.Branch, "branch", "main", "the `BRANCH` that is the fleet's desired state")
	flags.StringVar(&o.Data, "data", "", "the `FOLDER` for mirrors, bundles and observed state (required)")
	flags.StringVar(&o.Listen, "listen", ":8080", "the `ADDRESS` for agents and people")
	flags.StringVar(&o.Options.URL, "url", "", "the `URL` by which agents know the hub (default spec.hub.url of plural.yaml)")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "the certificate `FILE`, PEM")
	flags.StringVar(&o.TLSKey, "tls-key", "", "the certificate's key `FILE`, PEM")
	flags.StringVar(&o.TokenFile, "token-file", "", "the `FILE` of the token for people's tools (default DATA/token, made when missing)")
	flags.DurationVar(&o.Interval, "interval", 2*time.Minute, "the wait between two fetches of a repository")
	flags.DurationVar(&o.Terms.PollInterval, "poll-interval", 30*time.Second, "the wait between two polls of an agent")
	flags.DurationVar(&o.Terms.ReportInterval, "report-interval", time.Minute, "the longest silence of an agent")
	flags.Int64Var(&o.CacheBytes, "cache-bytes", 2<<30, "how many bytes of bundles are kept on disk")
	flags.BoolVar(&o.AllowFile, "allow-file-sources", false, "let repositories be folders of this machine")
	flags.BoolVar(&o.withParent, "with-parent", false, "end when standard input does")
	_ = flags.MarkHidden("with-parent")
	return cmd
}

func serve(ctx context.Context, o *serveOptions) error {
	switch {
	case o.Repo == "":
		return &ui.Err{Msg: "which repo?", Fix: "--repo URL"}
	case o.Data == "":
		return &ui.Err{Msg: "where may the hub keep its data?", Fix: "--data FOLDER"}
	case (o.TLSCert == "") != (o.TLSKey == ""):
		return &ui.Err{Msg: "a certificate and its key belong together", Fix: "give both --tls-cert and --tls-key, or none behind an ingress"}
	case o.Interval <= 0 || o.Terms.PollInterval <= 0 || o.Terms.ReportInterval <= 0:
		return &ui.Err{Msg: "intervals are longer than nothing", Fix: "for example --interval 2m"}
	}
	if o.TokenFile == "" {
		o.TokenFile = filepath.Join(o.Data, "token")
	}
	if o.withParent {
		ctx = lifeline.Bind(ctx, os.Stdin)
	}
	o.Log = o.factory.Logger()
	return hubsvc.Run(ctx, o.Options)
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
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return hint(cmd.Context(), f, url, tokenFile)
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "the hub's `URL` (default as for every command)")
	cmd.Flags().StringVar(&tokenFile, "token-file", "", "the `FILE` that holds the hub's token")
	return cmd
}

func hint(ctx context.Context, f *cmdutil.Factory, url, tokenFile string) error {
	if url == "" {
		var err error
		if url, err = f.HubAddress(); err != nil {
			return err
		}
	}
	token, err := hintToken(f, url, tokenFile)
	if err != nil {
		return err
	}
	hub, err := client.New(url, token, f.Version)
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
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read token: %w", err)
		}
		return strings.TrimSpace(string(raw)), nil
	}
	if token := f.Getenv("PLURAL_TOKEN"); token != "" {
		return token, nil
	}
	token, err := f.Hosts().Token(url)
	if err == nil && token == "" {
		err = errors.New("no token is known for this hub: plural hub hint --token-file FILE")
	}
	return token, err
}
