// Package up owns the two commands that make a whole fleet come and go: up, down.
package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/cryptocmd"
	"github.com/pluralsh/plural/cli/local"
	"github.com/pluralsh/plural/cli/progress"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/identities"
	"github.com/pluralsh/plural/installer/converge"
	installer "github.com/pluralsh/plural/installer/local"
	"github.com/pluralsh/plural/workspace"
)

type options struct {
	factory  *cmdutil.Factory
	dir      string
	local    bool
	name     string
	clusters []string
	chosen   bool // clusters were named, and are not the default
	port     int
	ported   bool // so was the port
	named    bool // so was the folder
	existing existingOptions
}

// NewCmdUp is `plural up`.
func NewCmdUp(f *cmdutil.Factory, runF func(*options) error) *cobra.Command {
	o := &options{factory: f}
	cmd := &cobra.Command{
		Use:     "up {--local | --context CONTEXT} [DIR]",
		Short:   "Bring up a fleet, here or on a cluster that is there",
		GroupID: cmdutil.GroupStart,
		Long: "Bring up a fleet, with its installation repo in DIR (default: the one around the working directory, else ./fleet). Run it\n" +
			"again to go on where it was interrupted, or to bring a fleet back that is down. It waits until everything runs, but what is\n" +
			"suspended, ends when something fails, and gives up after --timeout (default 10m).\n\n" +
			"With --local everything is on this machine: a hub, a management cluster, two more. The clusters are real Kubernetes API\n" +
			"servers with simulated nodes: no containers run.\n\n" +
			"With --context the hub and an agent are installed on the cluster of that context: the repo is made and pushed to where\n" +
			"the hub fetches it from, the cluster gets its keys, the packages hub and agent are added to the repo and deployed. From\n" +
			"then on they are services like any other. plural cluster register brings in more clusters.\n\n" +
			"With --images hub and agent are those of a clone, where there is no release of them: the packages' answers image and tag name\n" +
			"what make images has packed, and nodes that lack it are named first, with the command that brings it there.",
		Example: cmdutil.Example("plural up --local", "plural up --local ./demo --port 9000",
			"plural up --context prod --hub-url https://hub.example.com --github acme/fleet",
			"plural up --context prod --hub-url https://hub.example.com --repo-url https://git.example.com/fleet.git --repo-credentials ./credentials --set hub.replicas=3 --no-input --yes",
			"plural up --context kind-home --hub-url http://192.0.2.10:30080 --github acme/fleet --images dist/images"),
		Args: cmdutil.AtMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir, o.chosen, o.ported = dirOf(f, args), cmd.Flags().Changed("clusters"), cmd.Flags().Changed("port")
			o.named = len(args) > 0 || f.Dir != ""
			if err := outside(o.dir); err != nil {
				return err
			}
			if runF != nil {
				return runF(o)
			}
			return run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.local, "local", false, "make the clusters on this machine")
	flags.StringVar(&o.name, "name", "", "the workspace's `NAME` (default the folder's)")
	flags.StringSliceVar(&o.clusters, "clusters", []string{"mgmt", "edge-1", "edge-2"},
		"the clusters' `NAMES`, the management cluster first; without it, those of the last up")
	e := &o.existing
	flags.StringVar(&e.context, "context", "", "install on the cluster of this kubeconfig `CONTEXT`")
	flags.StringVar(&e.kubeconfig, "kubeconfig", "", "with --context: the kubeconfig `FILE` (default as for kubectl)")
	flags.StringVar(&e.cluster, "cluster", "", "with --context: what the fleet calls that cluster, its `NAME` (default mgmt)")
	flags.StringVar(&e.hubURL, "hub-url", "", "with --context: the `URL` by which agents and people will reach the hub")
	flags.StringVar(&e.repoURL, "repo-url", "", "with --context: the `URL` from which the hub fetches the repo")
	flags.StringVar(&e.github, "github", "",
		"with --context: make the repo on GitHub as `OWNER/NAME`, with a deploy key and a webhook for the hub")
	flags.StringVar(&e.read, "repo-credentials", "",
		"with --context: the `FOLDER` with what the hub reads the repo with, a file each, as for plural hub serve")
	flags.StringVar(&e.push, "edit-credentials", "",
		"with --context: the `FOLDER` with what the hub pushes with, when it is to commit what people ask for")
	flags.StringVar(&e.hubCA, "hub-ca", "",
		"with --context: the `FILE` with the certificates to trust for the hub, PEM (default the system's)")
	flags.StringVar(&e.tlsCert, "tls-cert", "", "with --context: the certificate `FILE` of a hub that ends TLS itself, PEM")
	flags.StringVar(&e.tlsKey, "tls-key", "", "with --context: that certificate's key `FILE`, PEM")
	flags.StringArrayVar(&e.set, "set", nil,
		"with --context: an answer to a package's question, `PACKAGE.NAME=VALUE`; may be repeated")
	flags.StringVar(&e.answers, "answers", "",
		"with --context: answers to packages' questions from this YAML `FILE`, PACKAGE.NAME: VALUE; - is stdin")
	flags.StringVar(&e.images, "images", "",
		"with --context: the `DIR` with images of hub and agent that the nodes have, as make images writes it")
	cmd.MarkFlagsMutuallyExclusive("local", "context")
	cmd.MarkFlagsMutuallyExclusive("local", "images")
	flags.IntVar(&o.port, "port", 8080, "the hub's `PORT`; another is taken when it is in use, or another local fleet's")
	return cmd
}

