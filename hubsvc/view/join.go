package view

import (
	"cmp"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"time"
	"unique"

	"google.golang.org/protobuf/proto"

	"github.com/pluralsh/plural/api"
	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/internal/budget"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/resolve"
)

// reportSummary is what rows need of one report. It is immutable. What only the answer about one row shows is read from the report
// itself.
type reportSummary struct {
	received                        int64
	agentVersion, kubernetesVersion unique.Handle[string]
	held                            *v1.Waiting
	facts                           []fact // by service, each once
}

// fact is what an agent said of one service. A fleet has many that say the same in the same words.
type fact struct {
	service, key, appliedKey, appliedVersion, quarantined, message unique.Handle[string]
	held                                                           *v1.Waiting
	// details differ when problems, tests or notes do.
	details        uint64
	objects, ready uint32
	phase          v1.Phase
	// unreached says that its agent cannot ask the API server of the cluster.
	unreached bool
}

// reader makes facts of reports.
type reader struct{ seed maphash.Seed }

func (r reader) read(report *api.Report) *reportSummary {
	s := &reportSummary{
		received:     report.GetReceivedUnixMs(),
		agentVersion: word(report.GetAgentVersion()), kubernetesVersion: word(report.GetKubernetesVersion()),
		held: heldBack(report.GetHeld()), facts: make([]fact, 0, len(report.GetServices())),
	}
	for _, each := range report.GetServices() {
		s.facts = append(s.facts, r.fact(each))
	}
	slices.SortStableFunc(s.facts, func(a, b fact) int { return strings.Compare(a.service.Value(), b.service.Value()) })
	last := s.facts[:0]
	for i := range s.facts { // the last word on a service counts
		if i+1 == len(s.facts) || s.facts[i+1].service != s.facts[i].service {
			last = append(last, s.facts[i])
		}
	}
	s.facts = last
	return s
}

func (r reader) fact(s *api.ServiceReport) fact {
	f := fact{
		service: word(s.GetService()), key: word(s.GetKey()), appliedKey: word(s.GetAppliedKey()),
		appliedVersion: word(s.GetAppliedVersion()), quarantined: word(s.GetQuarantinedKey()),
		message: unique.Make(clip(s.GetMessage(), maxNames)), held: heldBack(s.GetHeld()),
		objects: s.GetObjects(), ready: s.GetReady(), phase: phase(s.GetPhase()),
		unreached: slices.ContainsFunc(s.GetProblems(), unreached),
	}
	if len(s.GetProblems())+len(s.GetTests())+len(s.GetNotes()) > 0 {
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
		if err == nil { // it came as bytes
			f.details = maphash.Bytes(r.seed, raw)
		}
	}
	return f
}

// unreached says that a problem is with no object, but with the API server that its agent asks.
func unreached(p *api.ObjectReport) bool {
	return p.GetKind() == "" && p.GetName() == "" && p.GetReason() == "Unavailable"
}

// age says whether what a cluster said is too old, and the next moment at which to look again; zero: not before it reports.
func age(received int64, now time.Time, staleAfter time.Duration) (stale bool, next time.Time) {
	at := time.UnixMilli(received)
	switch age := now.Sub(at); {
	case age < -staleAfter: // a clock that was set back makes ages negative, and proves nothing
		return true, at.Add(-staleAfter)
	case age <= staleAfter:
		return false, at.Add(staleAfter + time.Millisecond)
	}
	return true, time.Time{}
}

// row is one service on one cluster.
type row struct {
	want *resolve.Deployment // nil: nothing asks for it
	fact *fact               // nil: nothing was said of it
	// message is the hub's own; empty: the agent's counts.
	message string
	phase   v1.Phase
}

// entry is one cluster: what it should run with what its agent said last. It is immutable.
type entry struct {
	cluster *fleet.Cluster
	said    *reportSummary // nil: nothing
	stale   bool
	// connected says that people reach it now.
	connected bool
	// rows begins with those of the desired deployments, as many as asked and in their order; then come those that the
	// agent still has although nothing asks for them.
	rows         []row
	asked, ready int
	phase        v1.Phase
}

