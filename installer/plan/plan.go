// Package plan owns the steps that packages still need.
//
// It refuses to know how a step is taken, and reads nothing: what is wanted comes composed out of the installation repo, what
// was done comes out of the record. The two are compared by digest. A step's digest is over all that it reads, over the
// digests of the steps before it, over its tool: so a step runs when anything behind it has changed, and a deploy without
// changes has nothing to do. What was done and is wanted no longer is taken down in the opposite order.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/workspace/compose"
)

// ID names a step: INSTALLATION/STEP.
type ID string

// NewID is a step's.
func NewID(installation, step string) ID { return ID(installation + "/" + step) }

// Installation is the part of the id that names it.
func (id ID) Installation() string { name, _, _ := strings.Cut(string(id), "/"); return name }

// Step is the part of the id that names it.
func (id ID) Step() string { _, name, _ := strings.Cut(string(id), "/"); return name }

// Action is what is done about a step.
type Action string

// Actions. A step that is Unchanged, or Skipped by its own condition, is not taken.
const (
	Run       Action = "run"
	Unchanged Action = "unchanged"
	Skipped   Action = "skipped"
	Remove    Action = "remove"
	// Keep is what a protected package gets in place of Remove.
	Keep Action = "keep"
)

// Step is one step with what is to be done about it.
type Step struct {
	ID     ID     `json:"id"`
	Kind   string `json:"kind"`
	Action Action `json:"action"`
	// Reason says in a few words why.
	Reason string `json:"reason,omitempty"`
	// Needs are the steps to be taken before; those to be taken down before, when it is Remove.
	Needs []ID `json:"needs,omitempty"`
	// Waiting are the steps whose outputs have to be there before anybody can say what this one reads.
	Waiting []ID `json:"waiting,omitempty"`
	// Parts are what the digest is made of, by name, for the record. They are empty as long as Waiting is not.
	Parts map[string]string `json:"-"`
	// Digest is empty as long as Waiting is not.
	Digest string `json:"-"`

	tool string
}

// Settle makes the digest, of what the step itself reads, the clusters that it is for, and the digests of the steps that it
// needs.
func (s *Step) Settle(inputs string, clusters []string, of func(need ID) string) {
	digests := make([]string, 0, len(s.Needs))
	for _, need := range s.Needs {
		digests = append(digests, string(need)+"="+of(need))
	}
	slices.Sort(digests)
	s.Parts = map[string]string{
		"inputs": inputs, "needs": digest(digests...), "tool": s.tool,
		"clusters": strings.Join(clusters, " "),
	}
	s.Digest = digest(s.Parts["inputs"], s.Parts["needs"], s.Parts["tool"], s.Parts["clusters"])
}

// Plan is what a deploy would do, in an order in which it can be done: first what is run, then what is removed.
type Plan struct {
	Steps []Step `json:"steps"`
	// Protect are installations of which the record has to learn that they are protected from now on, or no longer are: it is
	// what keeps them once they are gone from the repo.
	Protect map[string]bool `json:"protect,omitempty"`
}

// Facts are what steps depend on beside what is written down.
type Facts struct {
	// Tools are the names and versions of what steps are taken with, where it matters.
	Tools map[ID]string
	// Clusters are those that a step's services are for.
	Clusters map[ID][]string
	// Gone are installations of which the record says that they are there, and the cluster that they are not.
	Gone []string
}

// Changes says whether there is anything to do.
func (p *Plan) Changes() bool {
	return len(p.Protect) > 0 || slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Action == Run || s.Action == Remove })
}

// Count is how many steps get this action.
func (p *Plan) Count(a Action) int {
	n := 0
	for i := range p.Steps {
		if p.Steps[i].Action == a {
			n++
		}
	}
	return n
}

// Only keeps the named installations' steps, with those before them: what they need or, of what is removed, what needs them.
func (p *Plan) Only(installations []string) *Plan {
	if len(installations) == 0 {
		return p
	}
	wanted := map[ID]bool{}
	out := &Plan{}
	for name, protected := range p.Protect {
		if slices.Contains(installations, name) {
			out.protect(name, protected)
		}
	}
	for i := len(p.Steps) - 1; i >= 0; i-- {
		s := p.Steps[i]
		if !wanted[s.ID] && !slices.Contains(installations, s.ID.Installation()) {
			continue
		}
		out.Steps = append(out.Steps, s)
		for _, need := range s.Needs {
			wanted[need] = true
		}
	}
	slices.Reverse(out.Steps)
	return out
}

