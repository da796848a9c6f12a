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
	// Deployments are by cluster, sorted by service.
	Deployments map[string][]resolve.Deployment
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
	s := &v1.Status{
		Workspace: desired.Fleet.Workspace.Metadata.Name, Hub: desired.Fleet.Workspace.Spec.Hub.URL, Version: v.Version,
		Commit: desired.Served, Head: desired.Head, Refused: desired.Refused,
		Clusters: v1.Counts{}, Services: v1.Counts{}, Deployments: v1.Counts{}, Sources: v.Sources(),
	}
	for _, cluster := range v.clusters(desired) {
		s.Clusters[cluster.Phase]++
	}
	for _, service := range v.services(desired) {
		s.Services[service.Phase]++
	}
	for _, rows := range v.join(desired) {
		for _, row := range rows {
			s.Deployments[row.Phase]++
			if row.Phase != v1.Healthy {
				s.Unhealthy = append(s.Unhealthy, row)
			}
		}
	}
	slices.SortFunc(s.Unhealthy, func(a, b v1.Deployment) int {
		return cmp.Or(rank(b.Phase)-rank(a.Phase), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Cluster, b.Cluster))
	})
	s.Unhealthy = s.Unhealthy[:min(len(s.Unhealthy), maxUnhealthy)]
	s.Held = held(desired)
	return s
}

func held(desired *Desired) []v1.Problem {
	var problems []v1.Problem
	seen := make(map[string]bool)
	for _, cluster := range desired.Fleet.Clusters {
		for _, d := range desired.Deployments[cluster.Metadata.Name] {
			if d.Hold == nil || seen[d.Hold.Error()] {
				continue
			}
			seen[d.Hold.Error()] = true
			problems = append(problems, Problem(d.Hold))
		}
	}
	return problems
}

// Problem says in people's words what resolve found.
func Problem(p *resolve.Problem) v1.Problem {
	return v1.Problem{Service: p.Service, File: p.File, Line: p.Line, Message: p.Message, Fix: p.Fix}
}

// Clusters lists the fleet's clusters by name.
func (v *View) Clusters() []v1.Cluster { return v.clusters(v.Desired()) }

// Cluster returns one cluster and the services on it.
func (v *View) Cluster(name string) (v1.ClusterDetail, bool) {
	desired := v.Desired()
	cluster, ok := desired.Fleet.Cluster(name)
	if !ok {
		return v1.ClusterDetail{}, false
	}
	rows := v.rows(desired, name)
	return v1.ClusterDetail{Cluster: v.cluster(cluster, rows), Deployments: rows}, true
}

// Services lists the fleet's services by name.
func (v *View) Services() []v1.Service { return v.services(v.Desired()) }

// Service returns one service with a row a cluster.
func (v *View) Service(name string) (v1.Service, bool) {
	desired := v.Desired()
	for _, service := range v.services(desired) {
		if service.Name != name {
			continue
		}
		for _, cluster := range desired.Fleet.Clusters {
			for _, row := range v.rows(desired, cluster.Metadata.Name) {
				if row.Service == name {
					service.Deployments = append(service.Deployments, row)
				}
			}
		}
		return service, true
	}
	return v1.Service{}, false
}

func (v *View) clusters(desired *Desired) []v1.Cluster {
	out := make([]v1.Cluster, 0, len(desired.Fleet.Clusters))
	for i := range desired.Fleet.Clusters {
		cluster := &desired.Fleet.Clusters[i]
		out = append(out, v.cluster(cluster, v.rows(desired, cluster.Metadata.Name)))
	}
	return out
}

func (v *View) cluster(c *fleet.Cluster, rows []v1.Deployment) v1.Cluster {
	out := v1.Cluster{Name: c.Metadata.Name, Tags: c.Spec.Tags, Services: len(rows), Phase: v1.Healthy}
	for _, row := range rows {
		if row.Phase == v1.Healthy {
			out.Ready++
		}
		out.Phase = worse(out.Phase, row.Phase)
	}
	report, ok := v.Report(c.Metadata.Name)
	switch {
	case c.Spec.Agent.Auth == "":
		out.Phase, out.Message = v1.Unregistered, "no agent key in its file: plural cluster register "+c.Metadata.Name
	case !ok:
		out.Phase, out.Message = v1.Pending, "its agent has not reported yet"
	default:
		at := time.UnixMilli(report.GetReceivedUnixMs()).UTC()
		out.LastReport, out.AgentVersion, out.KubernetesVersion = &at, report.GetAgentVersion(), report.GetKubernetesVersion()
		if age := v.age(report); age > v.StaleAfter {
			out.Phase, out.Message = v1.Stale, "no report for "+age.Round(time.Second).String()
		}
	}
	return out
}

func (v *View) services(desired *Desired) []v1.Service {
	byService := make(map[string][]v1.Deployment, len(desired.Fleet.Services))
	planned := make(map[string]*resolve.Deployment, len(desired.Fleet.Services))
	for cluster, rows := range v.join(desired) {
		for i, row := range rows {
			byService[row.Service] = append(byService[row.Service], row)
			if d := desired.deployment(cluster, i, row.Service); d != nil {
				planned[row.Service] = d
			}
		}
	}
	out := make([]v1.Service, 0, len(desired.Fleet.Services))
	for i := range desired.Fleet.Services {
		s := &desired.Fleet.Services[i]
		out = append(out, summarise(s, planned[s.Metadata.Name], byService[s.Metadata.Name]))
	}
	return out
}

// deployment is the i-th deployment of a cluster, when that is the service's: rows beyond the desired ones are of
// services on their way out.
func (d *Desired) deployment(cluster string, i int, service string) *resolve.Deployment {
	if all := d.Deployments[cluster]; i < len(all) && all[i].Service == service {
		return &all[i]
	}
	return nil
}

func summarise(s *fleet.Service, d *resolve.Deployment, rows []v1.Deployment) v1.Service {
	out := v1.Service{
		Name: s.Metadata.Name, Source: cmp.Or(s.Spec.Source.Name, "."), Ref: s.Spec.Source.Ref, Path: s.Spec.Source.Path,
		Renderer: s.Spec.Renderer, Namespace: s.Spec.Namespace, Clusters: len(rows), Phase: v1.Healthy,
	}
	if d != nil {
		out.Renderer, out.Namespace, out.Commit = d.Renderer, d.Namespace, d.Commit
	}
	for _, row := range rows {
		if row.Phase == v1.Healthy {
			out.Ready++
		}
		if rank(row.Phase) > rank(out.Phase) {
			out.Phase, out.Message = row.Phase, row.Message
		}
	}
	return out
}

func (v *View) age(r *api.Report) time.Duration {
	return v.Now().Sub(time.UnixMilli(r.GetReceivedUnixMs()))
}