// cell is one row with its cluster.
type cell struct {
	entry *entry
	row   *row
}

func (e *entry) name() string { return e.cluster.Metadata.Name }

// maxLeftovers bounds the rows of a cluster that nothing asks for: those the agent can name as it likes, others with each report,
// and whoever follows changes has to hear of each.
const maxLeftovers = 1000

// join joins one cluster.
func join(cluster *fleet.Cluster, deployments []*resolve.Deployment, s *reportSummary, stale bool) *entry {
	e := &entry{cluster: cluster, said: s, stale: stale, asked: len(deployments), phase: v1.Healthy}
	var facts []fact
	if s != nil {
		facts = s.facts
	}
	e.rows = make([]row, 0, max(len(deployments), len(facts)))
	taken := 0
	for _, d := range deployments {
		f := find(facts, d.Service)
		if f != nil {
			taken++
		}
		e.rows = append(e.rows, e.desired(d, f))
	}
	for i := range facts {
		if taken == len(facts) || len(e.rows)-e.asked == maxLeftovers {
			break
		}
		if !has(deployments, facts[i].service.Value()) {
			e.rows, taken = append(e.rows, e.leftover(&facts[i])), taken+1
		}
	}
	for i := range e.rows {
		if e.rows[i].phase == v1.Healthy && i < e.asked {
			e.ready++
		}
		if !e.rows[i].rests() {
			e.phase = worse(e.phase, e.rows[i].phase)
		}
	}
	switch {
	case cluster.Spec.Agent.Auth == "":
		e.phase = v1.Unregistered
	case s == nil:
		e.phase = v1.Pending
	case stale:
		e.phase = v1.Stale
	}
	return e
}

func find(facts []fact, service string) *fact {
	i, ok := slices.BinarySearchFunc(facts, service, func(f fact, name string) int { return strings.Compare(f.service.Value(), name) })
	if !ok {
		return nil
	}
	return &facts[i]
}

func has(deployments []*resolve.Deployment, service string) bool {
	_, ok := slices.BinarySearchFunc(deployments, service, func(d *resolve.Deployment, name string) int {
		return strings.Compare(d.Service, name)
	})
	return ok
}

func (e *entry) desired(d *resolve.Deployment, f *fact) row {
	r := row{want: d, fact: f}
	switch {
	case e.stale:
		r.phase, r.message = v1.Stale, "its cluster is silent"
	case d.Hold != nil:
		r.phase, r.message = v1.Held, unique.Make(d.Hold.Error()).Value()
	case e.said == nil:
		r.phase, r.message = v1.Pending, "its agent has not reported yet"
	case d.Suspended && (f == nil || f.key.Value() != d.Key || f.appliedKey.Value() != d.Key):
		r.phase, r.message = v1.Held, "suspended: what runs stays as it is"
	case f == nil:
		r.phase, r.message = v1.Pending, "its agent has not taken it up yet"
	case f.quarantined.Value() == d.Key:
		r.phase = v1.Failed
		if f.message.Value() == "" {
			r.message = "it failed a test; what ran before runs again"
		}
	case f.key.Value() != d.Key:
		r.phase, r.message = v1.Progressing, "its agent has not taken up the newest key yet"
	case f.phase == v1.Healthy && f.appliedKey.Value() != d.Key:
		r.phase, r.message = v1.Progressing, "its agent has not applied the newest key yet"
	default:
		r.phase = f.phase
	}
	return r
}

// leftover is what nothing asks for: well or not, it is on its way out until the agent says what keeps it.
func (e *entry) leftover(f *fact) row {
	r := row{fact: f, phase: f.phase}
	switch {
	case e.stale:
		r.phase, r.message = v1.Stale, "its cluster is silent"
	case f.phase != v1.Held && f.phase != v1.Failed:
		r.phase = v1.Removing
	}
	return r
}