func (p *Plan) protect(name string, protected bool) {
	if p.Protect == nil {
		p.Protect = map[string]bool{}
	}
	p.Protect[name] = protected
}

// CycleError says that packages, or steps of one, wait for each other.
type CycleError struct {
	// Path begins and ends with the same name.
	Path []string
}

// Error names the whole circle.
func (e *CycleError) Error() string {
	return "these wait for each other: " + strings.Join(e.Path, " -> ")
}

// Fix says what to do.
func (e *CycleError) Fix() string {
	if strings.Contains(e.Path[0], "/") {
		return "take one of them out of the needs of the next, in the package.yaml that has these steps"
	}
	return "take one of them out of the dependencies of another, in its package.yaml below packages/, or remove it: plural package remove " + e.Path[0]
}

// Of compares what is wanted with what was done. Composed installations may come in any order; dependencies among them that
// are not there are for others to complain about.
func Of(wanted []*compose.Composed, done *ledger.Record, facts Facts) (*Plan, error) {
	ordered, err := order(wanted)
	if err != nil {
		return nil, err
	}
	m := &making{done: done, facts: facts, steps: map[ID]*Step{}, ends: map[string][]ID{}}
	for _, c := range ordered {
		if err := m.installation(c); err != nil {
			return nil, err
		}
	}
	out := &Plan{Steps: make([]Step, 0, len(m.list))}
	stays := map[string]bool{}
	for _, s := range m.list {
		out.Steps = append(out.Steps, *s)
	}
	for _, c := range ordered {
		stays[c.Name] = true
		if was := done.Installations[c.Name]; was != nil && was.Protected != c.Protected {
			out.protect(c.Name, c.Protected)
		}
	}
	out.Steps = append(out.Steps, m.leaving(stays)...)
	return out, nil
}

// making is one plan under way.
type making struct {
	done  *ledger.Record
	facts Facts
	steps map[ID]*Step
	list  []*Step
	// ends are the steps of each installation that whoever depends on it waits for: all that are taken.
	ends map[string][]ID
}

func (m *making) installation(c *compose.Composed) error {
	steps, err := orderSteps(c)
	if err != nil {
		return err
	}
	var before []ID
	for _, dependency := range c.DependsOn {
		before = append(before, m.ends[dependency]...)
	}
	for _, step := range steps {
		s := &Step{ID: NewID(c.Name, step.Name), Kind: step.Kind}
		m.steps[s.ID] = s
		if step.Skipped {
			s.Action, s.Reason = Skipped, "its condition does not hold"
			m.list = append(m.list, s)
			continue
		}
		for _, need := range step.Needs {
			if other := m.steps[NewID(c.Name, need)]; other != nil && other.Action != Skipped {
				s.Needs = append(s.Needs, other.ID)
			}
		}
		if len(s.Needs) == 0 { // the first ones wait for the packages before, the others thereby too
			s.Needs = slices.Clone(before)
		}
		for _, id := range step.Waiting {
			s.Waiting = append(s.Waiting, ID(id))
		}
		s.tool = m.facts.Tools[s.ID]
		if len(s.Waiting) == 0 {
			s.Settle(step.Digest, m.facts.Clusters[s.ID], func(need ID) string { return m.steps[need].Digest })
		}
		m.decide(c, s)
		m.list = append(m.list, s)
		m.ends[c.Name] = append(m.ends[c.Name], s.ID)
	}
	if len(m.ends[c.Name]) == 0 { // a package that only brings others along
		m.ends[c.Name] = before
	}
	return nil
}

// decide says what is to be done about a step whose needs are decided.
func (m *making) decide(c *compose.Composed, s *Step) {
	var running ID
	for _, need := range s.Needs {
		if m.steps[need].Action == Run {
			running = need
			break
		}
	}
	was := recorded(m.done, s.ID)
	switch {
	case was == nil:
		s.Action, s.Reason = Run, "new"
	case running != "":
		s.Action, s.Reason = Run, "after "+string(running)
	case len(s.Waiting) > 0:
		s.Action, s.Reason = Run, "the outputs of "+string(s.Waiting[0])+" are not there"
	case was.Digest != s.Digest:
		s.Action, s.Reason = Run, m.reason(c, s, was)
	case slices.Contains(m.facts.Gone, c.Name):
		s.Action, s.Reason = Run, "it is gone from its cluster"
	default:
		s.Action = Unchanged
	}
}

