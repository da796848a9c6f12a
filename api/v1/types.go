// Package v1 owns the JSON that people's tools and the hub exchange under /v1.
//
// Fields are only added. Times are RFC 3339 in UTC. Names are those of the installation repo. The package knows
// neither the hub that fills these values in nor the commands that print them.
package v1

import (
	"reflect"
	"time"
)

// PlannerHeader of an answer of /readyz says how the hub takes up new commits: as PlannerWell or PlannerStuck.
const (
	PlannerHeader = "Plural-Planner"
	PlannerWell   = "well"
	PlannerStuck  = "stuck"
)

// RepositoryHeader of every answer below /v1 names the installation repo whose fleet the hub serves, by the identity that
// plural.yaml has. It is not there where that has none, or the hub has not read it yet.
const RepositoryHeader = "Plural-Repository"

// SinceHeader is Since of a list, also where the answer is that nothing of it has changed (304).
const SinceHeader = "Plural-Since"

// List is the envelope of every list: items in a stable order (by name unless asked otherwise).
type List[T any] struct {
	Items []T `json:"items"`
	// Total counts what matched, also beyond this page.
	Total int `json:"total"`
	// Next continues the list: pass it as ?continue=, with the same sort. Empty on the last page.
	Next string `json:"next,omitempty"`
	// Counts are how many of Total are in each phase, in lists of what has one.
	Counts Counts `json:"counts,omitempty"`
	// Since is when the list was read: a stream that starts there misses no change of it.
	Since string `json:"since,omitempty"`
}

// Phase says how far something got. It is one of the constants below.
type Phase string

// Phases from best to worst.
const (
	Healthy Phase = "healthy"
	// Removing: nothing asks for it any more, and its agent still has it.
	Removing    Phase = "removing"
	Progressing Phase = "progressing"
	Pending     Phase = "pending"
	// Unregistered: the cluster's file names no agent key.
	Unregistered Phase = "unregistered"
	// Held: what runs stays as it is until a person acts.
	Held Phase = "held"
	// Stale: the agent has not reported for several beats; what is shown is old.
	Stale    Phase = "stale"
	Degraded Phase = "degraded"
	Failed   Phase = "failed"
)

// Phases are all there are, from best to worst.
func Phases() []Phase {
	return []Phase{Healthy, Removing, Progressing, Pending, Unregistered, Held, Stale, Degraded, Failed}
}

// Words are all phases, from best to worst.
func (Phase) Words() []string {
	words := []string{}
	for _, p := range Phases() {
		words = append(words, string(p))
	}
	return words
}

// Cluster is one cluster of the fleet.
type Cluster struct {
	Name  string            `json:"name"`
	Phase Phase             `json:"phase"`
	Tags  map[string]string `json:"tags,omitempty"`
	// Services and Ready count the services meant for this cluster and those that are healthy at the desired key.
	Services int `json:"services"`
	Ready    int `json:"ready"`
	// KubernetesVersion and AgentVersion are what the agent reported last.
	KubernetesVersion string     `json:"kubernetesVersion,omitempty"`
	AgentVersion      string     `json:"agentVersion,omitempty"`
	LastReport        *time.Time `json:"lastReport,omitempty"`
	// Connected says whether the agent holds a connection to some replica of the hub, by which people reach the cluster: kubectl,
	// logs, shells. Absent where the hub cannot tell.
	Connected *bool  `json:"connected,omitempty"`
	Message   string `json:"message,omitempty"`
	// Held are removals of whole services that wait for a person.
	Held *Waiting `json:"held,omitempty"`
}

// ClusterDetail is a cluster with a row a service.
type ClusterDetail struct {
	Cluster
	// Parameters are those of its file, which is never sealed.
	Parameters  map[string]string `json:"parameters,omitempty"`
	Deployments []Deployment      `json:"deployments"`
	// LeftOut counts deployments, the best, that would have made the answer too large: GET /v1/deployments has them all.
	LeftOut int `json:"leftOut,omitempty"`
}

