// Package view owns what people see: desired state joined with observed state on (cluster, service).
//
// It fetches nothing and keeps nothing. Each answer is computed from the newest desired state and the newest reports,
// so it can never disagree with them; how it reaches people is not known here.
package view

import (
	"cmp"
	"slices"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// Desired is what the fleet should be. It is immutable.
type Desired struct {
	// Fleet is the one being served; its zero value stands for no fleet yet.
	Fleet fleet.Fleet
	// Deployments are by cluster, sorted by service. Clusters share those that are the same, so Cluster is empty in each;
	// Parameters, Helm and Tests are only in what agents get.
	Deployments map[string][]*resolve.Deployment
	// Served and Head are the commit being served and the newest seen.
	Served, Head v1.Commit
	// Refused says why Head is not served.
	Refused []v1.Problem
}

// View joins. All fields are set by its owner.
type View struct {
	Desired func() *Desired
	Report  func(cluster string) (*api.Report, bool)
	Sources func() []v1.Source
	Now     func() time.Time
	// StaleAfter is how long a cluster may be silent before what is known of it counts as old.
	StaleAfter time.Duration
	Version    string
}

// maxUnhealthy bounds the list in a Status.
const maxUnhealthy = 50

// Status is the fleet at a glance.
func (v *View) Status() *v1.Status {
	desired := v.Desired()
	all := v.join(desired)
	s := &v1.Status{
		Workspace: desired.Fleet.Workspace.Metadata.Name, Hub: desired.Fleet.Workspace.Spec.Hub.URL, Version: v.Version,
		Commit: desired.Served, Head: desired.Head, Refused: desired.Refused, Held: held(desired),
		Clusters: v1.Counts{}, Services: v1.Counts{}, Deployments: v1.Counts{}, Sources: v.Sources(),
	}
	for i := range all {
		s.Clusters[all[i].summary().Phase]++
		for k := range all[i].rows {
			row := &all[i].rows[k]
			s.Deployments[row.Phase]++
			if row.Phase != v1.Healthy {
				s.Unhealthy = append(s.Unhealthy, *row)
			}
		}
	}
	for _, service := range services(desired, all) {
		s.Services[service.Phase]++
	}
	slices.SortFunc(s.Unhealthy, func(a, b v1.Deployment) int {
		return cmp.Or(rank(b.Phase)-rank(a.Phase), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Cluster, b.Cluster))
	})
	s.Unhealthy = brief(s.Unhealthy[:min(len(s.Unhealthy), maxUnhealthy)])
	return s
}

// held lists why deployments are held, each cause once.
func held(desired *Desired) []v1.Problem {
	var problems []v1.Problem
	seen := make(map[string]bool)
	for i := range desired.Fleet.Clusters {
		deployments := desired.Deployments[desired.Fleet.Clusters[i].Metadata.Name]
		for j := range deployments {
			hold := deployments[j].Hold
			if hold == nil || seen[hold.Error()] {
				continue
			}
			seen[hold.Error()] = true
			problems = append(problems, Problem(hold))
		}
	}
	return problems
}

// Problem says in people's words what resolve found.
func Problem(p *resolve.Problem) v1.Problem {
	return v1.Problem{Cluster: p.Cluster, Service: p.Service, File: p.File, Line: p.Line, Message: p.Message, Fix: p.Fix}
}

// Clusters lists the fleet's clusters by name.
func (v *View) Clusters() []v1.Cluster {
	all := v.join(v.Desired())
	out := make([]v1.Cluster, len(all))
	for i := range all {
		out[i] = all[i].summary()
	}
	return out
}

// Cluster returns one cluster and the services on it.
func (v *View) Cluster(name string) (v1.ClusterDetail, bool) {
	desired := v.Desired()
	cluster, ok := desired.Fleet.Cluster(name)
	if !ok {
		return v1.ClusterDetail{}, false
	}
	one := v.joinOne(desired, cluster)
	return v1.ClusterDetail{Cluster: one.summary(), Deployments: brief(one.rows)}, true
}