// dirOf is the folder that is meant: the argument, the installation repo around the working directory, -C, or ./fleet.
func dirOf(f *cmdutil.Factory, args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	if repo, err := workspace.Find(f.WorkDir()); err == nil {
		return repo.Root()
	}
	return cmp.Or(f.Dir, "fleet")
}

// outside refuses a folder within an installation repo: its fleet would look like that of the repo around it.
func outside(dir string) error {
	at, err := installer.At(dir, cmdutil.LocalState())
	if err != nil {
		return err
	}
	around := at.Repo
	for around != filepath.Dir(around) {
		if _, err := os.Stat(around); err == nil {
			break
		}
		around = filepath.Dir(around)
	}
	repo, err := workspace.Find(around)
	if errors.Is(err, workspace.ErrNotFound) || err == nil && repo.Root() == at.Repo {
		return nil
	}
	if err != nil {
		return err
	}
	return &ui.Err{
		Msg: fmt.Sprintf("%s lies inside the installation repo %s", at.Repo, repo.Root()),
		Fix: "plural up --local " + repo.Root() + " brings that repo's fleet back; for another fleet name a folder outside of it",
		Doc: ui.DocLocal,
	}
}

func run(ctx context.Context, o *options) error {
	f := o.factory
	if o.existing.context != "" {
		return o.upExisting(ctx)
	}
	if !o.local {
		return &ui.Err{
			Msg: "where are the clusters to come from?",
			Fix: "plural up --local makes them on this machine, plural up --context CONTEXT takes one that is there",
		}
	}
	programs, err := local.FindPrograms()
	if err != nil {
		return err
	}
	identity, identityFile, err := identityOfHub(f)
	if err != nil {
		return err
	}
	at, err := installer.At(o.dir, cmdutil.LocalState())
	if err != nil {
		return err
	}
	if err := o.awayFromHome(at.Repo); err != nil {
		return err
	}
	o.tellOthers(at)
	if known, err := at.Members(); err != nil {
		return err
	} else if len(known) > 0 && !o.chosen {
		o.clusters = known
	}
	if o.name == "" {
		o.name = filepath.Base(at.Repo)
	}
	if f.Timeout == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("not up after %v", patience))
		defer cancel()
	}
	before, err := at.HubURL()
	if err != nil {
		return err
	}
	reporter := progress.New(f.IO, f.LogFormat, f.Now)
	ask := func(hub, token string) (*client.Client, error) {
		c, err := client.New(hub, token, f.Version)
		if err != nil {
			return nil, err
		}
		_, repository := at.Identity()
		c.Expect(repository)
		c.WhenSlow(func(string) {
			reporter.Detail("converged", fmt.Sprintf("the hub has not answered for %s", client.SlowAfter))
		})
		return c, nil
	}
	result, err := at.Up(ctx, installer.Options{
		Name: o.name, Clusters: o.clusters, Port: o.port,
		Plural: programs.Plural, Localkube: programs.Localkube, Agent: programs.Agent,
		Reporter: reporter, Keys: f.Keys(), Confirmed: f.Confirmed(), Identity: identity, IdentityFile: identityFile,
		Seal: func(ctx context.Context, repo *workspace.Repo) error {
			_, _, err := cryptocmd.Begin(ctx, f, repo)
			return err
		},
		Token: f.Hosts().Save,
		Status: func(ctx context.Context, hub, token string) (*v1.Status, error) {
			c, err := ask(hub, token)
			if err != nil {
				return nil, err
			}
			return c.Status(ctx)
		},
		List: func(ctx context.Context, hub, token string) ([]v1.Cluster, error) {
			c, err := ask(hub, token)
			if err != nil {
				return nil, err
			}
			return listed(ctx, c)
		},
	})
	reporter.Close()
	if err != nil {
		return explain(ctx, err, o.dir)
	}
	if o.ported && before != "" && !strings.HasSuffix(result.HubURL, fmt.Sprintf(":%d", o.port)) {
		f.Say("the hub stays at %s: --port is for a new fleet; spec.hub.url of plural.yaml says where this one's is", result.HubURL)
	}
	for _, line := range elsewhere(result.Elsewhere) {
		f.Say("%s", line)
	}
	return show(f, result, o.dir)
}

// awayFromHome refuses to make a repo of a person's home folder, or one in it that nobody named: who types the command in a new
// terminal may mean a fleet that is elsewhere.
func (o *options) awayFromHome(repo string) error {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err != nil || repo != home && (o.named || filepath.Dir(repo) != home) {
		return nil //nolint:nilerr // who has no home folder is not in it
	}
	if _, err := os.Stat(filepath.Join(repo, workspace.Manifest)); err == nil {
		return nil
	}
	return &ui.Err{
		Msg: "this is your home folder, and no installation repo", Cause: "the fleet's repo would be " + repo,
		Fix: "plural up --local DIR makes a fleet with its repo in DIR, or brings that one back; plural local list names those there are",
		Doc: ui.DocLocal,
	}
}

