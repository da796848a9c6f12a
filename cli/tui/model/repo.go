package model

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/offline"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Words that stand where nobody can say how something is.
const (
	notSeen   = "not seen yet"
	otherKey  = "last seen at another key than the repo asks for now"
	notAsked  = "the repo does not ask for it any more"
	ownSource = "."
)

// repo is what an installation repo says should be, with what was seen last of it.
type repo struct {
	repo *workspace.Repo
	seen *fleetcache.Store
	now  func() time.Time
}

// FromRepo is what an installation repo says should be, with what was seen last. Either may be nil.
func FromRepo(r *workspace.Repo, seen *fleetcache.Store, o Options) Source {
	return &repo{r, seen, o.Now}
}

// Seek does nothing: all rows come at once.
func (r *repo) Seek(v1.ChangeKind, string) {}

// Run gives what was seen, then the repo with it, and waits for ctx.
func (r *repo) Run(ctx context.Context, emit func(Batch)) error {
	problems := []v1.Problem{}
	past := &fleetcache.Seen{}
	if r.seen != nil {
		seen, err := r.seen.Load()
		switch {
		case err != nil:
			problems = append(problems, v1.Problem{Message: err.Error()})
		case seen != nil:
			past = seen
		}
	}
	emit(Batch{State: &State{Link: Offline, Since: r.now(), AsOf: past.At}, Problems: problems, Marks: marks(Mark{Begin: true})})
	r.remember(past, emit)
	if r.repo == nil {
		emit(Batch{Marks: marks(Mark{End: true})})
	} else {
		problems = append(problems, r.read(ctx, past, emit)...)
	}
	emit(Batch{Problems: problems})
	<-ctx.Done()
	return context.Cause(ctx)
}

func marks(like Mark) []Mark {
	kinds := listed()
	all := make([]Mark, len(kinds))
	for i, kind := range kinds {
		all[i] = like
		all[i].Kind = kind
	}
	return all
}

// remember gives what was seen as it was.
func (r *repo) remember(past *fleetcache.Seen, emit func(Batch)) {
	if past.At.IsZero() {
		return
	}
	emit(Batch{Summary: past.Summary, Services: v1.Changes[v1.Service]{Items: past.Services}})
	for chunk := range slices.Chunk(past.Clusters, pageRows/8) {
		var b Batch
		for i := range chunk {
			c := &chunk[i]
			b.Clusters.Items = append(b.Clusters.Items, c.Cluster)
			for j := range c.Rows {
				b.Deployments.Items = append(b.Deployments.Items, deploymentOf(c.Name, &c.Rows[j]))
			}
		}
		emit(b)
	}
}

func deploymentOf(cluster string, row *fleetcache.Row) v1.Deployment {
	d := v1.Deployment{
		Service: row.Service, Cluster: cluster, Phase: row.Phase, Version: row.Version, Message: row.Message,
		Ready: int(row.Ready), Objects: int(row.Objects), Suspended: row.Suspended,
	}
	if row.Held > 0 {
		d.Held = &v1.Waiting{Count: int(row.Held)}
	}
	return d
}

