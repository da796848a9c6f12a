package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/register"
	"github.com/pluralsh/plural/workspace"
)

type registerOptions struct {
	factory             *cmdutil.Factory
	name                string
	kubeconfig, context string
	hubCA               string
	tags                map[string]string
	message             string
	noCommit            bool
}

func newCmdRegister(f *cmdutil.Factory) *cobra.Command {
	o := &registerOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "register NAME",
		Short: "Let a cluster join the fleet",
		Long: "Let a cluster join the fleet.\n\n" +
			"Keys for its agent are made: the private halves go into the secret plural-system/plural-agent of the cluster, the\n" +
			"public halves into clusters/NAME.yaml, which is committed and pushed. A cluster that is registered already gets\n" +
			"fresh keys, and its old ones are good for nothing once the hub has seen the commit.",
		Example: cmdutil.Example("plural cluster register edge-1 --context edge-1", "plural cluster register edge-1 --tag env=prod --tag region=eu"),
		Args:    cmdutil.Exactly("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return o.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` (default as for kubectl)")
	flags.StringVar(&o.context, "context", "", "the kubeconfig's `CONTEXT` (default its current one)")
	flags.StringVar(&o.hubCA, "hub-ca", "", "the `FILE` with the certificates that the agent trusts for the hub, PEM (default the system's)")
	flags.StringToStringVar(&o.tags, "tag", nil, "a tag of a new cluster, `KEY=VALUE`; may be repeated")
	flags.StringVarP(&o.message, "message", "m", "", "the commit's message")
	flags.BoolVar(&o.noCommit, "no-commit", false, "write the file, but leave the commit to you")
	return cmd
}

func (o *registerOptions) run(ctx context.Context) error {
	if err := workspace.CheckName(o.name); err != nil { // it becomes a file's name
		return fmt.Errorf("cluster %w", err)
	}
	repo, err := o.factory.Repo()
	if err != nil {
		return err
	}
	hub, err := o.factory.HubAddress()
	if err != nil {
		return err
	}
	kube, err := o.kube()
	if err != nil {
		return err
	}
	request := register.Request{Cluster: o.name, HubURL: hub, Tags: o.tags}
	if o.hubCA != "" {
		if request.HubCA, err = os.ReadFile(o.hubCA); err != nil {
			return fmt.Errorf("read hub CA: %w", err)
		}
	}
	path := filepath.Join(repo.Root(), filepath.FromSlash(register.Path(o.name)))
	file, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read cluster's file: %w", err)
	}
	if file, err = register.Cluster(ctx, kube, request, file); err != nil {
		return err
	}
	if o.noCommit {
		if err := write(path, file); err != nil {
			return err
		}
		o.factory.Say("cluster %s has its keys; commit and push %s", o.name, register.Path(o.name))
		return nil
	}
	return o.commit(ctx, repo, file)
}

// write leaves the file in the work tree: public keys, for git to keep.
func write(path string, file []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write cluster's file: %w", err)
	}
	if err := os.WriteFile(path+".new", file, 0o644); err != nil {
		return fmt.Errorf("write cluster's file: %w", err)
	}
	return os.Rename(path+".new", path)
}

func (o *registerOptions) kube() (dynamic.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return nil, &ui.Err{Msg: "no cluster to register", Cause: err.Error(), Fix: "--kubeconfig FILE, --context CONTEXT", Err: err}
	}
	return dynamic.NewForConfig(config)
}

func (o *registerOptions) commit(ctx context.Context, repo *workspace.Repo, file []byte) error {
	message := o.message
	if message == "" {
		message = "Register cluster " + o.name
	}
	if _, err := repo.Commit(ctx, message, map[string][]byte{register.Path(o.name): file}); err != nil {
		return err
	}
	commit, err := repo.Push(ctx)
	if err != nil {
		return err
	}
	o.factory.Say("cluster %s is registered at %s; now run its agent there: plural agent run", o.name, cmdutil.ShortCommit(commit))
	return nil
}