// Services lists the fleet's services by name.
func (v *View) Services() []v1.Service {
	desired := v.Desired()
	return services(desired, v.join(desired))
}

// Service returns one service with a row a cluster.
func (v *View) Service(name string) (v1.Service, bool) {
	desired := v.Desired()
	if _, ok := desired.Fleet.Service(name); !ok {
		return v1.Service{}, false
	}
	all := v.join(desired)
	var out v1.Service
	for _, service := range services(desired, all) {
		if service.Name == name {
			out = service
		}
	}
	for i := range all {
		for k := range all[i].rows {
			if row := &all[i].rows[k]; row.Service == name {
				out.Deployments = append(out.Deployments, *row)
			}
		}
	}
	out.Deployments = brief(out.Deployments)
	return out, true
}

// summary is a cluster in one line.
func (j *joined) summary() v1.Cluster {
	out := v1.Cluster{Name: j.cluster.Metadata.Name, Tags: j.cluster.Spec.Tags, Services: j.asked, Phase: v1.Healthy}
	for i := range j.rows {
		phase := j.rows[i].Phase
		if phase == v1.Healthy && i < j.asked {
			out.Ready++
		}
		out.Phase = worse(out.Phase, phase)
	}
	if j.report != nil {
		at := time.UnixMilli(j.report.GetReceivedUnixMs()).UTC()
		out.LastReport, out.AgentVersion, out.KubernetesVersion = &at, j.report.GetAgentVersion(), j.report.GetKubernetesVersion()
		out.Held = heldBack(j.report.GetHeld())
	}
	switch {
	case j.cluster.Spec.Agent.Auth == "":
		out.Phase, out.Message = v1.Unregistered, "no agent key in its file: plural cluster register "+out.Name
	case j.report == nil:
		out.Phase, out.Message = v1.Pending, "its agent has not reported yet"
	case j.stale && j.age < 0:
		out.Phase, out.Message = v1.Stale, "its last report is dated ahead of the hub's clock"
	case j.stale:
		out.Phase, out.Message = v1.Stale, "no report for "+j.age.Round(time.Second).String()
	}
	return out
}

// services sums the rows of all clusters up, a service each.
func services(desired *Desired, all []joined) []v1.Service {
	out := make([]v1.Service, len(desired.Fleet.Services))
	index := make(map[string]*v1.Service, len(out))
	for i := range out {
		out[i] = describe(&desired.Fleet.Services[i])
		index[out[i].Name] = &out[i]
	}
	for i := range all {
		deployments := desired.Deployments[all[i].cluster.Metadata.Name]
		for k := range all[i].rows {
			row := &all[i].rows[k]
			service := index[row.Service]
			if service == nil {
				continue
			}
			if k < all[i].asked {
				count(service, row, deployments[k])
			}
			blame(service, row)
		}
	}
	return out
}

// describe is what a service's own file says.
func describe(s *fleet.Service) v1.Service {
	return v1.Service{
		Name: s.Metadata.Name, Source: cmp.Or(s.Spec.Source.Name, "."), Ref: s.Spec.Source.Ref, Path: s.Spec.Source.Path,
		Renderer: s.Spec.Renderer, Namespace: s.Spec.Namespace, Phase: v1.Healthy,
	}
}

// count adds a deployment that is asked for, with what was found out when it was resolved.
func count(out *v1.Service, row *v1.Deployment, d *resolve.Deployment) {
	out.Renderer, out.Namespace = cmp.Or(d.Renderer, out.Renderer), cmp.Or(d.Namespace, out.Namespace)
	out.Commit = cmp.Or(d.Commit, out.Commit)
	out.Clusters++
	if row.Phase == v1.Healthy {
		out.Ready++
	}
}

// blame makes the worst row the service's phase; among equals the first.
func blame(out *v1.Service, row *v1.Deployment) {
	if rank(row.Phase) > rank(out.Phase) {
		out.Phase, out.Message = row.Phase, row.Message
	}
}

func worse(a, b v1.Phase) v1.Phase {
	if rank(b) > rank(a) {
		return b
	}
	return a
}
