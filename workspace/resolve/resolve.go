// Package resolve owns the deployments of one cluster, resolved from a fleet.
//
// It refuses to know how sources are fetched, how bundles are packed or kept, and what a render makes of them: it
// reads names and ids of git objects, and of files only kustomizations, the policy of what must be sealed, and the first
// bytes of what ought to be. It opens nothing that is sealed.
//
// For takes a fleet and a cluster, and asks for one snapshot for each service that the cluster's tags select. From the
// service's path it tells the renderer and finds the inputs: of the path what the renderer reads (reading.go), what its
// kustomization refers to (closure.go), values files and included paths. Where a folder holds more than that, or symbolic links,
// a folder without the one and with what the others lead to is made in its place (pick.go). The git ids of these inputs make
// the bundle's key, those of the sealed files that the service names as secrets the key of a second bundle, and each mount
// has one more, of its own repository; with the renderer, the cluster's parameters and the helm values they make the deployment's key. A service
// that cannot be resolved is still listed, with the reason in Hold and without a key, so that nobody takes it for removed.
//
// All that depends on files alone is computed once for each state of a repository, however many clusters ask, and kept
// by git id: a commit that touches other folders changes no key and reads no file.
package resolve

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Sources gives the last good state of a repository. The source "" is the installation repo itself, whose ref is "".
// For any other, the ref is what fleet.Source.Ref or MountRef gives. snapshot.ErrNotFetched says that there was none so
// far; an error with a method Fix() string knows what helps.
//
// Sources that also have a method Version(source, ref string) string say by it which version the snapshot is, as its
// upstream calls it: a chart's version or a tag.
type Sources interface {
	Snapshot(source, ref string) (*snapshot.Snapshot, error)
}

// Deployment is one service on one cluster, as it should be.
type Deployment struct {
	Service, Cluster string
	// Key changes exactly when the render's input does; empty when Hold is set.
	Key string
	// Bundle is the key of the archive that holds Inputs; empty when Hold is set.
	Bundle string
	// Inputs are the paths that the archive holds, sorted, none inside another: of a folder what the render may read, and in the
	// place of a symbolic link what it leads to.
	Inputs []string
	// Links are the paths of the repository that symbolic links among Inputs lead to.
	Links []string
	// Warnings are sentences about what is left out of Inputs.
	Warnings []string
	// Path is the folder to render.
	Path string
	// Renderer is raw, kustomize, helm or a plugin's name.
	Renderer   string
	Namespace  string
	Parameters map[string]string
	// Helm is set for the renderer helm only.
	Helm *Helm
	// Secrets are the sealed files that the service asks for by name, in its order.
	Secrets []Secret
	// SecretsBundle is the key of a second archive, which holds SecretsInputs out of the installation repo; empty when
	// there are no Secrets, or Hold is set.
	SecretsBundle string
	SecretsInputs []string
	// Mounts are what the render sees beside Inputs, sorted by At; none when Hold is set.
	Mounts []Mount
	// OwnRepository says that the service's files come from the installation repo, so that sealed ones among them may be
	// opened.
	OwnRepository bool
	Operation
	Source, Ref string
	// Version is what its source calls the service's files: a chart's version or a tag. Empty: it has no word for them.
	Version string
	// Variant tells deployments apart that have one key although something outside of the render was filled in with their
	// cluster's facts. Empty: nothing was.
	Variant string
	// Commit is what the source's snapshot was taken of; empty for a work tree.
	Commit string
	// Snapshot is where to pack Inputs from. Of the repository it may hold these alone.
	Snapshot *snapshot.Snapshot
	// SecretsSnapshot is where to pack SecretsInputs from; nil when there are none.
	SecretsSnapshot *snapshot.Snapshot
	// Hold says why there is no key: what runs must stay as it is.
	Hold *Problem
}

// Secret is one sealed file of the installation repo, for templates by the name and, unless TemplateOnly, for a
// Kubernetes Secret of that name and Type.
type Secret struct {
	Name, Path   string
	TemplateOnly bool
	Type         string
}

