package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/agent/identity"
	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/install"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/completions"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// NewCmdAgentInstall is `plural agent install`.
func NewCmdAgentInstall(f *cmdutil.Factory) *cobra.Command {
	in := install.New(f, pkg.Agent())
	o := &registerOptions{factory: f, CommitOptions: change.CommitOptions{Factory: f}, noAgent: true}
	cmd := &cobra.Command{
		Use:   "install NAME",
		Short: "Put an agent on a cluster of the fleet",
		Long: `Put an agent on a cluster of the fleet.

A cluster that has no keys yet is registered first, as plural cluster register does.
Where no package of the installation repo puts an agent there, the package agent is
added, for every cluster but those with the tag agent=none: the change is shown,
committed and pushed. Then it is deployed, for this cluster and for all that it
is meant for besides.`,
		Example: cmdutil.Example(
			"plural agent install edge-1 --context edge-1",
			"plural agent install edge-1 --context edge-1 --dry-run"),
		Args:              cmdutil.Exactly("NAME"),
		ValidArgsFunction: cmdutil.Complete(f, completions.Clusters),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name, o.kubeconfig, o.context = args[0], in.Kubeconfig, in.Context
			o.DryRun = in.Making.DryRun
			return o.install(cmd.Context(), in)
		},
	}
	flags := cmd.Flags()
	in.ClusterFlags.Flags(flags)
	in.AnswerFlags(flags)
	flags.BoolVar(&in.Making.DryRun, "dry-run", false, "show what would be done, and do nothing")
	flags.StringToStringVar(&o.tags, "tag", nil, "a tag of a new cluster, `KEY=VALUE`; may be repeated")
	flags.StringVar(&o.hubCA, "hub-ca", "", "the `FILE` with the certificates that the agent trusts for the hub, PEM (default the system's)")
	return cmd
}

// install registers the cluster where that is missing, and puts the agent there.
func (o *registerOptions) install(ctx context.Context, in *install.Install) error {
	f := o.factory
	repo, loaded, err := f.Fleet()
	if err != nil {
		return err
	}
	c, known := loaded.Cluster(o.name)
	if !known {
		c = &fleet.Cluster{}
		c.Metadata.Name, c.Spec.Tags = o.name, o.tags
	}
	if err := noAgentFor(loaded, c); err != nil {
		return err
	}
	if known && c.Spec.Agent != (fleet.AgentKeys{}) {
		err = o.hasKeys(ctx, c)
	} else if err = o.run(ctx); err == nil && o.DryRun {
		o.factory.Say("then its agent is deployed")
		return nil
	}
	if err != nil {
		return err
	}
	return in.Run(ctx, repo, o.name, "plural agent install "+o.name, agentsFor(loaded, c)...)
}

// noAgentFor refuses a cluster on which no package puts an agent, neither one of the repo nor the one that would be added.
func noAgentFor(f *fleet.Fleet, c *fleet.Cluster) error {
	_, has := f.Installation(pkg.AgentPackage)
	if len(agentsFor(f, c)) > 0 || !has && pkg.Agent().Clusters.Matches(c) {
		return nil
	}
	cause, name := "the one that is there is for other clusters", c.Metadata.Name
	if !has {
		cause = "the tag agent=" + c.Spec.Tags["agent"] + " says that it runs none of these"
	}
	return &ui.Err{
		Msg: "no package of the repo puts an agent on cluster " + name, Cause: ui.Clean(cause),
		Fix: "add one that is for it: plural package add agent --as agent-" + name + " --clusters " + name, Doc: ui.DocNotFound,
	}
}

// hasKeys refuses a cluster without the keys that its file has the public halves of: its agent would be turned away.
func (o *registerOptions) hasKeys(ctx context.Context, c *fleet.Cluster) error {
	kube, _, err := o.kube()
	if err != nil {
		return err
	}
	has, err := identity.Read(ctx, kube)
	again := "plural cluster register " + o.name
	if o.context != "" {
		again += " --context " + o.context
	}
	missing := new(identity.Missing)
	switch {
	case errors.As(err, &missing):
		return &ui.Err{
			Msg: fmt.Sprintf("cluster %s is registered, and does not have its keys", o.name), Fix: again + " makes new ones",
			Doc: ui.DocNoWay, Err: err,
		}
	case err != nil:
		return err
	case has.Cluster != o.name:
		return &ui.Err{
			Msg: fmt.Sprintf("what is reached has other keys than cluster %s", o.name), Cause: "it has those of cluster " + ui.Clean(has.Cluster),
			Fix: "name the right context, or: " + again + " makes new ones", Doc: ui.DocNoWay,
		}
	case has.Identity.Public().Auth != c.Spec.Agent.Auth:
		return &ui.Err{
			Msg:   fmt.Sprintf("what is reached has other keys than cluster %s", o.name),
			Cause: "they are of that name, and their public halves are not those of " + register.Path(o.name),
			Fix:   "git pull, where they were made anew elsewhere; else: " + again + " makes new ones", Doc: ui.DocNoWay,
		}
	}
	return nil
}

