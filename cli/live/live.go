// Package live owns the flags for commands that ask clusters directly.
//
// It refuses to know what is asked of them, and how ways to them are found.
package live

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/installer/clusters"
)

// Options are what a person says about reaching clusters.
type Options struct {
	// On says that clusters are asked at all.
	On bool
	// Config is the person's own folder, where ways to clusters are remembered; empty: none are.
	Config     string
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
func (o *Options) Reach(root string, names []string) (map[string]*rest.Config, error) {
	found, err := clusters.Locator{
		Root: root, Config: o.Config, Local: cmdutil.LocalState(), Kubeconfig: o.kubeconfig, Contexts: o.contexts,
	}.Reach(names)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &ui.Err{
			Msg: "no cluster of the fleet can be reached from here", Cause: "no context is called like one, and there is no local fleet",
			Fix: "say which context is which cluster: --context CLUSTER=CONTEXT", Doc: ui.DocNoWay,
		}
	}
	return found, nil
}
