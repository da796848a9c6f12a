// Package agent owns the commands around the agent's process. It links nothing of the hub, so that the agent's own
// binary stays small.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/agent"
	"github.com/pluralsh/plural/internal/parentwatch"
)

// NewCmdRun is `agent run`: one cluster's agent. logger is asked for once flags are read.
func NewCmdRun(logger func() *slog.Logger) *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Keep this cluster as its hub says",
		Long: "Keep this cluster as its hub says.\n\n" +
			"The agent reads who it is, and where its hub is, from the secret plural-system/plural-agent in its cluster, which\n" +
			"plural cluster register wrote. What it keeps below --data lets it go on healing when the hub is away.",
		Example: "  plural agent run --data /var/lib/plural-agent\n  plural agent run --kubeconfig ./kubeconfig --data ./agent",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), logger())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "the kubeconfig `FILE` of the agent's cluster (default: the pod's service account)")
	flags.StringVar(&o.data, "data", "", "the `FOLDER` for what survives a restart (required)")
	flags.StringVar(&o.listen, "listen", ":8081", "the `ADDRESS` of /healthz, /readyz and /metrics; empty for none")
	flags.StringVar(&o.plugins, "plugins", "", "a `FOLDER` of programs that render what the agent cannot; empty for none")
	flags.StringToStringVar(&o.pluginDigests, "plugin-digest", nil,
		"the digest of a program there, `NAME=sha256:HEX`: with any, no other program renders; may be repeated")
	flags.IntVar(&o.concurrency, "concurrency", agent.DefaultConcurrency,
		"how many services are worked on at once, `N`; all but one of them may have a process that renders")
	flags.StringVar(&o.peopleToken, "people-token", "", "a `FILE` with the token of an account that may only impersonate: people's requests are made with it\n(default: the agent's own account)")
	flags.StringVar(&o.peopleAccount, "people-account", "", "the service `ACCOUNT` in plural-system that people's requests are made with: "+
		"the agent asks for its tokens,\nand says in the ClusterRole ACCOUNT-people whom it may impersonate")
	flags.BoolVar(&o.withParent, "with-parent", false, "end when standard input does")
	_ = flags.MarkHidden("with-parent")
	return cmd
}

type options struct {
	kubeconfig, data, listen, plugins, peopleToken, peopleAccount string
	pluginDigests                                                 map[string]string
	concurrency                                                   int
	withParent                                                    bool
}

// digestForm is how a digest is written.
var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// check refuses what cannot be meant.
func (o *options) check() error {
	if o.data == "" {
		return errors.New("where may the agent keep what survives a restart? give --data FOLDER")
	}
	if o.concurrency < 2 {
		return fmt.Errorf("--concurrency %d: one place is kept for services that need no render, so it takes 2 at least", o.concurrency)
	}
	for name, digest := range o.pluginDigests {
		if !digestForm.MatchString(digest) {
			return fmt.Errorf("--plugin-digest %s=%s: want NAME=sha256: and 64 hexadecimal digits, as sha256sum prints them", name, digest)
		}
		o.pluginDigests[name] = strings.TrimPrefix(digest, "sha256:")
	}
	if len(o.pluginDigests) > 0 && o.plugins == "" {
		return errors.New("--plugin-digest: there are no plugins: give --plugins FOLDER")
	}
	return nil
}

func (o *options) run(ctx context.Context, log *slog.Logger) error {
	if err := o.check(); err != nil {
		return err
	}
	config, err := o.kube()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if o.withParent {
		ctx = parentwatch.Bind(ctx, os.Stdin)
	}
	return agent.Run(ctx, agent.Options{
		Kube: config, Dir: o.data, RenderCommand: []string{self, "render-child"}, HealthCommand: []string{self, "health-child"},
		Plugins: o.plugins, PluginDigests: o.pluginDigests, Concurrency: o.concurrency,
		PeopleTokenFile: o.peopleToken, PeopleAccount: o.peopleAccount, Listen: o.listen, Log: log,
	})
}

func (o *options) kube() (*rest.Config, error) {
	if o.kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the agent's cluster: %w: outside a pod, give --kubeconfig FILE", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", o.kubeconfig, err)
	}
	return config, nil
}