// NewCmdAgentUpgrade is `plural agent upgrade`.
func NewCmdAgentUpgrade(f *cmdutil.Factory) *cobra.Command {
	cmd := newCmdUpgradeAgents(f)
	cmd.Use = "upgrade [CLUSTER...]"
	cmd.Short = "Bring agents to a newer version, as a commit"
	cmd.Long = `Bring agents to a newer version, as a commit: those of the named clusters, or all.

` + aboutAgents + `

plural cluster upgrade is the same command.`
	cmd.Example = cmdutil.Example("plural agent upgrade --dry-run", "plural agent upgrade edge-1 --to 0.2.0")
	return cmd
}

// newCmdUpgrade is `plural cluster upgrade`.
func newCmdUpgrade(f *cmdutil.Factory) *cobra.Command {
	cmd := newCmdUpgradeAgents(f)
	cmd.Use = "upgrade CLUSTER..."
	cmd.Short = "Bring clusters' agents to a newer version, as a commit"
	cmd.Long = `Bring the agents of clusters to a newer version, as a commit. It is plural agent
upgrade under another name.

` + aboutAgents + `

The version of Kubernetes is an answer of the package that made the cluster, where
one did: plural package set NAME version=VERSION, then plural deploy NAME.`
	cmd.Example = cmdutil.Example("plural cluster upgrade edge-1 --dry-run", "plural cl upgrade edge-1 edge-2 --to 0.2.0")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &ui.Err{Msg: "CLUSTER is missing", Fix: cmd.UseLine() + "; all of them: plural agent upgrade", Doc: ui.DocUsage}
		}
		return nil
	}
	return cmd
}

const aboutAgents = `The packages are upgraded that put these agents there, as plural package upgrade
does. One package may do so for more clusters than were named: you are asked
whether these are meant too. With the commit an agent replaces itself; one that may not,
for its package grants it little, is replaced by plural deploy.`

func newCmdUpgradeAgents(f *cmdutil.Factory) *cobra.Command {
	upgrade := pkg.NewUpgrade(f)
	cmd := &cobra.Command{
		ValidArgsFunction: cmdutil.CompleteEach(f, completions.Clusters),
		RunE: func(cmd *cobra.Command, args []string) error {
			repo, err := f.Repo()
			if err != nil {
				return err
			}
			names, besides, err := agentsOf(repo, args)
			if err != nil {
				return err
			}
			if len(besides) > 0 && !upgrade.DryRun() && !f.Yes {
				question := "The same package is that of " + cmdutil.Few(besides) + ": upgrade it there too?"
				yes, err := f.Prompter().Confirm(cmd.Context(), question, "--yes")
				if err == nil && !yes {
					err = context.Canceled
				}
				if err != nil {
					return err
				}
			} else if len(besides) > 0 {
				f.Say("note  the same package is that of %s", cmdutil.Few(besides))
			}
			_, err = upgrade.Run(cmd.Context(), names)
			return err
		},
	}
	upgrade.Flags(cmd.Flags())
	return cmd
}

// agentsOf are the installations of the agents of these clusters, of all where none is named, with the clusters that
// they are for besides.
func agentsOf(repo *workspace.Repo, named []string) (names, besides []string, err error) {
	loaded, err := fleet.Load(os.DirFS(repo.Root()))
	if err != nil {
		return nil, nil, err
	}
	if len(named) == 0 {
		if names, err = pkg.Installed(repo, pkg.AgentPackage); err == nil && len(names) == 0 {
			err = &ui.Err{Msg: "no package of the repo puts agents on clusters", Fix: "plural agent install NAME", Doc: ui.DocNotFound}
		}
		return names, nil, err
	}
	for _, name := range named {
		c, ok := loaded.Cluster(name)
		if !ok {
			return nil, nil, &ui.Err{Msg: fmt.Sprintf("no cluster %q in this repository", name), Fix: "ls clusters/", Doc: ui.DocNotFound}
		}
		found := agentsFor(loaded, c)
		if len(found) == 0 {
			return nil, nil, &ui.Err{
				Msg: fmt.Sprintf("no package of the repo puts an agent on cluster %s", name), Fix: "plural agent install " + name, Doc: ui.DocNotFound,
			}
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i := range loaded.Clusters {
		name := loaded.Clusters[i].Metadata.Name
		reached := slices.ContainsFunc(agentsFor(loaded, &loaded.Clusters[i]), func(one string) bool { return slices.Contains(names, one) })
		if reached && !slices.Contains(named, name) {
			besides = append(besides, name)
		}
	}
	return names, besides, nil
}
