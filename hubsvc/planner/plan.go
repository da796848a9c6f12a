package planner

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/crypto"
	"github.com/pluralsh/plural/hubsvc/access"
	"github.com/pluralsh/plural/hubsvc/auth"
	"github.com/pluralsh/plural/hubsvc/gateway"
	"github.com/pluralsh/plural/hubsvc/idtoken"
	"github.com/pluralsh/plural/hubsvc/notify"
	"github.com/pluralsh/plural/hubsvc/sources"
	"github.com/pluralsh/plural/hubsvc/view"
	"github.com/pluralsh/plural/internal/oidcflow"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Plan is what follows from one commit of the installation repo and the newest commits of its sources. It is immutable,
// and replaced as a whole.
type Plan struct {
	Desired view.Desired
	// roots and keys are by cluster; a cluster without an agent's key has no entry in keys.
	roots map[string]*gateway.Root
	keys  map[string]ed25519.PublicKey
	// directory is who may log in, and access says what they may do.
	directory *auth.Directory
	access    *access.Rules
	// Sinks says who is told of what.
	Sinks *notify.Table
	// SigningKeys sign ID tokens for applications; nil: the hub is no identity provider.
	SigningKeys *idtoken.Keys
	// pageSecrets are those of providers' clients for the hub's page, by provider.
	pageSecrets map[string]oidcflow.Secret
	// bundles are by bundle key.
	bundles map[string]bundleSource
	// Views are those that the people of the fleet share.
	Views v1.ViewList
	// IDs are the fleet's upstreams, by source.
	IDs map[string]string
	// Revision is what the plan was made of.
	Revision string
	// unread says that something could not be read: the next turn makes the plan anew.
	unread bool
}

// blank is the plan of a hub which has seen no good commit.
func blank() *Plan {
	return &Plan{
		directory: auth.Unread(), access: access.New(&fleet.Fleet{}), Sinks: new(notify.Table),
		Views: v1.ViewList{Items: []v1.View{}},
	}
}

// bundleSource says where the bytes behind a bundle's key are.
type bundleSource struct {
	snapshot *snapshot.Snapshot
	inputs   []string
	// upstream is the ID of the upstream that they come from.
	upstream string
}

// draft is a plan in the making.
type draft struct {
	Plan
	with    planInputs
	shared  sharing
	encoder *gateway.Encoder
	log     *slog.Logger
}

// planInputs are what a plan is made with, besides the commit.
type planInputs struct {
	resolver *resolve.Resolver
	sources  pinned
	// own is the ID of the installation repo's upstream.
	own       string
	envelopes *envelopes
	// before is the plan in force, for a cluster that the new one has nothing good for.
	before *Plan
}

// newPlan resolves a candidate for each of its clusters. A cluster whose envelopes cannot be read is held alone: it keeps
// what it was served last. The error names the cluster that is more than one poll can carry, or at which ctx ended.
func newPlan(ctx context.Context, c *sources.Commit, with planInputs, terms gateway.Terms, log *slog.Logger) (*Plan, error) {
	f := c.Fleet
	terms.DeletionBudget, terms.Acknowledged = f.Workspace.Spec.DeletionBudget, f.Workspace.Spec.Acknowledged
	terms.Health = f.Workspace.Spec.Health
	d := &draft{
		Plan: Plan{
			Desired: view.Desired{
				Fleet: *f, Served: describe(c.Snapshot.Commit()),
				Deployments: make(map[string][]*resolve.Deployment, len(f.Clusters)),
			},
			roots:     make(map[string]*gateway.Root, len(f.Clusters)),
			keys:      make(map[string]ed25519.PublicKey, len(f.Clusters)),
			directory: auth.NewDirectory(f),
			access:    access.New(f),
			bundles:   make(map[string]bundleSource),
			IDs:       with.sources.ids,
		},
		with: with, shared: sharing{}, encoder: gateway.NewEncoder(terms), log: log,
	}
	for i := range f.Clusters {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("plan cluster %s: %w", f.Clusters[i].Metadata.Name, err)
		}
		if err := d.add(f, &f.Clusters[i]); err != nil {
			return nil, err
		}
	}
	d.shared.strip()
	return &d.Plan, nil
}

