// Package install owns the installation of one package with a single command.
//
// It refuses to know how packages are added and how they are deployed: cli/pkg and cli/deploy do. What the repo lacks is added to
// it by a change that is shown and pushed as far as the person wants; what is pushed is deployed, on the cluster of a context.
package install

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/deploy"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/packs"
)

// Install is one package on its way.
type Install struct {
	// Making is how far the change of the repo is carried, where there is one.
	Making change.CommitOptions
	// Way is how the cluster is reached.
	ClusterFlags
	wanted  packs.Wanted
	set     []string
	answers string
}

// ClusterFlags is how a person says which cluster is meant.
type ClusterFlags struct {
	Kubeconfig, Context string
}

// Flags declares them.
func (w *ClusterFlags) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&w.Kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` (default as for kubectl)")
	flags.StringVar(&w.Context, "context", "", "the kubeconfig's `CONTEXT` (default: as plural deploy reaches the cluster)")
}

// New installs what is wanted.
func New(f *cmdutil.Factory, wanted packs.Wanted) *Install {
	return &Install{Making: change.CommitOptions{Factory: f, Unobserved: true}, wanted: wanted}
}

// Flags declares what a person may say of it.
func (i *Install) Flags(flags *pflag.FlagSet) {
	i.ClusterFlags.Flags(flags)
	i.Making.Flags(flags)
	i.AnswerFlags(flags)
}

// AnswerFlags declares the answers alone.
func (i *Install) AnswerFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&i.set, "set", nil, "answer a question of a package that is added: `NAME=VALUE`; may be repeated")
	flags.StringVar(&i.answers, "answers", "", "a `FILE` of such answers in YAML; - is stdin")
}

// Run adds the package where the repo lacks it, and deploys it for the cluster; command is what the person ran. only are the
// installations that are meant where the repo has the package already; none are the one of the package's name.
func (i *Install) Run(ctx context.Context, repo *workspace.Repo, cluster, command string, only ...string) error {
	f := i.Making.Factory
	if len(only) == 0 {
		only = []string{i.wanted.Name}
		added, made, err := pkg.Put(ctx, f, repo, &i.Making, i.wanted, i.set, i.answers)
		if err != nil {
			return err
		}
		if added && i.Making.DryRun {
			f.Say("then %s is deployed on %s", i.wanted.Name, ui.Clean(cluster))
			return nil
		}
		if added && made.Pushed == "" {
			f.Say("nothing is deployed: once that is on the branch: %s", command)
			return nil
		}
	}
	choice := deploy.Choice{Only: only, Kubeconfig: i.Kubeconfig}
	if i.Context != "" {
		choice.Contexts = []string{cluster + "=" + i.Context}
	}
	if !i.Making.DryRun {
		i.remember(repo, cluster)
	}
	return deploy.Carry(ctx, f, repo, choice, deploy.RunOptions{Command: command, DryRun: i.Making.DryRun})
}

// remember has later deploys reach the cluster the same way. Without it they are told.
func (i *Install) remember(repo *workspace.Repo, cluster string) {
	if i.Context == "" {
		return
	}
	f := i.Making.Factory
	_, way, err := clusters.Named(i.Kubeconfig, i.Context)
	if err == nil {
		err = clusters.Locator{Root: repo.Root(), Config: f.ConfigDir()}.Remember(cluster, way)
	}
	if err != nil {
		f.Say("%v: say --context %s=CONTEXT when it is needed", err, ui.Clean(cluster))
	}
}
