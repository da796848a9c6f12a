// Package live owns how the clusters of a fleet are reached from a person's machine.
//
// It refuses to know what is asked of them. Nothing here sends a request.
//
// A cluster is reached by the context that --context names for it, else by the kubeconfig that a local fleet keeps of it, else
// by a context that is called like the cluster.
package live

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pluralsh/plural/agent/apply"
	"github.com/pluralsh/plural/cli/local"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Options are what a person says about reaching clusters.
type Options struct {
	// On says that clusters are asked at all.
	On         bool
	kubeconfig string
	contexts   []string
}

// AddFlags declares --live, whose help is usage, and the flags that go with it.
func (o *Options) AddFlags(flags *pflag.FlagSet, usage string) {
	flags.BoolVar(&o.On, "live", false, usage)
	flags.StringArrayVar(&o.contexts, "context", nil, "with --live: reach a cluster by this context, `CLUSTER=CONTEXT` (default: the one of its name)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "with --live: read contexts from this `FILE` (default: as kubectl)")
}

// Check refuses flags that mean nothing without --live.
func (o *Options) Check() error {
	if !o.On && (len(o.contexts) > 0 || o.kubeconfig != "") {
		return &ui.Err{Msg: "--context and --kubeconfig go with --live", Fix: "--live"}
	}
	return nil
}

// Reach finds those of the named clusters that can be reached, for the installation repo at root. That none can is an error.
func (o *Options) Reach(root string, clusters []string) (map[string]*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	known, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	chosen, err := o.chosen(known, clusters)
	if err != nil {
		return nil, err
	}
	fleet, noFleet := local.Existing(root)
	found := map[string]*rest.Config{}
	for _, name := range clusters {
		var config *rest.Config
		context := chosen[name]
		switch {
		case context == "" && noFleet == nil && exists(fleet.Kubeconfig(name)):
			config, err = clientcmd.BuildConfigFromFlags("", fleet.Kubeconfig(name))
		case context == "" && known.Contexts[name] == nil:
			continue
		default:
			if context == "" {
				context = name
			}
			config, err = clientcmd.NewNonInteractiveClientConfig(*known, context, nil, rules).ClientConfig()
		}
		if err != nil {
			return nil, fmt.Errorf("read how to reach cluster %q: %w", name, err)
		}
		found[name] = config
	}
	if len(found) == 0 {
		return nil, &ui.Err{
			Msg: "no cluster of the fleet can be reached from here", Cause: "no context is called like one, and there is no local fleet",
			Fix: "say which context is which cluster: --context CLUSTER=CONTEXT",
		}
	}
	return found, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// chosen are the contexts that --context names, by cluster.
func (o *Options) chosen(known *clientcmdapi.Config, clusters []string) (map[string]string, error) {
	chosen := map[string]string{}
	for _, text := range o.contexts {
		cluster, context, ok := strings.Cut(text, "=")
		switch {
		case !ok:
			return nil, &ui.Err{Msg: fmt.Sprintf("cannot read --context %q", text), Fix: "--context CLUSTER=CONTEXT"}
		case !slices.Contains(clusters, cluster):
			return nil, &ui.Err{Msg: fmt.Sprintf("--context names cluster %q, which is not looked at", cluster), Fix: "ls clusters/"}
		case known.Contexts[context] == nil:
			return nil, &ui.Err{
				Msg: fmt.Sprintf("no context %q in the kubeconfig", context),
				Fix: fmt.Sprintf("one of %v", slices.Sorted(maps.Keys(known.Contexts))),
			}
		}
		chosen[cluster] = context
	}
	return chosen, nil
}

// Policies are a deployment's, as the engine takes them.
func Policies(d *resolve.Deployment) apply.Policies {
	p := apply.Policies{
		Conflicts: apply.Policy(d.Conflicts), Recreate: d.Recreate, Account: d.ServiceAccount,
		Namespaces: d.AllowedNamespaces, Orphan: d.OnDelete == "orphan",
	}
	for _, rule := range d.Fields {
		kind, group, _ := strings.Cut(rule.Kind, ".")
		p.Fields = append(p.Fields, apply.FieldRule{
			Group: group, Kind: kind, Namespace: rule.Namespace, Name: rule.Name,
			Pointer: rule.Pointer, Policy: apply.Policy(rule.Policy),
		})
	}
	return p
}