func (d *draft) add(f *fleet.Fleet, c *fleet.Cluster) error {
	name := c.Metadata.Name
	resolved, err := d.with.resolver.For(f, name, d.with.sources)
	if err != nil {
		return fmt.Errorf("plan cluster %s: %w", name, err)
	}
	deployments := d.shared.of(resolved)
	d.Desired.Deployments[name] = deployments
	d.addKey(c)
	opens, err := d.with.envelopes.cluster(name)
	if err != nil {
		d.log.Warn("cluster is held; it keeps what it was served last", "cluster", name, "error", err)
		d.hold(c, err)
		return nil
	}
	if d.roots[name], err = d.encoder.Root(name, deployments, opens); err != nil {
		return fmt.Errorf("plan cluster %s: %w", name, err)
	}
	for _, each := range deployments {
		d.addBundles(each)
		d.unread = d.unread || each.Hold != nil && each.Hold.Unread
	}
	return nil
}

// addBundles notes where the bundles of a deployment come from.
func (d *draft) addBundles(each *resolve.Deployment) {
	if each.Bundle != "" {
		d.bundles[each.Bundle] = bundleSource{each.Snapshot, each.Inputs, d.upstream(each.Source)}
	}
	if each.SecretsBundle != "" {
		d.bundles[each.SecretsBundle] = bundleSource{each.SecretsSnapshot, each.SecretsInputs, d.with.own}
	}
	for _, m := range each.Mounts {
		if m.Bundle != "" {
			d.bundles[m.Bundle] = bundleSource{m.Snapshot, m.Inputs, d.upstream(m.Source)}
		}
	}
}

// upstream is the ID of a source's upstream; "" is the installation repo.
func (d *draft) upstream(source string) string {
	if source == "" {
		return d.with.own
	}
	return d.with.sources.ids[source]
}

// hold leaves a cluster with what the plan in force has for it, if anything, and says why.
func (d *draft) hold(c *fleet.Cluster, why error) {
	name := c.Metadata.Name
	deployments := d.Desired.Deployments[name]
	for i := range deployments {
		each := *deployments[i] // other clusters have the same one
		deployments[i] = &each
		each.Key, each.Bundle, each.SecretsBundle, each.Mounts = "", "", "", nil
		if each.Hold == nil {
			each.Hold = &resolve.Problem{
				Service: each.Service, Cluster: name, Position: c.Position, Message: why.Error(),
				Fix: "let a member of its groups share them with it again: plural crypto share cluster/" + name,
			}
		}
	}
	root := d.with.before.roots[name]
	if root == nil {
		return
	}
	d.roots[name] = root
	for key := range root.Bundles() {
		if _, newer := d.bundles[key]; !newer {
			d.bundles[key] = d.with.before.bundles[key]
		}
	}
}

func (d *draft) addKey(c *fleet.Cluster) {
	if c.Spec.Agent.Auth == "" {
		return
	}
	key, err := crypto.ParseAuthKey(c.Spec.Agent.Auth)
	if err != nil {
		d.log.Warn("cluster's agent cannot log in", "cluster", c.Metadata.Name, "error", err)
		return
	}
	d.keys[c.Metadata.Name] = key
}

// Changed are the clusters that have something else to run than by the plan before.
func (p *Plan) Changed(before *Plan) []string {
	var changed []string
	for cluster, root := range p.roots {
		if !root.Same(before.roots[cluster]) {
			changed = append(changed, cluster)
		}
	}
	return changed
}

// Upstream is the ID of the upstream that a bundle comes from, by its key; empty for one that the plan does not have.
func (p *Plan) Upstream(key string) string { return p.bundles[key].upstream }
