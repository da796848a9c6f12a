package view

import (
	v1 "github.com/pluralsh/plural/api/v1"

	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/workspace/resolve"
)

// join gives every cluster its rows.
func (v *View) join(desired *Desired) map[string][]v1.Deployment {
	out := make(map[string][]v1.Deployment, len(desired.Fleet.Clusters))
	for _, cluster := range desired.Fleet.Clusters {
		out[cluster.Metadata.Name] = v.rows(desired, cluster.Metadata.Name)
	}
	return out
}

// rows are a cluster's deployments in the order of the desired ones, then those that its agent still has although
// nothing asks for them.
func (v *View) rows(desired *Desired, cluster string) []v1.Deployment {
	report, reported := v.Report(cluster)
	seen := make(map[string]*api.ServiceReport, len(report.GetServices()))
	for _, s := range report.GetServices() {
		seen[s.GetService()] = s
	}
	stale := reported && v.age(report) > v.StaleAfter
	rows := make([]v1.Deployment, 0, len(desired.Deployments[cluster]))
	for i := range desired.Deployments[cluster] {
		d := &desired.Deployments[cluster][i]
		rows = append(rows, row(d, seen[d.Service], reported, stale))
		delete(seen, d.Service)
	}
	for _, s := range report.GetServices() {
		if _, left := seen[s.GetService()]; left {
			rows = append(rows, leftover(cluster, s))
		}
	}
	return rows
}

func row(d *resolve.Deployment, s *api.ServiceReport, reported, stale bool) v1.Deployment {
	out := v1.Deployment{Service: d.Service, Cluster: d.Cluster, Key: d.Key}
	if s != nil {
		observe(&out, s)
	}
	switch {
	case stale:
		out.Phase, out.Message = v1.Stale, "its cluster is silent"
	case d.Hold != nil:
		out.Phase, out.Message = v1.Held, d.Hold.Error()
	case s == nil && reported:
		out.Phase, out.Message = v1.Pending, "its agent has not taken it up yet"
	case s == nil:
		out.Phase, out.Message = v1.Pending, "its agent has not reported yet"
	case s.GetKey() != d.Key:
		out.Phase, out.Message = v1.Progressing, "its agent has not taken up the newest key yet"
	}
	return out
}

func leftover(cluster string, s *api.ServiceReport) v1.Deployment {
	out := v1.Deployment{Service: s.GetService(), Cluster: cluster}
	observe(&out, s)
	return out
}

func observe(out *v1.Deployment, s *api.ServiceReport) {
	out.Phase, out.Message, out.AppliedKey = phase(s.GetPhase()), s.GetMessage(), s.GetAppliedKey()
	out.Objects, out.Ready = int(s.GetObjects()), int(s.GetReady())
	for _, p := range s.GetProblems() {
		object := p.GetKind() + " " + p.GetName()
		if p.GetNamespace() != "" {
			object = p.GetKind() + " " + p.GetNamespace() + "/" + p.GetName()
		}
		out.Problems = append(out.Problems, v1.Problem{Object: object, Message: p.GetMessage()})
	}
}

func phase(p api.Phase) v1.Phase {
	switch p {
	case api.Phase_HEALTHY:
		return v1.Healthy
	case api.Phase_PROGRESSING:
		return v1.Progressing
	case api.Phase_DEGRADED:
		return v1.Degraded
	case api.Phase_FAILED:
		return v1.Failed
	case api.Phase_HELD:
		return v1.Held
	case api.Phase_REMOVING:
		return v1.Removing
	case api.Phase_PENDING, api.Phase_PHASE_UNSPECIFIED:
	}
	return v1.Pending
}

// rank orders phases from best to worst.
func rank(p v1.Phase) int {
	for i, each := range []v1.Phase{v1.Healthy, v1.Removing, v1.Progressing, v1.Pending, v1.Unregistered, v1.Held, v1.Stale, v1.Degraded, v1.Failed} {
		if p == each {
			return i
		}
	}
	return -1
}

func worse(a, b v1.Phase) v1.Phase {
	if rank(b) > rank(a) {
		return b
	}
	return a
}