// Service is one service over all of its clusters.
type Service struct {
	Name      string `json:"name"`
	Phase     Phase  `json:"phase"`
	Source    string `json:"source"`
	Ref       string `json:"ref,omitempty"`
	Path      string `json:"path"`
	Renderer  string `json:"renderer"`
	Namespace string `json:"namespace"`
	// Clusters and Ready count where it should run and where it does, healthy at the desired key.
	Clusters int `json:"clusters"`
	Ready    int `json:"ready"`
	// Commit is the source's commit that the desired state was made from.
	Commit string `json:"commit,omitempty"`
	// Suspended says that agents leave it as it is.
	Suspended bool `json:"suspended,omitempty"`
	// Message says why, for the worst of its clusters.
	Message string `json:"message,omitempty"`
	// Deployments is one row a cluster; only in a single service's answer.
	Deployments []Deployment `json:"deployments,omitempty"`
	// LeftOut counts deployments as in ClusterDetail.
	LeftOut int `json:"leftOut,omitempty"`
}

// Deployment is one service on one cluster: what it should be, joined with what was seen. In lists and streams the message may
// be cut, and problems, tests, notes and names of what is held are left out.
type Deployment struct {
	Service string `json:"service"`
	Cluster string `json:"cluster"`
	Phase   Phase  `json:"phase"`
	// Key is desired, AppliedKey was applied completely last; equal means converged.
	Key        string `json:"key"`
	AppliedKey string `json:"appliedKey,omitempty"`
	// Version and AppliedVersion are what the source calls them, a chart's version or a tag, if it has a word for them.
	Version        string `json:"version,omitempty"`
	AppliedVersion string `json:"appliedVersion,omitempty"`
	// QuarantinedKey failed a test that gates, and is not applied again.
	QuarantinedKey string `json:"quarantinedKey,omitempty"`
	// Suspended says that its agent leaves it as it is; where that is not what is desired, its phase is held.
	Suspended bool `json:"suspended,omitempty"`
	// Leftover says that nothing asks for it any more: its agent still has it.
	Leftover bool `json:"leftover,omitempty"`
	// Unreached says that its agent gets no answer from the API server of its cluster: no change of the service helps.
	Unreached bool      `json:"unreached,omitempty"`
	Objects   int       `json:"objects"`
	Ready     int       `json:"ready"`
	Message   string    `json:"message,omitempty"`
	Problems  []Problem `json:"problems,omitempty"`
	// Held are deletions that wait for a person.
	Held  *Waiting `json:"held,omitempty"`
	Tests []Test   `json:"tests,omitempty"`
	// Notes are worth knowing, and keep nothing from being healthy.
	Notes []string `json:"notes,omitempty"`
}

// Waiting is what is held until a person agrees to it with `plural service ack`.
type Waiting struct {
	// Token names exactly what waits.
	Token string `json:"token"`
	// Unchecked says that the token is its agent's word alone: not all of the names are shown, or not as they are. An agreement to
	// it names the cluster, as TOKEN@CLUSTER.
	Unchecked bool `json:"unchecked,omitempty"`
	Count     int  `json:"count"`
	// Names are the first of them. In one answer they are given once for each token.
	Names   []string `json:"names,omitempty"`
	Message string   `json:"message,omitempty"`
}

// Agreement is what an agreement to it says, where it waits on the cluster.
func (w *Waiting) Agreement(cluster string) string {
	if w.Unchecked {
		return w.Token + "@" + cluster
	}
	return w.Token
}

// Test is what came of one of a service's tests.
type Test struct {
	Name string `json:"name"`
	// Outcome is one of the constants below.
	Outcome TestOutcome `json:"outcome"`
	// Key is the deployment that was tested.
	Key     string `json:"key,omitempty"`
	Message string `json:"message,omitempty"`
	// Log is the end of what a failed test printed; only the first failures of an answer have one.
	Log   string `json:"log,omitempty"`
	Tries int    `json:"tries,omitempty"`
	// Took is in seconds.
	Took     float64    `json:"tookSeconds,omitempty"`
	Finished *time.Time `json:"finished,omitempty"`
}

// TestOutcome is how far a test got.
type TestOutcome string

// Outcomes of tests.
const (
	TestWaiting TestOutcome = "waiting"
	TestRunning TestOutcome = "running"
	TestPassed  TestOutcome = "passed"
	TestFailed  TestOutcome = "failed"
)

// Words are all outcomes.
func (TestOutcome) Words() []string {
	return []string{string(TestWaiting), string(TestRunning), string(TestPassed), string(TestFailed)}
}

