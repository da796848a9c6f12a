package planner

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/workspace/fleet"
)

// The keys of the sealed files that sinks and providers name.
const (
	keySigning = "key"          // a webhook's messages are signed with it
	keyURL     = "url"          // Slack's address
	keyClient  = "clientSecret" // the secret of a provider's client
)

// sinks says in notify's words what a fleet wants to be told, and by whom. What a sink lacks is said once a commit, and keeps
// nothing else from working.
func (p *Planner) sinks(c *sources.Commit) *notify.Table {
	table := &notify.Table{Sinks: make(map[string]notify.Sink, len(c.Fleet.Sinks))}
	for i := range c.Fleet.Sinks {
		s := &c.Fleet.Sinks[i]
		sink, err := p.sink(c.Snapshot.FS(), s)
		if err != nil {
			p.Log.Error("sink is told nothing", "sink", s.Metadata.Name, "error", err)
			continue
		}
		table.Sinks[s.Metadata.Name] = sink
	}
	for i := range c.Fleet.Routes {
		table.Routes = append(table.Routes, route(c.Fleet, &c.Fleet.Routes[i]))
	}
	return table
}

func (p *Planner) sink(files fs.FS, s *fleet.Sink) (notify.Sink, error) {
	sink := notify.Sink{Name: s.Metadata.Name, Audit: s.Spec.Audit}
	switch spec := &s.Spec; {
	case spec.Webhook != nil:
		sink.Kind, sink.Target = notify.Webhook, spec.Webhook.URL
		if spec.Webhook.Secret == "" {
			return sink, nil
		}
		key, err := p.secret(files, spec.Webhook.Secret, keySigning)
		sink.Secret = []byte(key)
		return sink, err
	case spec.Slack != nil:
		address, err := p.secret(files, spec.Slack.Secret, keyURL)
		sink.Kind, sink.Target = notify.Slack, address
		return sink, err
	case spec.Syslog != nil:
		sink.Kind, sink.Target = notify.Syslog, spec.Syslog.URL
		return sink, nil
	default:
		sink.Kind, sink.Target = notify.File, filepath.Join(p.Notifications, filepath.FromSlash(spec.File.Path))
		return sink, os.MkdirAll(filepath.Dir(sink.Target), 0o700)
	}
}

// openPageSecrets opens the secrets of providers' clients. What cannot be opened is said once a commit, and keeps nothing else from
// working.
func (p *Planner) openPageSecrets(c *sources.Commit) map[string]oidcflow.Secret {
	opened := map[string]oidcflow.Secret{}
	for i := range c.Fleet.Providers {
		spec, name := &c.Fleet.Providers[i].Spec, c.Fleet.Providers[i].Metadata.Name
		if spec.Page.Secret == "" {
			continue
		}
		secret, err := p.secret(c.Snapshot.FS(), spec.Page.Secret, keyClient)
		if err != nil {
			p.Log.Error("nobody can log in to the page with a provider", "provider", name, "error", err)
			continue
		}
		opened[name] = oidcflow.Secret(secret)
	}
	return opened
}

// secret is one value of a sealed file. Only its errors leave: none repeats it.
func (p *Planner) secret(files fs.FS, name, key string) (string, error) {
	flat, err := p.Sources.Unsealed(files, name)
	if err != nil {
		return "", err
	}
	value, ok := flat[key]
	if !ok || value == "" {
		return "", fmt.Errorf("%s has no %q: write it there as a plain value", name, key)
	}
	return value, nil
}

// signingKeys are those with which the hub signs ID tokens; nil where it has none.
func (p *Planner) signingKeys(c *sources.Commit) *idtoken.Keys {
	name := c.Fleet.Workspace.Spec.Hub.SigningKeys
	if name == "" {
		return nil
	}
	flat, err := p.Sources.Unsealed(c.Snapshot.FS(), name)
	if err != nil {
		p.Log.Error("nobody can log in to applications", "file", name, "error", err)
		return nil
	}
	keys, err := idtoken.Parse(flat)
	if err != nil {
		p.Log.Error("nobody can log in to applications", "file", name, "error", err, "fix", "plural application rotate-keys --seen")
		return nil
	}
	return keys
}

// route picks events by the names of their service and cluster, as the fleet has them at this commit.
func route(f *fleet.Fleet, r *fleet.Route) notify.Route {
	spec := &r.Spec
	services, clusters := chosen(f.Services, spec.Services), chosenClusters(f.Clusters, spec.Clusters)
	normal := spec.MinSeverity == fleet.SeverityNormal
	return notify.Route{
		Name: r.Metadata.Name, Sink: spec.Sink, Every: spec.Interval(),
		Wants: func(e *notify.Event) bool {
			return (normal || e.Warning) &&
				(len(spec.Reasons) == 0 || slices.Contains(spec.Reasons, e.Reason)) &&
				(services == nil || services[e.Service]) && (clusters == nil || clusters[e.Cluster])
		},
	}
}

// chosen are the names of the services that a selector picks; nil for all.
func chosen(services []fleet.Service, by *fleet.Selector) map[string]bool {
	if by == nil {
		return nil
	}
	names := make(map[string]bool)
	for i := range services {
		if by.MatchesService(&services[i]) {
			names[services[i].Metadata.Name] = true
		}
	}
	return names
}

// chosenClusters is chosen of clusters.
func chosenClusters(clusters []fleet.Cluster, by *fleet.Selector) map[string]bool {
	if by == nil {
		return nil
	}
	names := make(map[string]bool)
	for i := range clusters {
		if by.Matches(&clusters[i]) {
			names[clusters[i].Metadata.Name] = true
		}
	}
	return names
}
