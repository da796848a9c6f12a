package hub

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/install"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/workspace"
)

func newCmdInstall(f *cmdutil.Factory) *cobra.Command {
	in := install.New(f, pkg.Hub())
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the hub on the management cluster",
		Long: `Install the hub on the management cluster, which spec.management of plural.yaml
names.

Where the installation repo lacks the package hub, it is added: the change is shown,
committed and pushed. Then it is deployed, as plural deploy hub does. A fleet that
has nothing yet is brought up as a whole by plural up --context.`,
		Example: cmdutil.Example(
			"plural hub install --context mgmt",
			"plural hub install --set replicas=3 --set ingress=true --set host=hub.example.com",
			"plural hub install --dry-run"),
		Args: cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, err := f.Repo()
			if err != nil {
				return err
			}
			w, err := cmdutil.Manifest(repo)
			if err != nil {
				return err
			}
			if w.Spec.Management == "" {
				return &ui.Err{
					Msg: "nothing says on which cluster the hub runs", Cause: "plural.yaml has no spec.management",
					Fix: "write a cluster's name there, or bring up a whole fleet: plural up --context CONTEXT", Doc: ui.DocNoHub,
				}
			}
			return in.Run(cmd.Context(), repo, w.Spec.Management, "plural hub install")
		},
	}
	in.Flags(cmd.Flags())
	return cmd
}

func newCmdUpgrade(f *cmdutil.Factory) *cobra.Command {
	upgrade := pkg.NewUpgrade(f)
	var wait bool
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Bring the hub to a newer version, as a commit",
		Long: `Bring the hub to a newer version, as a commit: plural package upgrade for those
installations that are hubs.

With the commit the agent of the management cluster replaces the hub. Where none
does so, plural deploy hub does. --wait waits until the hub says that it is of the
new version.`,
		Example: cmdutil.Example("plural hub upgrade --dry-run", "plural hub upgrade --to 0.2.0 --wait", "plural hub upgrade --pr"),
		Args:    cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			repo, err := f.Repo()
			if err != nil {
				return err
			}
			names, err := pkg.Installed(repo, pkg.HubPackage)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return &ui.Err{Msg: "the installation repo has no hub", Fix: "plural hub install", Doc: ui.DocNotFound}
			}
			made, err := upgrade.Run(cmd.Context(), names)
			if err != nil || !wait || made.Pushed == "" {
				return err
			}
			return await(cmd.Context(), f, repo, names[0])
		},
	}
	upgrade.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the hub says that it is of the new version")
	return cmd
}

// await waits until the hub is of the version that the repo has of an installation.
func await(ctx context.Context, f *cmdutil.Factory, repo *workspace.Repo, name string) error {
	want, err := pkg.Version(repo, name)
	if err != nil {
		return err
	}
	hub, err := f.HubClient()
	if err != nil {
		return err
	}
	last := ""
	look := func(ctx context.Context) (bool, error) {
		h, err := hub.Hub(ctx)
		if err != nil {
			return false, err
		}
		if h.Version != last {
			f.Say("the hub is of version %s", ui.Clean(h.Version))
		}
		last = h.Version
		return strings.TrimPrefix(last, "v") == strings.TrimPrefix(want, "v"), nil
	}
	return waitfor.Until(ctx, f, look, func() error {
		told := &ui.Err{
			Msg: fmt.Sprintf("the upgrade to %s is pushed, and the hub does not answer", want),
			Fix: "plural status; where no agent looks after the hub: plural deploy " + name, Doc: ui.DocNotConverged, Code: ui.ExitPending,
		}
		if last != "" {
			told.Msg = fmt.Sprintf("the upgrade to %s is pushed, and the hub is still of version %s", want, ui.Clean(last))
		}
		return told
	})
}