// OwnSource stands for the installation repo, the source named ".", in paths: no source can have this name.
const OwnSource = "_"

// Source is an upstream repository; the installation repo itself is named "." .
type Source struct {
	Name string `json:"name"`
	// Kind is git, helm, oci or http.
	Kind string `json:"kind"`
	// URL carries no credentials.
	URL string `json:"url"`
	Ref string `json:"ref,omitempty"`
	// Commit is what is being served of Ref.
	Commit string `json:"commit,omitempty"`
	// Refs are all that services read of it.
	Refs []SourceRef `json:"refs,omitempty"`
	// LastFetch is when the upstream last brought all that was asked for; Age is how long ago that was, in seconds.
	LastFetch *time.Time `json:"lastFetch,omitempty"`
	Age       float64    `json:"ageSeconds"`
	// Fetches and Failures count what was asked of the upstream since its owner started; Requests and ReceivedBytes are what
	// went over the wire.
	Fetches       int64 `json:"fetches"`
	Failures      int64 `json:"failures"`
	Requests      int64 `json:"requests"`
	ReceivedBytes int64 `json:"receivedBytes"`
	// Error is why the last attempt failed. FailingSince is when the first of the attempts did that have all failed since, InARow
	// how many these are, NextAttempt when the next is due.
	Error        string     `json:"error,omitempty"`
	FailingSince *time.Time `json:"failingSince,omitempty"`
	InARow       int64      `json:"failuresInARow,omitempty"`
	NextAttempt  *time.Time `json:"nextAttempt,omitempty"`
	// Owner is the replica that fetches it; empty when there is but one.
	Owner string `json:"owner,omitempty"`
}

// SourceRef is what a branch, a tag, a version range or a chart of a source stands for.
type SourceRef struct {
	Ref string `json:"ref"`
	// Commit names the tree that is served; Revision says in the upstream's own words what it is.
	Commit   string `json:"commit,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Rewound says how the ref left its history, if it did.
	Rewound string `json:"rewound,omitempty"`
}

// Hub is the hub itself, as the replica that answers sees it.
type Hub struct {
	Version string `json:"version"`
	// Replica is the one that answers; empty when there is but one.
	Replica string `json:"replica,omitempty"`
	// Edition names what is being served.
	Edition string `json:"edition,omitempty"`
	Commit  Commit `json:"commit"`
	// Clusters, Services and Sources count those being served; Silent are the clusters without a recent report.
	Clusters int `json:"clusters"`
	Silent   int `json:"silent"`
	Services int `json:"services"`
	Sources  int `json:"sources"`
	// Replicas are all that were heard of.
	Replicas []Replica `json:"replicas,omitempty"`
	Bundles  Bundles   `json:"bundles"`
	// Certificates are those that the answering replica shows; none where an ingress ends TLS.
	Certificates []Certificate `json:"certificates,omitempty"`
	// TokenWarning is what somebody should do about the operator's token; empty: nothing.
	TokenWarning string `json:"tokenWarning,omitempty"`
	// StoreError says why the answering replica's disk does not take what is to last over a restart: reports, soak memory, leases,
	// editions. It has them in memory meanwhile, and writes them once there is room.
	StoreError string `json:"storeError,omitempty"`
}

// Certificate is one that a replica shows to who connects.
type Certificate struct {
	// Name is hub for the one that agents and people see, replica for the one among replicas.
	Name string `json:"name"`
	// Ends is when the one that is shown ends.
	Ends time.Time `json:"ends"`
	// Error says why the one that its files hold now is not shown.
	Error string `json:"error,omitempty"`
}

// Replica is one process of the hub.
type Replica struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Live says that its lease holds; LeaseAge is how long ago it was renewed, in seconds.
	Live     bool    `json:"live"`
	Draining bool    `json:"draining,omitempty"`
	LeaseAge float64 `json:"leaseAgeSeconds"`
	// Owns counts the upstreams that it fetches.
	Owns int `json:"owns"`
}

// Bundles are the archives on the answering replica's disk, with what was asked of it since it started.
type Bundles struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"`
	// Hits were on disk, FromPeers came from the owner's disk, Packed were made here, Failed could not be had.
	Hits      int64 `json:"hits"`
	FromPeers int64 `json:"fromPeers"`
	Packed    int64 `json:"packed"`
	Failed    int64 `json:"failed"`
	// Corrupt were found damaged and replaced, Evicted had to make room.
	Corrupt int64 `json:"corrupt"`
	Evicted int64 `json:"evicted"`
}

