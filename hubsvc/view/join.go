package view

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// joined is one cluster at one moment: what it should run with what its agent said last.
type joined struct {
	cluster *fleet.Cluster
	// report is nil when there was none; age is how old it is, stale whether that is too old.
	report *api.Report
	age    time.Duration
	stale  bool
	// rows begins with those of the desired deployments, as many as asked and in their order; then come those that the
	// agent still has although nothing asks for them.
	rows  []v1.Deployment
	asked int
}

// join joins all clusters, by name.
func (v *View) join(desired *Desired) []joined {
	out := make([]joined, len(desired.Fleet.Clusters))
	for i := range out {
		out[i] = v.joinOne(desired, &desired.Fleet.Clusters[i])
	}
	return out
}

func (v *View) joinOne(desired *Desired, cluster *fleet.Cluster) joined {
	j := joined{cluster: cluster}
	j.report, _ = v.Report(cluster.Metadata.Name)
	if j.report != nil {
		j.age = v.Now().Sub(time.UnixMilli(j.report.GetReceivedUnixMs()))
		j.stale = j.age.Abs() > v.StaleAfter // a clock that was set back makes ages negative, and proves nothing
	}
	seen := make(map[string]*api.ServiceReport, len(j.report.GetServices()))
	for _, s := range j.report.GetServices() {
		seen[s.GetService()] = s
	}
	deployments := desired.Deployments[cluster.Metadata.Name]
	j.rows, j.asked = make([]v1.Deployment, len(deployments)), len(deployments)
	for i := range deployments {
		j.rows[i] = j.row(deployments[i], seen[deployments[i].Service])
		delete(seen, deployments[i].Service)
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		j.rows = append(j.rows, j.leftover(seen[name]))
	}
	return j
}

func (j *joined) row(d *resolve.Deployment, s *api.ServiceReport) v1.Deployment {
	out := v1.Deployment{Service: d.Service, Cluster: j.cluster.Metadata.Name, Key: d.Key, Version: d.Version}
	if s != nil {
		observe(&out, s)
	}
	switch {
	case j.stale:
		out.Phase, out.Message = v1.Stale, "its cluster is silent"
	case d.Hold != nil:
		out.Phase, out.Message = v1.Held, d.Hold.Error()
	case j.report == nil:
		out.Phase, out.Message = v1.Pending, "its agent has not reported yet"
	case s == nil:
		out.Phase, out.Message = v1.Pending, "its agent has not taken it up yet"
	case s.GetQuarantinedKey() == d.Key:
		out.Phase = v1.Failed
		out.Message = cmp.Or(out.Message, "it failed a test; what ran before runs again")
	case s.GetKey() != d.Key:
		out.Phase, out.Message = v1.Progressing, "its agent has not taken up the newest key yet"
	case out.Phase == v1.Healthy && s.GetAppliedKey() != d.Key:
		out.Phase, out.Message = v1.Progressing, "its agent has not applied the newest key yet"
	}
	return out
}

// leftover is what nothing asks for: well or not, it is on its way out until the agent says what keeps it.
func (j *joined) leftover(s *api.ServiceReport) v1.Deployment {
	out := v1.Deployment{Service: s.GetService(), Cluster: j.cluster.Metadata.Name}
	observe(&out, s)
	switch {
	case j.stale:
		out.Phase, out.Message = v1.Stale, "its cluster is silent"
	case out.Phase != v1.Held && out.Phase != v1.Failed:
		out.Phase = v1.Removing
	}
	return out
}

func observe(out *v1.Deployment, s *api.ServiceReport) {
	out.Phase, out.Message, out.AppliedKey = phase(s.GetPhase()), s.GetMessage(), s.GetAppliedKey()
	out.AppliedVersion, out.QuarantinedKey = s.GetAppliedVersion(), s.GetQuarantinedKey()
	out.Objects, out.Ready = int(s.GetObjects()), int(s.GetReady())
	for _, p := range s.GetProblems() {
		object := p.GetKind() + " " + p.GetName()
		if p.GetNamespace() != "" {
			object = p.GetKind() + " " + p.GetNamespace() + "/" + p.GetName()
		}
		out.Problems = append(out.Problems, v1.Problem{Object: object, Group: p.GetGroup(), Reason: p.GetReason(), Message: p.GetMessage()})
	}
	out.Held, out.Notes = heldBack(s.GetHeld()), s.GetNotes()
	for _, t := range s.GetTests() {
		out.Tests = append(out.Tests, tested(t))
	}
}

// heldBack is what waits for a person, or nil.
func heldBack(h *api.Held) *v1.Waiting {
	if h.GetToken() == "" {
		return nil
	}
	return &v1.Waiting{Token: h.GetToken(), Count: int(h.GetCount()), Names: h.GetNames(), Message: h.GetMessage()}
}

func tested(t *api.TestReport) v1.Test {
	out := v1.Test{
		Name: t.GetName(), Outcome: outcome(t.GetOutcome()), Key: t.GetKey(), Message: t.GetMessage(), Log: t.GetLog(),
		Tries: int(t.GetTries()), Took: time.Duration(t.GetTookMs() * int64(time.Millisecond)).Seconds(),
	}
	if ms := t.GetFinishedUnixMs(); ms != 0 {
		at := time.UnixMilli(ms).UTC()
		out.Finished = &at
	}
	return out
}

func outcome(o api.TestReport_Outcome) v1.TestOutcome {
	switch o {
	case api.TestReport_RUNNING:
		return v1.TestRunning
	case api.TestReport_PASSED:
		return v1.TestPassed
	case api.TestReport_FAILED:
		return v1.TestFailed
	case api.TestReport_WAITING, api.TestReport_OUTCOME_UNSPECIFIED:
	}
	return v1.TestWaiting
}

// maxLogs bounds how many rows of one answer show what their tests printed.
const maxLogs = 20

// brief keeps an answer about many clusters small: names once for each token, and logs of the first failures alone. Rows
// share nothing with reports but what is not changed here.
func brief(rows []v1.Deployment) []v1.Deployment {
	named, logs := map[string]bool{}, 0
	for i := range rows {
		if held := rows[i].Held; held != nil {
			if named[held.Token] {
				held.Names = nil
			}
			named[held.Token] = true
		}
		said := false
		for k := range rows[i].Tests {
			t := &rows[i].Tests[k]
			if t.Outcome != v1.TestFailed || logs >= maxLogs {
				t.Log = ""
			}
			said = said || t.Log != ""
		}
		if said {
			logs++
		}
	}
	return rows
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

// rank orders phases from best to worst, as package v1 lists them.
func rank(p v1.Phase) int {
	switch p {
	case v1.Healthy:
		return 0
	case v1.Removing:
		return 1
	case v1.Progressing:
		return 2
	case v1.Pending:
		return 3
	case v1.Unregistered:
		return 4
	case v1.Held:
		return 5
	case v1.Stale:
		return 6
	case v1.Degraded:
		return 7
	case v1.Failed:
		return 8
	}
	return -1
}