// Helm is how a chart is rendered. Later values win: those of the chart, ValuesFiles in order, ValuesJSON.
type Helm struct {
	Release string
	// ValuesJSON is an object, or empty.
	ValuesJSON  []byte
	ValuesFiles []string
	// Lookup lets templates look objects up in the cluster, Record keeps a release there, SkipCRDs leaves crds/ out.
	Lookup, Record, SkipCRDs bool
}

// Problem is why a service cannot be resolved.
type Problem struct {
	// Service is empty when a source's own settings are to blame.
	Service string
	// Cluster is set when the service's files are fine and only its settings for this cluster are not.
	Cluster string
	// Source is set when the cause lies in that source's repository or in fetching it, not in the installation repo.
	Source string
	// Outside is set when the cause is a reference out of the repository.
	Outside bool
	// Unread is set when the cause lies in reading, which may succeed the next time although no commit is another.
	Unread bool
	fleet.Position
	Message, Fix string
}

// Error is "file:line:column: service: message: fix" on one line, without control characters.
func (p *Problem) Error() string {
	message := p.Message
	if p.Service != "" {
		message = fmt.Sprintf("service %s: %s", p.Service, p.Message)
	}
	if p.Cluster != "" {
		message += " on cluster " + p.Cluster
	}
	return (&fleet.Error{Position: p.Position, Message: message, Fix: p.Fix}).Error()
}

// Resolver resolves again and again with little work. It is safe for concurrent use.
type Resolver struct {
	files     cache[fileSet, files]
	mounts    cache[mountSet, mountFiles]
	secrets   cache[secretSet, secretFiles]
	policies  cache[snapshot.Hash, policyOrNone]
	forms     cache[formOf, sealFormat]
	trees     cache[snapshot.Hash, treeScan]
	filters   cache[snapshot.Hash, bool]
	pointers  cache[pointerSet, string]
	picks     cache[partDependencies, partOf]
	sizes     cache[snapshot.Hash, int64]
	readers   cache[snapshot.Hash, bool]
	refs      cache[snapshot.Hash, parsed]
	templates cache[string, compiled]
}

// New makes a Resolver that remembers nothing yet.
func New() *Resolver { return &Resolver{} }

// For resolves once, with a Resolver of its own.
func For(f *fleet.Fleet, cluster string, src Sources) ([]Deployment, error) {
	return New().For(f, cluster, src)
}

// For lists what a cluster should run, sorted by service. The error says that there is no such cluster; what is wrong
// with one service is in its Hold.
func (r *Resolver) For(f *fleet.Fleet, cluster string, src Sources) ([]Deployment, error) {
	c, ok := f.Cluster(cluster)
	if !ok {
		return nil, fmt.Errorf("resolve cluster %q: no such cluster", cluster)
	}
	var list []Deployment
	for i := range f.Services {
		if s := &f.Services[i]; s.Spec.Clusters.Matches(c) {
			list = append(list, r.deployment(f, s, c, src))
		}
	}
	return list, nil
}

// One resolves one service for one cluster, as For does. False: it does not run there.
func (r *Resolver) One(f *fleet.Fleet, service, cluster string, src Sources) (*Deployment, bool) {
	s, known := f.Service(service)
	c, there := f.Cluster(cluster)
	if !known || !there || !s.Spec.Clusters.Matches(c) {
		return nil, false
	}
	d := r.deployment(f, s, c, src)
	return &d, true
}

// deployment resolves one service for one cluster.
func (r *Resolver) deployment(f *fleet.Fleet, s *fleet.Service, c *fleet.Cluster, src Sources) Deployment {
	d := settings(f, s)
	d.Cluster = c.Metadata.Name
	d.Acknowledged = budget.For(d.Cluster, d.Acknowledged)
	d.Hold = firstProblem(
		func() *Problem { return r.addFiles(f, &d, s, src) },
		func() *Problem { return first(r.addSecrets(&d, s, src)) },
		func() *Problem { return checkDependencies(f, s, c) },
		func() *Problem { return r.addParameters(&d, s, c) },
	)
	if d.Hold != nil {
		d.Bundle, d.SecretsBundle, d.Mounts = "", "", nil
		return d
	}
	d.Key = deploymentKey(&d)
	if len(d.Acknowledged) > len(budget.For("", s.Spec.Sync.Acknowledged)) {
		d.Variant += "@" + d.Cluster
	}
	return d
}