// reason says what differs from the last time.
func (m *making) reason(c *compose.Composed, s *Step, was *ledger.Step) string {
	from := m.done.Installations[c.Name].Version
	switch {
	case was.Digest == "":
		return "it was not finished"
	case from != c.Version:
		return fmt.Sprintf("version %s -> %s", from, c.Version)
	case was.Parts["tool"] != s.Parts["tool"]:
		return fmt.Sprintf("%s -> %s", was.Parts["tool"], s.Parts["tool"])
	case was.Parts["clusters"] != s.Parts["clusters"]:
		return "it is for other clusters"
	case was.Parts["inputs"] == s.Parts["inputs"]:
		return "what comes before it changed"
	}
	return "what it reads changed"
}

// leaving are the steps that were taken and are wanted no longer, each after those that needed it. What is protected stays, and
// of an installation that is not wanted at all any more also what it needs.
func (m *making) leaving(stays map[string]bool) []Step {
	gone := map[ID]*Step{}
	kept := protected(m.done, func(name string) bool { return !stays[name] })
	for name, installation := range m.done.Installations {
		for step, was := range installation.Steps {
			id := NewID(name, step)
			if s := m.steps[id]; s != nil && s.Action != Skipped {
				continue
			}
			s := &Step{ID: id, Kind: was.Kind, Action: Remove, Reason: "no longer wanted"}
			if installation.Protected {
				s.Action, s.Reason = Keep, "protected"
			} else if by := kept[name]; by != "" {
				s.Action, s.Reason = Keep, by
			}
			gone[id] = s
		}
	}
	return takenDown(m.done, gone)
}

// Down is the plan that takes everything down that was done, but what is protected and what that needs. The installations
// that are named first go before all others.
func Down(done *ledger.Record, first ...string) *Plan {
	gone := map[ID]*Step{}
	kept := protected(done, func(string) bool { return true })
	for name, installation := range done.Installations {
		for step, was := range installation.Steps {
			s := &Step{ID: NewID(name, step), Kind: was.Kind, Action: Remove, Reason: "down"}
			if by := kept[name]; by != "" {
				s.Action, s.Reason = Keep, by
			}
			gone[s.ID] = s
		}
	}
	for id, s := range gone {
		if slices.Contains(first, id.Installation()) {
			continue
		}
		for other := range gone {
			if slices.Contains(first, other.Installation()) && gone[other].Action == Remove {
				s.Needs = append(s.Needs, other)
			}
		}
	}
	return &Plan{Steps: takenDown(done, gone, first...)}
}

// protected says why installations have to stay: those that are protected themselves, as far as they count, and what they need.
func protected(done *ledger.Record, counts func(name string) bool) map[string]string {
	kept := map[string]string{}
	var keep func(name, why string)
	keep = func(name, why string) {
		installation := done.Installations[name]
		if installation == nil || kept[name] != "" {
			return
		}
		kept[name] = why
		for _, dependency := range installation.DependsOn {
			keep(dependency, "needed by "+name+", which is protected")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(done.Installations)) {
		if done.Installations[name].Protected && counts(name) {
			kept[name] = ""
			keep(name, "protected")
		}
	}
	return kept
}

// takenDown puts steps that leave into the opposite of the order in which they were taken.
func takenDown(done *ledger.Record, gone map[ID]*Step, first ...string) []Step {
	for id, s := range gone {
		if s.Action == Keep {
			continue
		}
		if slices.Contains(first, id.Installation()) {
			continue // everything waits for them already
		}
		for _, need := range before(done, id) {
			if other := gone[need]; other != nil {
				other.Needs = append(other.Needs, id)
			}
		}
	}
	ids := slices.Sorted(maps.Keys(gone))
	var out []Step
	placed := map[ID]bool{}
	var place func(id ID)
	place = func(id ID) {
		if placed[id] {
			return
		}
		placed[id] = true
		slices.Sort(gone[id].Needs)
		for _, need := range gone[id].Needs {
			place(need)
		}
		out = append(out, *gone[id])
	}
	for _, id := range ids {
		place(id)
	}
	return out
}

// before are the recorded steps that one was taken after: those of its own installation and all of those that it depends on.
func before(done *ledger.Record, id ID) []ID {
	installation := done.Installations[id.Installation()]
	var ids []ID
	for _, need := range installation.Steps[id.Step()].Needs {
		ids = append(ids, NewID(id.Installation(), need))
	}
	for _, dependency := range installation.DependsOn {
		if other := done.Installations[dependency]; other != nil {
			for step := range other.Steps {
				ids = append(ids, NewID(dependency, step))
			}
		}
	}
	return ids
}

func recorded(done *ledger.Record, id ID) *ledger.Step {
	if installation := done.Installations[id.Installation()]; installation != nil {
		return installation.Steps[id.Step()]
	}
	return nil
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
