package plan

import (
	"slices"

	"github.com/pluralsh/plural/installer/ledger"
	"github.com/pluralsh/plural/workspace/compose"
)

// Side is one of two states of an installation repo, composed.
type Side struct {
	Composed []*compose.Composed
	Facts    Facts
	// Sums are over all that an installation has in the repo. They stand for what its steps read that wait for outputs, since
	// nobody can tell that yet.
	Sums map[string]string
}

// Between is what a deploy of the second state would do where the first one is deployed, whatever really is.
func Between(before, after Side) (*Plan, error) {
	old, now := before.settled(&after), after.settled(&before)
	first, err := Of(old, &ledger.Record{}, before.Facts)
	if err != nil {
		return nil, err
	}
	return Of(now, taken(first, old), after.Facts)
}

// settled are the installations, in which steps that wait for the same on both sides wait no longer: they are compared by the
// sums.
func (s *Side) settled(other *Side) []*compose.Composed {
	list := make([]*compose.Composed, len(s.Composed))
	for i, c := range s.Composed {
		copied := *c
		copied.Steps = slices.Clone(c.Steps)
		for n := range copied.Steps {
			step := &copied.Steps[n]
			at := find(other.Composed, c.Name, step.Name)
			if len(step.Waiting) > 0 && at != nil && slices.Equal(at.Waiting, step.Waiting) {
				step.Waiting, step.Digest = nil, s.Sums[c.Name]
			}
		}
		list[i] = &copied
	}
	return list
}

func find(composed []*compose.Composed, name, step string) *compose.Step {
	for _, c := range composed {
		for i := range c.Steps {
			if c.Name == name && c.Steps[i].Name == step {
				return &c.Steps[i]
			}
		}
	}
	return nil
}

// taken is the record of a plan that was carried out.
func taken(p *Plan, of []*compose.Composed) *ledger.Record {
	record := &ledger.Record{Installations: map[string]*ledger.Installation{}}
	for _, c := range of {
		record.Installations[c.Name] = &ledger.Installation{
			Version: c.Version, DependsOn: c.DependsOn, Protected: c.Protected, Steps: map[string]*ledger.Step{},
		}
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		if s.Action != Run {
			continue
		}
		step := &ledger.Step{Kind: s.Kind, Digest: s.Digest, Parts: s.Parts}
		if len(s.Waiting) > 0 {
			step.Digest = "waiting" // what it read then is not what it reads now
		}
		for _, need := range s.Needs {
			if need.Installation() == s.ID.Installation() {
				step.Needs = append(step.Needs, need.Step())
			}
		}
		record.Installations[s.ID.Installation()].Steps[s.ID.Step()] = step
	}
	return record
}