func firstProblem(steps ...func() *Problem) *Problem {
	for _, step := range steps {
		if p := step(); p != nil {
			return p
		}
	}
	return nil
}

// settings is what a service's file and the workspace's defaults say by themselves.
func settings(f *fleet.Fleet, s *fleet.Service) Deployment {
	d := Deployment{
		Service: s.Metadata.Name, Namespace: s.Spec.Namespace, Renderer: s.Spec.Renderer,
		Path: path.Clean(s.Spec.Source.Path), Source: s.Spec.Source.Name, Ref: s.Spec.Source.Ref,
		OwnRepository: s.Spec.Source.Name == "",
	}
	for _, ref := range s.Spec.Secrets {
		d.Secrets = append(d.Secrets, Secret{ref.Name, path.Clean(ref.From), ref.TemplateOnly, ref.Type})
	}
	if source, ok := f.Source(d.Source); ok {
		d.Ref = source.Ref(s)
	}
	for i := range s.Spec.Mounts {
		d.Mounts = append(d.Mounts, mountOf(f, &s.Spec.Mounts[i]))
	}
	if d.Namespace == "" {
		d.Namespace = "default"
	}
	d.Operation = operation(f, s, d.Namespace)
	return d
}

// addFiles finds the renderer, the inputs and their key, and the mounts with theirs.
func (r *Resolver) addFiles(f *fleet.Fleet, d *Deployment, s *fleet.Service, src Sources) *Problem {
	snap, err := src.Snapshot(d.Source, d.Ref)
	if err != nil {
		return sourceProblem(s, d.Source, "spec.source.name", err)
	}
	d.Snapshot, d.Commit, d.Version = snap, snap.Commit().ID, versionOf(src, d.Source, d.Ref)
	seen, problem := r.addMounts(f, d, s, src)
	if problem != nil {
		return problem
	}
	found, fault := r.filesOf(s, seen)
	if fault != nil {
		return fault.problem(s)
	}
	d.Renderer, d.Inputs, d.Bundle, d.Links = found.renderer, found.inputs, found.bundle, found.links
	d.Warnings = slices.Concat(d.Warnings, found.warnings)
	if found.graft != nil {
		d.Snapshot = snap.Grafted(found.graft)
	}
	for _, remote := range found.remotes {
		d.Mounts = append(d.Mounts, remote.mount())
		for _, warning := range remote.warnings {
			d.Warnings = append(d.Warnings, remote.Shown()+": "+warning)
		}
	}
	sortMounts(d.Mounts) // their order means nothing
	return nil
}

// checkDependencies refuses to wait for a service that will never come.
func checkDependencies(f *fleet.Fleet, s *fleet.Service, c *fleet.Cluster) *Problem {
	for i, dep := range s.Spec.DependsOn {
		other, ok := f.Service(dep.Service)
		if ok && other.Spec.Clusters.Matches(c) {
			continue
		}
		return &Problem{
			Service: s.Metadata.Name, Cluster: c.Metadata.Name, Position: s.Place(fmt.Sprintf("spec.dependsOn[%d].service", i)),
			Message: fmt.Sprintf("depends on %q, which does not run", dep.Service),
			Fix:     "let both select the same clusters, or remove the dependency",
		}
	}
	return nil
}

// addParameters fills in what the cluster's facts decide.
func (r *Resolver) addParameters(d *Deployment, s *fleet.Service, c *fleet.Cluster) *Problem {
	t := templates{r: r, service: s, cluster: c.Metadata.Name, scope: clusterScope(c)}
	d.Parameters = make(map[string]string, len(s.Spec.Parameters))
	for _, name := range slices.Sorted(maps.Keys(s.Spec.Parameters)) {
		value, problem := t.text(s.Spec.Parameters[name], "spec.parameters."+name)
		if problem != nil {
			return problem
		}
		d.Parameters[name] = value
	}
	t.scope.fields["parameters"] = scope{values: d.Parameters}
	var problem *Problem
	if d.Tests, d.Variant, problem = t.tests(s.Spec.Tests); problem != nil || d.Renderer != rendererHelm {
		return problem
	}
	d.Helm, problem = t.helm(s)
	return problem
}