// Status is the fleet at a glance.
type Status struct {
	Workspace string `json:"workspace"`
	Hub       string `json:"hub"`
	Version   string `json:"version"`
	// Commit is the commit being served; Head is the newest seen. They differ while Head is refused.
	Commit Commit `json:"commit"`
	Head   Commit `json:"head"`
	// Refused says why Head is not served; empty when it is.
	Refused []Problem `json:"refused,omitempty"`
	// Held lists services for which there is nothing good to offer now.
	Held     []Problem `json:"held,omitempty"`
	Clusters Counts    `json:"clusters"`
	Services Counts    `json:"services"`
	// Nowhere is how many of those services ask for clusters, and none fits. They count as healthy, since nothing of them is ill;
	// NowhereNames are those of the first, at most 50.
	Nowhere      int      `json:"nowhere,omitempty"`
	NowhereNames []string `json:"nowhereNames,omitempty"`
	// Deployments counts (service, cluster) pairs.
	Deployments Counts `json:"deployments"`
	// Suspended is how many of those that are held are so because a person suspended them. They are not among Unhealthy, and make no
	// cluster worse.
	Suspended int `json:"suspended,omitempty"`
	// Unhealthy lists deployments that are not healthy, worst first, at most 50.
	Unhealthy []Deployment `json:"unhealthy,omitempty"`
	// Sources are all, or of more than a hundred those with errors first.
	Sources []Source `json:"sources,omitempty"`
	// Notices are what the replica that answers has noticed lately, the newest first.
	Notices []Notice `json:"notices,omitempty"`
}

// Notice is something that somebody should look at, and that is about no deployment.
type Notice struct {
	// Time is when it was seen last.
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Fix     string    `json:"fix,omitempty"`
}

// Converged says whether everything that is asked for runs, healthy, at the newest commit. What is suspended is not asked for.
func (s *Status) Converged() bool {
	return s.Head.ID != "" && s.Commit.ID == s.Head.ID && len(s.Refused) == 0 && len(s.Held) == 0 &&
		s.Clusters.all(Healthy) && s.Deployments.Total()-s.Deployments[Healthy] == min(s.Suspended, s.Deployments[Held])
}

// Counts is how many are in each phase.
type Counts map[Phase]int

func (c Counts) all(p Phase) bool {
	for phase, n := range c {
		if phase != p && n > 0 {
			return false
		}
	}
	return true
}

// Total is how many there are in any phase.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// Commit identifies a commit to people.
type Commit struct {
	ID      string     `json:"id"`
	Subject string     `json:"subject,omitempty"`
	Author  string     `json:"author,omitempty"`
	Time    *time.Time `json:"time,omitempty"`
}

// ReasonWarning is the reason of a problem with an object of which Events of its cluster warn.
const ReasonWarning = "Warning"

// Problem is something that is wrong: where, what, and how to mend it.
type Problem struct {
	Cluster string `json:"cluster,omitempty"`
	Service string `json:"service,omitempty"`
	// Object is "Kind namespace/name" when one object is meant, Group that of its kind's API.
	Object string `json:"object,omitempty"`
	Group  string `json:"group,omitempty"`
	// Reason is one word for what is wrong, such as Conflict or Immutable.
	Reason string `json:"reason,omitempty"`
	// File is relative to the repository's root; Line counts from 1.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Token is set where a person may agree to what is refused.
	Token string `json:"token,omitempty"`
	// Services are those whose removal, altogether or from some clusters, the token stands for: sorted, each once.
	Services []string `json:"services,omitempty"`
	// Since is the commit that came with it, of a problem for which a commit is refused: Head, or one before that is refused too.
	Since *Commit `json:"since,omitempty"`
}

// Equal says whether both say the same.
func (p Problem) Equal(other Problem) bool { return reflect.DeepEqual(p, other) }

// Error is the body of every answer outside 2xx.
type Error struct {
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Problems are what is wrong with an edit, each at its place, where there are such.
	Problems []Problem `json:"problems,omitempty"`
}
