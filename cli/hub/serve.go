package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/hubsvc"
	"github.com/pluralsh/plural/hubsvc/committer"
	"github.com/pluralsh/plural/hubsvc/replica"
	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/internal/parentwatch"
)

type serveOptions struct {
	hubsvc.Options
	cluster    replica.Options
	repoKeys   []string
	signingKey string
	repoAuth   string
	edits      bool
	editAuth   string
	identity   string
	hookSecret string
	withParent bool
	factory    *cmdutil.Factory
}

func newCmdServe(f *cmdutil.Factory, runF func(*serveOptions) error) *cobra.Command {
	o := &serveOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a fleet from its installation repo",
		Long: "Serve a fleet from its installation repo.\n\n" +
			"The hub fetches the repo and its sources, works out what every cluster should run, and answers agents and\n" +
			"people on one port. What it keeps below --data is rebuilt from git and from the agents' reports, all but the audit\n" +
			"log and the notifications in files. With --replica it is one of several processes that share the work and take\n" +
			"over from each other.",
		Example: cmdutil.Example(
			"plural hub serve --repo https://git.example.com/fleet.git --data /var/lib/plural --tls-cert tls.crt --tls-key tls.key",
			"plural hub serve --repo ssh://git@git.example.com/fleet.git --repo-credentials /etc/plural/git --data /var/lib/plural",
			"plural hub serve --repo file:///srv/fleet.git --allow-file-sources --data ./hub --listen 127.0.0.1:8080",
		),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(o)
			}
			return serve(cmd.Context(), o)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

func (o *serveOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Repo, "repo", "", "the installation repo's `URL` (required)")
	flags.StringVar(&o.Branch, "branch", "main", "the `BRANCH` that is the fleet's desired state")
	flags.StringVar(&o.repoAuth, "repo-credentials", "", "the `FOLDER` with the repo's credentials, a file each: username, password, bearerToken, identity, known_hosts, ca.crt")
	flags.BoolVar(&o.edits, "edits", false, "commit and push: what people ask for by way of the API, clusters that join, upgrades of packages")
	flags.StringVar(&o.AgentImage, "agent-image", "", "the `IMAGE` that clusters which join by a token start their agents from (default the one of package agent, else of this version)")
	flags.StringVar(&o.editAuth, "edit-credentials", "", "the `FOLDER` with credentials that may push to the repo, for --edits (default: what the URL holds)")
	flags.StringSliceVar(&o.repoKeys, "repo-keys", nil, "public key `FILES`: only commits signed by one of them are served")
	flags.StringVar(&o.RepoDescendsFrom, "repo-descends-from", "", "with --repo-keys: the `COMMIT` that the branch has to come out of")
	flags.BoolVar(&o.RepoFollowRewinds, "repo-follow-rewinds", false, "with --repo-keys: follow a branch that left what was verified of it")
	flags.StringVar(&o.signingKey, "signing-key", "",
		"the private SSH key `FILE` by which the hub signs its commits, for --edits beside --repo-keys")
	flags.StringVar(&o.Data, "data", "", "the `FOLDER` for mirrors, bundles and observed state (required)")
	flags.StringVar(&o.Listen, "listen", ":8080", "the `ADDRESS` for agents and people")
	flags.StringVar(&o.Options.URL, "url", "", "the `URL` by which agents know the hub (default spec.hub.url of plural.yaml)")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "the certificate `FILE`, PEM")
	flags.StringVar(&o.TLSKey, "tls-key", "", "the certificate's key `FILE`, PEM")
	flags.StringVar(&o.TokenFile, "token-file", "", "the `FILE` of the operator's token (default DATA/token, made when missing)")
	flags.StringVar(&o.hookSecret, "hook-secret-file", "", "the `FILE` of the secret that git hosts sign their webhooks with")
	flags.StringVar(&o.identity, "identity", "", "the `FILE` of the hub's age identity, which opens the credentials of sources (default $PLURAL_IDENTITY)")
	flags.DurationVar(&o.Interval, "interval", 2*time.Minute, "the wait between two fetches of a repository")
	flags.DurationVar(&o.Terms.PollInterval, "poll-interval", 30*time.Second, "the wait between two polls of an agent")
	flags.DurationVar(&o.Terms.ReportInterval, "report-interval", time.Minute, "the longest silence of an agent")
	flags.Int64Var(&o.CacheBytes, "cache-bytes", 2<<30, "how many bytes of bundles are kept on disk")
	flags.Int64Var(&o.MaxFileBytes, "max-file-bytes", hubsvc.DefaultMaxFile,
		"how large a file may be that a service reads; larger ones are not fetched, and a service that reads one is held")
	flags.DurationVar(&o.DrainDelay, "drain-delay", 0, "how long to answer on, not ready any more, after being asked to stop")
	flags.DurationVar(&o.DrainGrace, "drain-grace", 30*time.Second, "how long sessions into clusters may go on after being asked to stop")
	flags.BoolVar(&o.AllowFile, "allow-file-sources", false, "let repositories be folders of this machine")
	flags.BoolVar(&o.AllowLoopback, "allow-loopback", false, "let sources and sinks be servers of this machine")
	flags.BoolVar(&o.withParent, "with-parent", false, "end when standard input does")
	_ = flags.MarkHidden("with-parent")
	o.clusterFlags(flags)
}