// read gives what the repo asks for, joined with what was seen. Of a repo with mistakes, only they are given.
func (r *repo) read(ctx context.Context, past *fleetcache.Seen, emit func(Batch)) []v1.Problem {
	state, err := offline.Open(r.repo, "")
	if err != nil {
		emit(Batch{Marks: marks(Mark{End: true})})
		return problemsOf(err)
	}
	emit(Batch{Marks: marks(Mark{Begin: true})}) // what was seen of what is not there any more goes at the end
	j := join{state: state, resolver: resolve.New(), past: past, services: map[string]*v1.Service{}}
	for i := range state.Fleet.Services {
		s := describe(&state.Fleet.Services[i])
		j.services[s.Name] = &s
	}
	for chunk := range slices.Chunk(state.Fleet.Clusters, pageRows/8) {
		if ctx.Err() != nil {
			return nil
		}
		var b Batch
		for i := range chunk {
			j.cluster(&chunk[i], &b)
		}
		emit(b)
	}
	b := Batch{Summary: j.summary(r.repo), Marks: marks(Mark{End: true})}
	for i := range state.Fleet.Services {
		b.Services.Items = append(b.Services.Items, *j.services[state.Fleet.Services[i].Metadata.Name])
	}
	b.Sources.Items, b.Upgrades.Items = sources(state.Fleet), upgrades(state)
	emit(b)
	problems := []v1.Problem{}
	found, _, err := state.Problems(ctx)
	if err != nil {
		return nil
	}
	for i := range found {
		p := &found[i]
		problems = append(problems, v1.Problem{
			Service: p.Service, Cluster: p.Cluster, File: p.File, Line: p.Line, Message: p.Message, Fix: p.Fix,
		})
	}
	return problems
}

func problemsOf(err error) []v1.Problem {
	var mistakes fleet.Errors
	if !errors.As(err, &mistakes) {
		return []v1.Problem{{Message: err.Error()}}
	}
	problems := make([]v1.Problem, len(mistakes))
	for i, m := range mistakes {
		problems[i] = v1.Problem{File: m.File, Line: m.Line, Message: m.Message, Fix: m.Fix}
	}
	return problems
}

// join puts what should be and what was seen together, as a hub does.
type join struct {
	state    *offline.State
	resolver *resolve.Resolver
	past     *fleetcache.Seen
	services map[string]*v1.Service
	clusters v1.Counts
	rows     v1.Counts
}

func (j *join) cluster(c *fleet.Cluster, into *Batch) {
	name := c.Metadata.Name
	at, known := slices.BinarySearchFunc(j.past.Clusters, name, func(c fleetcache.Cluster, name string) int {
		return cmp.Compare(c.Name, name)
	})
	out := v1.Cluster{Name: name, Phase: v1.Pending, Message: notSeen}
	var seen []fleetcache.Row
	if known {
		out, seen = j.past.Clusters[at].Cluster, j.past.Clusters[at].Rows
	}
	out.Tags, out.Services, out.Ready = c.Spec.Tags, 0, 0
	wanted, _ := j.resolver.For(j.state.Fleet, name, j.state) // the cluster is this fleet's
	worst := v1.Healthy
	for i := range wanted {
		row := rowOf(&wanted[i], seen)
		out.Services++
		if row.Phase == v1.Healthy {
			out.Ready++
		}
		worst = worse(worst, row.Phase)
		j.count(&row)
		into.Deployments.Items = append(into.Deployments.Items, row)
	}
	for i := range seen {
		if !asked(wanted, seen[i].Service) {
			row := deploymentOf(name, &seen[i])
			row.Phase, row.Message, row.Leftover = v1.Removing, notAsked, true
			worst = worse(worst, row.Phase)
			j.rows = counted(j.rows, row.Phase)
			into.Deployments.Items = append(into.Deployments.Items, row)
		}
	}
	switch {
	case c.Spec.Agent.Auth == "":
		out.Phase = v1.Unregistered
	case known && out.Phase != v1.Stale && out.Phase != v1.Pending && out.Phase != v1.Unregistered:
		out.Phase = worst
	}
	j.clusters = counted(j.clusters, out.Phase)
	into.Clusters.Items = append(into.Clusters.Items, out)
}

func asked(wanted []resolve.Deployment, service string) bool {
	_, ok := slices.BinarySearchFunc(wanted, service, func(d resolve.Deployment, name string) int {
		return cmp.Compare(d.Service, name)
	})
	return ok
}

