package cluster

import (
	"context"
	"errors"
	"path"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/pluralsh/plural/cli/deploy"
	"github.com/pluralsh/plural/cli/pkg"
	"github.com/pluralsh/plural/cli/progress"
	installed "github.com/pluralsh/plural/installer/deploy"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/offline"
)

// putAgent puts an agent on the cluster, by the installations of the repo that do so there.
func (o *registerOptions) putAgent(ctx context.Context, repo *workspace.Repo) error {
	state, err := offline.Open(repo, "HEAD")
	if err != nil {
		return err
	}
	var names []string
	if c, ok := state.Fleet.Cluster(o.name); ok {
		names = agentsFor(state.Fleet, c)
	}
	if len(names) == 0 {
		o.factory.Say("no package puts an agent there: plural package add agent --as agent-%s --clusters %[1]s, or run it yourself: "+
			"plural agent run --help", o.name)
		return nil
	}
	contextName, err := o.contextName()
	if err != nil {
		return err
	}
	work, stop, done := o.factory.Patiently(ctx)
	defer done()
	reporter := progress.New(o.factory.IO, o.factory.LogFormat, o.factory.Now)
	defer reporter.Close()
	d, err := deploy.OpenFor(work, o.factory, repo, reporter, deploy.Choice{
		Only: names, Stop: stop, Kubeconfig: o.kubeconfig, Contexts: []string{o.name + "=" + contextName},
	})
	if err == nil {
		_, err = d.Run(work, "plural cluster register "+o.name)
	}
	if errors.Is(err, installed.ErrNothing) {
		return nil
	}
	return deploy.Explain(err)
}

// agentsFor are the installations of agents that are for a cluster, which may be one that the fleet does not have yet.
func agentsFor(f *fleet.Fleet, c *fleet.Cluster) []string {
	var names []string
	for i := range f.Services {
		s := &f.Services[i]
		folder, generated := strings.CutPrefix(path.Dir(s.Position.File), "packages/")
		one, installed := f.Installation(folder)
		if generated && installed && one.PackageName() == pkg.AgentPackage && s.Spec.Clusters.Matches(c) {
			names = append(names, folder)
		}
	}
	return names
}

// contextName is the context that is meant.
func (o *registerOptions) contextName() (string, error) {
	if o.context != "" {
		return o.context, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return "", err
	}
	return config.CurrentContext, nil
}