// row is that of a service, or nil.
func (e *entry) row(service string) *row {
	for _, part := range [...][]row{e.rows[:e.asked], e.rows[e.asked:]} {
		i, ok := slices.BinarySearchFunc(part, service, func(r row, name string) int { return strings.Compare(r.service(), name) })
		if ok {
			return &part[i]
		}
	}
	return nil
}

// inOrder are the rows by service: those that are asked for and those that are left over, which are few, are each in that order.
func (e *entry) inOrder() iter.Seq[*row] {
	return func(yield func(*row) bool) {
		asked, left := e.rows[:e.asked], e.rows[e.asked:]
		for len(asked)+len(left) > 0 {
			from := &asked
			if len(asked) == 0 || len(left) > 0 && left[0].service() < asked[0].service() {
				from = &left
			}
			if !yield(&(*from)[0]) {
				return
			}
			*from = (*from)[1:]
		}
	}
}

func (e *entry) all() []cell {
	cells := make([]cell, len(e.rows))
	for i := range cells {
		cells[i] = cell{e, &e.rows[i]}
	}
	return cells
}

func (r *row) service() string {
	if r.want != nil {
		return r.want.Service
	}
	return r.fact.service.Value()
}

func (r *row) said() string {
	if r.fact == nil || r.message != "" {
		return r.message
	}
	return r.fact.message.Value()
}

func (r *row) version() string {
	if r.want == nil {
		return ""
	}
	return r.want.Version
}

func (r *row) namespace() string {
	if r.want == nil {
		return ""
	}
	return r.want.Namespace
}

func (r *row) source() string {
	if r.want == nil {
		return ""
	}
	return cmp.Or(r.want.Source, ".")
}

// objects are how many it has, and how many of them are ready.
func (r *row) objects() (all, ready int64) {
	if r.fact == nil {
		return 0, 0
	}
	return int64(r.fact.objects), int64(r.fact.ready)
}

// rests says that it is left as it is because a person asked for that: nothing is wrong with it, and nothing is waited for.
func (r *row) rests() bool {
	return r.phase == v1.Held && r.want != nil && r.want.Suspended && r.want.Hold == nil
}

// same says whether two rows of one service look the same to people.
func (r *row) same(o *row) bool {
	if (r.want == nil) != (o.want == nil) || (r.fact == nil) != (o.fact == nil) || r.phase != o.phase || r.message != o.message {
		return false
	}
	if r.want != nil && (r.want.Key != o.want.Key || r.want.Version != o.want.Version || r.want.Namespace != o.want.Namespace ||
		r.want.Suspended != o.want.Suspended) {
		return false
	}
	return r.fact == o.fact || r.fact != nil && r.fact.same(o.fact)
}

func (f *fact) same(o *fact) bool {
	a, b := *f, *o
	a.held, b.held = nil, nil
	return a == b && sameHeld(f.held, o.held)
}

// sameHeld compares names as well: under one token an agent may give others, where the hub cannot check them.
func sameHeld(a, b *v1.Waiting) bool {
	return a == b || a != nil && b != nil && a.Token == b.Token && a.Count == b.Count && a.Unchecked == b.Unchecked &&
		slices.Equal(a.Names, b.Names)
}

func word(text string) unique.Handle[string] { return unique.Make(clip(text, maxWord)) }

// heldBack is what waits for a person, or nil. Its token is the agent's word, and agreed to for all clusters: where it stands for
// other names than those that people see, one agent could have them agree to what another holds back.
func heldBack(h *api.Held) *v1.Waiting {
	if h.GetToken() == "" {
		return nil
	}
	names, _ := within(h.GetNames(), maxNames)
	return &v1.Waiting{
		Token: clip(h.GetToken(), maxWord), Unchecked: budget.Token(names) != h.GetToken(), Count: int(h.GetCount()), Names: names,
		Message: clip(h.GetMessage(), maxMessage),
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

func worse(a, b v1.Phase) v1.Phase {
	if rank(b) > rank(a) {
		return b
	}
	return a
}
