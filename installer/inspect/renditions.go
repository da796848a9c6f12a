package inspect

import (
	"context"
	"errors"
	"slices"

	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/crypto/vault"
	"github.com/pluralsh/plural/installer/preview"
	"github.com/pluralsh/plural/internal/kubeschema"
	"github.com/pluralsh/plural/workspace/resolve"
)

// rendition is what a service renders to on clusters of one version of Kubernetes.
type rendition struct {
	deployment resolve.Deployment
	clusters   []string
	// minor is the clusters' version; version what charts are told, empty where nobody knows.
	minor   int
	version string
}

// renditions puts together what renders to the same, by service.
func (i *inspector) renditions() ([]*rendition, error) {
	type key struct {
		service, inputs string
		minor           int
	}
	var inputs preview.Inputs
	known, looked := map[key]*rendition{}, map[string]bool{}
	var list []*rendition
	for _, c := range i.Fleet.Clusters {
		name := c.Metadata.Name
		version := i.Versions[name]
		minor, ok := kubeschema.Minor(version)
		if !ok {
			minor, version = i.builtin.Last, ""
		}
		deployments, err := i.Resolver.For(i.Fleet, name, i.Sources)
		if err != nil {
			return nil, err
		}
		for _, d := range deployments {
			if d.Hold != nil {
				if d.Hold.Source != "" {
					i.report.Unchecked[d.Service] = "source " + d.Hold.Source + " is not on this machine"
				}
				continue
			}
			if !looked[d.Service] {
				looked[d.Service] = true
				i.unread(&d)
			}
			k := key{d.Service, inputs.Of(&d), minor}
			r := known[k]
			if r == nil {
				d.Cluster = "" // children go on from one cluster's services to those of the next: nothing here is applied to any
				r = &rendition{deployment: d, minor: minor, version: version}
				known[k], list = r, append(list, r)
			}
			r.clusters = append(r.clusters, name)
			i.reached[d.Service]++
			i.report.Minors = append(i.report.Minors, minor)
		}
	}
	return list, nil
}

// render renders a rendition, and judges what can be judged of it alone. The error says that ctx ended.
func (i *inspector) render(ctx context.Context, r *rendition) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	made, err := i.Renderer.On(r.version, nil).Render(ctx, &r.deployment)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		i.failed(r, err)
		return nil
	}
	i.mu.Lock()
	i.report.Objects += len(made.Objects)
	i.mu.Unlock()
	locate := locator{deployment: &r.deployment}
	for n, o := range made.Objects {
		at := place{service: r.deployment.Service, object: o, locate: &locate}
		if n < len(made.Origins) {
			at.origin = made.Origins[n]
		}
		at.silent = func(text string) string { return unseal.Redact(text, made.Sealed) }
		if err := i.judge(r, &at); err != nil {
			return err
		}
	}
	return nil
}

// failed tells what does not render from what this machine cannot render.
func (i *inspector) failed(r *rendition, err error) {
	var locked *vault.LockedError
	var plugin *preview.PluginError
	i.mu.Lock()
	defer i.mu.Unlock()
	if errors.As(err, &locked) || errors.As(err, &plugin) {
		i.report.Unchecked[r.deployment.Service] = err.Error()
		return
	}
	for n := range i.report.Failed {
		if f := &i.report.Failed[n]; f.Service == r.deployment.Service && f.Err.Error() == err.Error() {
			f.Clusters = append(f.Clusters, r.clusters...)
			return
		}
	}
	i.report.Failed = append(i.report.Failed, Failure{Service: r.deployment.Service, Clusters: slices.Clone(r.clusters), Err: err})
}