// tellOthers says which fleets run on this machine before one that does not run is brought up beside them.
func (o *options) tellOthers(at installer.Fleet) {
	if runs, err := at.Running(); err != nil || runs {
		return
	}
	others, err := at.Others(cmdutil.LocalState())
	if err != nil {
		return // nothing here needs them
	}
	for _, other := range others {
		o.factory.Say("another fleet runs on this machine, of %s; plural down %s ends it", ui.Clean(other.Repo), ui.Clean(other.Repo))
	}
}

// listed are all clusters of the fleet.
func listed(ctx context.Context, hub *client.Client) ([]v1.Cluster, error) {
	list, err := hub.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// elsewhere tells of clusters of the fleet that came to it by another way, and are not well: this command brings none of them up.
func elsewhere(list []v1.Problem) []string {
	const most = 3
	var lines []string
	for _, p := range list[:min(most, len(list))] {
		lines = append(lines, fmt.Sprintf("not waited for: %s; %s", converge.Say(v1.Problem{Message: p.Message}), p.Fix))
	}
	if rest := len(list) - most; rest > 0 {
		lines = append(lines, fmt.Sprintf("not waited for: %d more clusters; plural cluster list", rest))
	}
	return lines
}

// identityOfHub is the identity that the environment holds, which a local hub opens credentials of sources with, or the file that
// it names, which the hub reads itself.
func identityOfHub(f *cmdutil.Factory) (text, file string, err error) {
	switch f.Identities().Given() {
	case identities.EnvText:
		return f.Getenv(identities.EnvText), "", nil
	case identities.EnvFile:
		if file, err = filepath.Abs(f.Getenv(identities.EnvFile)); err != nil {
			return "", "", fmt.Errorf("find %s: %w", identities.EnvFile, err)
		}
		return "", file, nil
	case identities.EnvFD:
		return "", "", &ui.Err{
			Msg:   "the hub of this fleet cannot read " + identities.EnvFD,
			Cause: "the hub stays when this command has ended, and the descriptor does not",
			Fix:   "write the identity into a file that you alone can read, and name that in " + identities.EnvFile,
		}
	}
	return "", "", nil
}

// patience is how long a fleet may take to come up before it is said to hang, where --timeout says nothing. Slow machines take a few minutes.
const patience = 10 * time.Minute

func explain(ctx context.Context, err error, dir string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &ui.Err{
			Msg: "interrupted; what is up stays up", Fix: "plural up --local " + dir + " goes on, plural down " + dir + " ends it",
			Doc:  ui.DocInterrupted,
			Code: ui.ExitInterrupted, Err: err,
		}
	}
	if told := unwell(err, dir); told != nil {
		return told
	}
	told := &ui.Err{
		Msg: "the fleet did not come up", Cause: err.Error(),
		Fix: "mend that and run plural up --local " + dir + " again; plural down " + dir + " ends it",
		Doc: ui.DocFleetNotUp, Err: err,
	}
	var known interface {
		error
		Fix() string
	}
	if errors.As(err, &known) {
		told.Fix = known.Fix() + "\nthen run plural up --local " + dir + " again; plural down " + dir + " ends it"
	}
	return told
}

// unwell is the error where a fleet is up, and not everything is well on it; nil for all others.
func unwell(err error, dir string) error {
	var unwell *converge.UnwellError
	if !errors.As(err, &unwell) {
		return nil
	}
	told := &ui.Err{
		Msg: "the fleet is up, and not everything is well on it", Fix: "cd " + dir + " && plural status", Doc: ui.DocUnhealthy, Err: err,
	}
	if unwell.Err != nil {
		told.Msg, told.Doc, told.Code = "the fleet is up, and not everything on it was well in time", ui.DocNotConverged, ui.ExitPending
	}
	for _, p := range unwell.Problems {
		if p.Fix == "" && p.Service != "" {
			p.Fix = "plural why " + p.Service
		}
		told.Problems = append(told.Problems, ui.Problem{Message: converge.Say(p), Fix: p.Fix})
	}
	return told
}

// outcome is what up prints for programs.
type outcome struct {
	Repo   string     `json:"repo"`
	Hub    string     `json:"hub"`
	Status *v1.Status `json:"status"`
}

func show(f *cmdutil.Factory, result *installer.Result, dir string) error {
	printer, err := f.Printer("table")
	if err != nil {
		return err
	}
	return f.Print(printer, outcomeView(outcome{result.Fleet.Repo, result.HubURL, result.Status}, dir))
}

func outcomeView(o outcome, dir string) ui.View {
	return ui.View{
		Value: o,
		Names: []string{"hub/" + o.Hub},
		Screen: func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "hub   %s\nrepo  %s\n", o.Hub, o.Repo)
			return err
		},
		Note: fmt.Sprintf("next  cd %s && plural status", dir),
	}
}