// clusterFlags are for a hub of several replicas.
func (o *serveOptions) clusterFlags(flags *pflag.FlagSet) {
	c := &o.cluster
	flags.StringVar(&c.Name, "replica", "", "this replica's `NAME` among several of one hub; it stays over restarts")
	flags.StringVar(&c.Listen, "cluster-listen", "", "the `ADDRESS` at which replicas meet")
	flags.StringSliceVar(&c.Routes, "cluster-routes", nil, "where the other replicas meet, as `HOST:PORT,...`")
	flags.StringVar(&c.PeerListen, "peer-listen", "", "the `ADDRESS` at which replicas fetch mirrors and bundles from this one")
	flags.StringVar(&c.PeerURL, "peer-address", "", "how the other replicas reach it, as `HOST:PORT` (default --peer-listen)")
	flags.StringVar(&c.Cert, "cluster-cert", "", "the certificate `FILE` by which replicas know this one, PEM")
	flags.StringVar(&c.Key, "cluster-key", "", "that certificate's key `FILE`, PEM")
	flags.StringVar(&c.CA, "cluster-ca", "", "the `FILE` of the CA of all replicas' certificates, PEM")
	flags.StringVar(&c.NATS, "nats", "", "the `URL` of NATS servers that are there already, instead of embedded ones")
	flags.StringVar(&c.NATSCredentials, "nats-credentials", "", "the credentials `FILE` for those servers")
	flags.DurationVar(&c.LeaseTTL, "lease-ttl", 0, "how long a replica that is gone keeps its part (default 12s)")
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
	case o.MaxFileBytes < hubsvc.LeastMaxFile || o.MaxFileBytes > hubsvc.MostMaxFile:
		return &ui.Err{
			Msg: fmt.Sprintf("a file of %d bytes is no good limit", o.MaxFileBytes),
			Fix: fmt.Sprintf("--max-file-bytes from %d to %d, which is what a service's files may have together",
				int64(hubsvc.LeastMaxFile), int64(hubsvc.MostMaxFile)),
		}
	case o.cluster.Name == "" && (o.cluster.Listen != "" || o.cluster.NATS != "" || o.cluster.PeerListen != ""):
		return &ui.Err{Msg: "which of the replicas is this?", Fix: "--replica NAME"}
	}
	if (o.edits || o.editAuth != "") && len(o.repoKeys) > 0 && o.signingKey == "" {
		return &ui.Err{
			Msg: "the hub's own commits would be refused: it has no key to sign them with",
			Fix: "--signing-key FILE, made by: ssh-keygen -t ed25519 -N '' -f FILE",
		}
	}
	if (o.RepoDescendsFrom != "" || o.RepoFollowRewinds) && len(o.repoKeys) == 0 {
		return &ui.Err{Msg: "what the branch comes out of is judged with its signatures", Fix: "give --repo-keys FILES too"}
	}
	if o.cluster.Name != "" && o.TokenFile == "" {
		return &ui.Err{Msg: "replicas need one token of the operator's", Fix: "--token-file FILE, with the same content for all of them"}
	}
	if o.TokenFile == "" {
		o.TokenFile = filepath.Join(o.Data, "token")
	}
	if o.cluster.Name != "" {
		o.Cluster = &o.cluster
		if o.cluster.PeerURL == "" {
			o.cluster.PeerURL = o.cluster.PeerListen
		}
	}
	if err := o.readFiles(); err != nil {
		return err
	}
	if o.withParent {
		ctx = parentwatch.Bind(ctx, os.Stdin)
	}
	o.Log = o.factory.Logger()
	return hubsvc.Run(ctx, o.Options)
}

// readFiles reads what the flags name.
func (o *serveOptions) readFiles() (err error) {
	if o.repoAuth != "" {
		if o.RepoCredentials, err = httpclient.ReadCredentials(o.repoAuth); err != nil {
			return err
		}
	}
	if o.edits || o.editAuth != "" {
		o.Edits = new(committer.Edits)
	}
	if o.editAuth != "" {
		if o.Edits.Credentials, err = httpclient.ReadCredentials(o.editAuth); err != nil {
			return err
		}
	}
	if o.signingKey != "" {
		if o.Edits == nil {
			return &ui.Err{Msg: "a signing key is for commits, and this hub makes none", Fix: "--edits, or leave out --signing-key"}
		}
		o.Edits.SigningKey, err = os.ReadFile(o.signingKey)
		if errors.Is(err, fs.ErrNotExist) {
			return &ui.Err{
				Msg: "no signing key in " + o.signingKey,
				Fix: "ssh-keygen -t ed25519 -N '' -f " + o.signingKey + "; for a hub in a cluster run plural up --context once more",
			}
		}
		if err != nil {
			return fmt.Errorf("read signing key: %w", err)
		}
	}
	for _, name := range o.repoKeys {
		key, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read key of the repo: %w", err)
		}
		o.RepoKeys = append(o.RepoKeys, key)
	}
	if o.hookSecret != "" {
		if o.HookSecret, err = readSecret(o.hookSecret); err != nil {
			return fmt.Errorf("read hook secret: %w", err)
		}
	}
	source := identities.Source{Getenv: o.getenv}
	if source.Given() == "" {
		return nil
	}
	if _, err := os.Stat(o.identity); o.identity != "" && errors.Is(err, fs.ErrNotExist) {
		return &ui.Err{Msg: "no identity in " + o.identity, Fix: "age-keygen -o " + o.identity, Doc: ui.DocIdentity}
	}
	o.Identities = source.Load
	return nil
}

// getenv lets the flag stand for the environment's variable.
func (o *serveOptions) getenv(name string) string {
	switch {
	case o.identity == "":
		return o.factory.Getenv(name)
	case name == identities.EnvFile:
		return o.identity
	}
	return ""
}
