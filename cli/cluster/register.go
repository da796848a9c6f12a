package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"

	"github.com/pluralsh/plural/cli/change"
	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/waitfor"
	"github.com/pluralsh/plural/installer/clusters"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/rekey"
)

type registerOptions struct {
	change.CommitOptions
	factory             *cmdutil.Factory
	name                string
	kubeconfig, context string
	hubCA               string
	tags                map[string]string
	print, noAgent      bool
}

func newCmdRegister(f *cmdutil.Factory) *cobra.Command {
	o := &registerOptions{factory: f, CommitOptions: change.CommitOptions{Factory: f}}
	cmd := &cobra.Command{
		Use:   "register NAME",
		Short: "Let a cluster join the fleet",
		Long: "Let a cluster join the fleet.\n\n" +
			"Keys for its agent are made: the private halves go into the secret plural-system/plural-agent of the cluster, the\n" +
			"public halves into clusters/NAME.yaml, which is committed and pushed. Where the repository is sealed, the same commit\n" +
			"lets the cluster open what is sealed for the groups that its tags select. A cluster that is registered already gets\n" +
			"fresh keys, and its old ones are good for nothing once the hub has seen the commit. Then the agent is put there, where a\n" +
			"package of the repo does that for the cluster. With --pr, --no-push or --no-commit the cluster gets its keys all the same,\n" +
			"and the agent is turned away until the change is merged or pushed: of a registered cluster the old agent is too.\n\n" +
			"With --print nothing here touches the cluster: one line is printed, for whoever is the cluster's administrator to paste\n" +
			"within a quarter of an hour. It holds a token that is good once, for this cluster; the agent that it starts makes its own\n" +
			"keys, and the hub commits them. The hub has to run with --edits.",
		Example: cmdutil.Example("plural cluster register edge-1 --context edge-1", "plural cluster register edge-1 --tag env=prod --tag region=eu",
			"plural cluster register edge-1 --print"),
		Args: cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			if o.print {
				return o.invite(cmd.Context())
			}
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` (default as for kubectl)")
	flags.StringVar(&o.context, "context", "", "the kubeconfig's `CONTEXT` (default its current one)")
	flags.StringVar(&o.hubCA, "hub-ca", "", "the `FILE` with the certificates that the agent trusts for the hub, PEM (default the system's)")
	flags.StringToStringVar(&o.tags, "tag", nil, "a tag of a new cluster, `KEY=VALUE`; may be repeated")
	patientFlags(&o.CommitOptions, flags)
	flags.BoolVar(&o.noAgent, "no-agent", false, "leave the agent's installation to you")
	flags.BoolVar(&o.print, "print", false, "print a line that registers the cluster where it is pasted")
	for _, here := range []string{"kubeconfig", "context", "no-commit"} {
		cmd.MarkFlagsMutuallyExclusive("print", here)
	}
	return cmd
}

// patientFlags are a change's, where --wait is off unless it is asked for: a fleet's first cluster is registered before there is a hub.
func patientFlags(m *change.CommitOptions, flags *pflag.FlagSet) {
	m.Flags(flags)
	m.Wait = false
	wait := flags.Lookup("wait")
	wait.DefValue, wait.Usage = "false", "wait until the hub serves the change"
}

func (o *registerOptions) run(ctx context.Context) error {
	if err := workspace.CheckName(o.name); err != nil { // it becomes a file's name
		return fmt.Errorf("cluster %w", err)
	}
	c, err := open(ctx, o.factory, o.DryRun)
	if err != nil {
		return err
	}
	request, err := o.request(c)
	if err != nil {
		return err
	}
	kube, way, err := o.kube()
	if err != nil {
		return err
	}
	file, err := c.read(register.Path(o.name))
	if err != nil {
		return err
	}
	var note string
	request.Parameters, note = register.Storage(ctx, kube, o.name)
	prepared, err := register.Prepare(request, file)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(o.tags)) { // a cluster that has a file keeps what stands there
		if tag := key + "=" + o.tags[key]; prepared.Tags[key] != o.tags[key] {
			return &ui.Err{
				Msg: fmt.Sprintf("cluster %s has a file already, and no tag %s: nothing was changed", o.name, tag),
				Fix: fmt.Sprintf("plural cluster set %s tag.%s; then register it without --tag", o.name, tag), Doc: ui.DocExists,
			}
		}
	}
	if err := o.prepare(c, prepared); err != nil {
		return err
	}
	c.sayReaders()
	if note != "" && prepared.First {
		o.factory.Say("%s", ui.Clean(note))
	}
	if c.editor != nil {
		if o.DryRun {
			return c.show()
		}
		o.Instead = change.Committer{Commit: c.plan.Apply, Write: c.write}
	}
	o.Ask = func(ctx context.Context) error { // not before the change is known to work out, nor after git has keys that nobody has
		if err := prepared.Install(ctx, kube); err != nil {
			return err
		}
		o.factory.Say("cluster %s has its keys", o.name)
		if err := (clusters.Locator{Root: c.repo.Root(), Config: o.factory.ConfigDir()}).Remember(o.name, way); err != nil {
			o.factory.Say("%v: say --context %s=CONTEXT when it is needed", err, o.name)
		}
		return nil
	}
	made, err := o.CarryOutFiles(ctx, c.repo, c.plan.Changes, envelopes, "Register cluster "+o.name)
	if err != nil {
		return err
	}
	return o.finish(ctx, c, made)
}

func (o *registerOptions) request(c *intent) (register.Request, error) {
	request := register.Request{Cluster: o.name, Tags: o.tags, Repo: os.DirFS(c.repo.Root())}
	var err error
	if request.HubURL, err = o.factory.HubAddress(); err != nil {
		return request, err
	}
	if c.editor != nil {
		request.Repository = c.editor.Vault().Policy().Repository
	}
	if o.hubCA == "" {
		return request, nil
	}
	if request.HubCA, err = os.ReadFile(o.hubCA); err != nil {
		return request, fmt.Errorf("read hub CA: %w", err)
	}
	return request, nil
}

// prepare plans the commit: the cluster's file, with an envelope for each group that its tags select.
func (o *registerOptions) prepare(c *intent, prepared *register.Registration) error {
	if c.editor != nil {
		var err error
		c.plan, err = c.editor.AddCluster(rekey.Cluster{Name: o.name, Tags: prepared.Tags, Age: prepared.Age})
		if err != nil {
			return err
		}
	}
	c.plan.Changes[register.Path(o.name)] = prepared.File
	return nil
}

// finish does what follows from the commit.
func (o *registerOptions) finish(ctx context.Context, c *intent, made change.Outcome) error {
	for _, group := range c.plan.Unreachable {
		o.factory.Say("cluster %s belongs to the group %s, and you do not: let a member run plural crypto share cluster/%s --group %s", o.name, group, o.name, group)
	}
	if err := o.Finish(ctx, made, waitfor.About{}); err != nil {
		return err
	}
	if made.Pushed == "" {
		return nil
	}
	o.factory.Say("cluster %s is registered at %s", o.name, cmdutil.ShortCommit(made.Pushed))
	if o.noAgent {
		return nil
	}
	return o.putAgent(ctx, c.repo)
}

// kube is the cluster that is to be registered, and how it is reached.
func (o *registerOptions) kube() (dynamic.Interface, clusters.Access, error) {
	config, way, err := clusters.Named(o.kubeconfig, o.context)
	if err != nil {
		return nil, way, &ui.Err{
			Msg: "no cluster to register", Cause: err.Error(), Fix: "--kubeconfig FILE, --context CONTEXT", Doc: ui.DocNoWay, Err: err,
		}
	}
	kube, err := dynamic.NewForConfig(config)
	return kube, way, err
}