// rowOf is what is wanted with what was seen of it. A key that cannot be told here says nothing.
func rowOf(d *resolve.Deployment, seen []fleetcache.Row) v1.Deployment {
	i, ok := slices.BinarySearchFunc(seen, d.Service, func(r fleetcache.Row, name string) int { return cmp.Compare(r.Service, name) })
	if !ok {
		return v1.Deployment{
			Service: d.Service, Cluster: d.Cluster, Phase: v1.Pending, Key: d.Key, Version: d.Version, Suspended: d.Suspended,
			Message: notSeen,
		}
	}
	out := deploymentOf(d.Cluster, &seen[i])
	out.Key, out.Version, out.Suspended = d.Key, cmp.Or(d.Version, out.Version), d.Suspended
	clear := len(d.SecretsInputs) > 0 // as they are in the work tree, whose key is not that of what is sealed in git
	if d.Key != "" && !clear && seen[i].Applied != fleetcache.FingerprintOf(d.Key) {
		if out.Message == "" { // why it failed says more
			out.Message = otherKey
		}
		if out.Phase == v1.Healthy {
			out.Phase = v1.Progressing
		}
	}
	return out
}

// count adds a row to its service.
func (j *join) count(d *v1.Deployment) {
	j.rows = counted(j.rows, d.Phase)
	s := j.services[d.Service]
	s.Clusters++
	if d.Phase == v1.Healthy {
		s.Ready++
	}
	if rankOf(d.Phase) > rankOf(s.Phase) {
		s.Phase, s.Message = d.Phase, d.Message
	}
}

func (j *join) summary(r *workspace.Repo) *v1.Summary {
	s := &v1.Summary{Clusters: j.clusters, Deployments: j.rows}
	for _, service := range j.services {
		s.Services = counted(s.Services, service.Phase)
	}
	if files, err := offline.Read(r, "HEAD"); err == nil {
		c := files.Taken().Commit()
		s.Commit = v1.Commit{ID: c.ID, Subject: c.Subject, Author: c.Author, Time: &c.Time}
		s.Head = s.Commit
	}
	return s
}

func counted(c v1.Counts, p v1.Phase) v1.Counts {
	if c == nil {
		c = v1.Counts{}
	}
	c[p]++
	return c
}

func worse(a, b v1.Phase) v1.Phase {
	if rankOf(b) > rankOf(a) {
		return b
	}
	return a
}

func describe(s *fleet.Service) v1.Service {
	return v1.Service{
		Name: s.Metadata.Name, Source: cmp.Or(s.Spec.Source.Name, ownSource), Ref: s.Spec.Source.Ref, Path: s.Spec.Source.Path,
		Renderer: s.Spec.Renderer, Namespace: cmp.Or(s.Spec.Namespace, "default"), Suspended: s.Spec.Suspend, Phase: v1.Healthy,
	}
}

func sources(f *fleet.Fleet) []v1.Source {
	list := []v1.Source{{Name: ownSource, Kind: "git", URL: f.Workspace.Spec.Repo.URL}}
	for i := range f.Sources {
		s := &f.Sources[i]
		list = append(list, v1.Source{Name: s.Metadata.Name, Kind: s.Kind(), URL: s.URL()})
	}
	return list
}

// upgrades are the installations at the versions that the repo holds. What there is that is newer, only the hub looks up.
func upgrades(state *offline.State) []v1.Upgrade {
	lock, err := lockfile.Load(state.Taken().FS())
	if err != nil {
		lock = &lockfile.Lock{}
	}
	list := []v1.Upgrade{}
	for i := range state.Fleet.Installations {
		in := &state.Fleet.Installations[i]
		u := v1.Upgrade{
			Installation: in.Metadata.Name, Package: in.PackageName(), Catalog: in.Spec.Catalog,
			Policy: cmp.Or(in.Spec.Upgrade.Policy, fleet.UpgradeManual),
		}
		if entry, ok := lock.Entry(u.Installation); ok {
			u.Version, u.Catalog = entry.Version, entry.Catalog
		}
		list = append(list, u)
	}
	return list
}
