package solve

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pluralsh/plural/workspace/versions"
)

// How many dead ends a search, and all that is tried for an explanation, may run into: whoever publishes packages could
// otherwise keep everybody busy for ever.
const (
	searchEffort  = 20_000
	explainEffort = 5_000
	// patience is how many dead ends it takes until the slots with the most trouble go first.
	patience = 200
)

// ErrTooHard says that the search was given up.
var ErrTooHard = fmt.Errorf("no answer after %d dead ends: ask for narrower ranges of versions", searchEffort)

// solver is one search.
type solver struct {
	engine engine
	slots  slots
	wants  []Want
	// facts are what rules rest on, pending those rules that the engine has not been told.
	facts   []fact
	pending []*rule
	// optionals concern packages that may yet come up too; required are those facts that leave a choice.
	optionals []optional
	required  []*fact
	// closed keeps to the rules that are there.
	closed bool
	// effort is how many dead ends are left until the search is given up.
	effort *int
	// deadEnds counts them; hard is set when there were many.
	deadEnds int
	hard     bool
}

// fact is what one rule rests on: a want, or a dependency of a slot.
type fact struct {
	// want is a number; -1 for a dependency.
	want int
	// slot has the dependency; -1 for a want.
	slot int
	need *need
	// choices are what would do, the best first.
	choices []choice
	rule    *rule
}

// choice is a slot that may stand for something, with the values that do.
type choice struct {
	slot int
	fits set
}

// optional is a dependency that only counts for packages that are there anyway.
type optional struct {
	slot   int
	need   *need
	ranges []versions.Range
}

// solve gives either facts that cannot all hold, or a solver that has found a solution.
func solve(wants []Want, u Universe, locked map[string]string, effort int) (*solver, []int, error) {
	s := &solver{wants: wants, effort: &effort}
	s.slots = newSlots(u, locked, s.meet)
	if err := s.ask(); err != nil {
		return nil, nil, err
	}
	core, err := s.search()
	return s, core, err
}

// ask makes slots and rules of the wants.
func (s *solver) ask() error {
	ranges := make([]versions.Range, len(s.wants))
	at := make([]int, len(s.wants))
	for i, w := range s.wants {
		var err error
		if ranges[i], err = s.slots.parse(w.Range); err != nil {
			return &RangeError{By: w.By, Name: w.Name, Err: err}
		}
		if at[i], err = s.wanted(w); err != nil {
			return err
		}
		if at[i] >= 0 {
			s.slots.list[at[i]].admit(ranges[i])
		}
	}
	s.slots.wanted = len(s.slots.list)
	for i, w := range s.wants {
		standing := []int{at[i]}
		if at[i] < 0 {
			var err error
			if standing, err = s.slots.standing(w.Name); err != nil {
				return err
			}
		}
		f := fact{want: i, slot: -1}
		for _, slot := range standing {
			fits, _ := s.slots.list[slot].fits(w.Name, ranges[i])
			f.choices = append(f.choices, choice{slot, fits})
		}
		s.require(f)
	}
	return nil
}

// wanted is the slot that a want is about; -1 when the name is one that packages provide.
func (s *solver) wanted(w Want) (int, error) {
	as := installation(w)
	if at := slices.IndexFunc(s.slots.list, func(each *slot) bool { return each.as == as }); at >= 0 {
		if have := s.slots.list[at].name; have != w.Name {
			return 0, fmt.Errorf("%s asks for the package %s as %s, which is an installation of %s: give it another name",
				w.By, w.Name, as, have)
		}
		return at, nil
	}
	list, err := s.offered(w)
	if err != nil {
		return 0, err
	}
	switch {
	case len(list) == 0:
		return 0, s.unknown(w)
	case slices.ContainsFunc(list, func(v Version) bool { return v.Name == w.Name }):
		return s.slots.add(as, w.Name, w.Catalog, w.Locked, list), nil
	}
	return -1, nil
}

func installation(w Want) string {
	if w.As != "" {
		return w.As
	}
	return w.Name
}

// offered are the versions that a want may mean.
func (s *solver) offered(w Want) ([]Version, error) {
	if w.Catalog == "" {
		return s.slots.versions(w.Name)
	}
	from, ok := s.slots.universe.(Choosing)
	if !ok {
		return nil, errors.New("packages of one catalog are asked for, and nobody knows the catalogs")
	}
	list, err := from.VersionsFrom(w.Catalog, w.Name)
	if err != nil {
		return nil, fmt.Errorf("look %s up in catalog %s: %w", w.Name, w.Catalog, err)
	}
	return list, nil
}

// meet makes a slot known to the engine, and to those that care for it only when it is there.
func (s *solver) meet(at int) {
	s.engine.add(len(s.slots.list[at].versions))
	for _, o := range s.optionals {
		s.limit(o, at)
	}
}

// require has one of a fact's choices hold where the fact does.
func (s *solver) require(f fact) {
	var terms []term
	if f.slot >= 0 {
		terms = append(terms, term{f.slot, f.need.of})
	}
	for _, c := range f.choices {
		terms = append(terms, term{c.slot, s.engine.every[c.slot].minus(c.fits)})
	}
	s.state(f, terms)
}

// limit keeps a slot to what an optional dependency can go with.
func (s *solver) limit(o optional, at int) {
	if at == o.slot {
		return
	}
	each := s.slots.list[at]
	fits, offering := newSet(len(each.versions)), newSet(len(each.versions))
	for i, c := range o.need.Choices() {
		f, of := each.fits(c.Package, o.ranges[i])
		fits, offering = fits.or(f), offering.or(of)
	}
	if bad := offering.minus(fits); !bad.empty() {
		s.state(fact{want: -1, slot: o.slot, need: o.need, choices: []choice{{at, fits}}}, []term{{o.slot, o.need.of}, {at, bad}})
	}
}

// state makes a rule of a fact.
func (s *solver) state(f fact, terms []term) {
	f.rule = s.engine.rule(terms, len(s.facts))
	s.facts = append(s.facts, f)
	s.pending = append(s.pending, f.rule)
	if len(f.choices) > 1 {
		s.required = append(s.required, &f)
	}
}

// expand makes rules of a slot's dependencies at one value.
func (s *solver) expand(at, value int) error {
	each := s.slots.list[at]
	each.expanded.add(value)
	for _, n := range each.needs {
		if n.posted || !n.of.has(value) {
			continue
		}
		n.posted = true
		if err := s.depend(at, n); err != nil {
			return fmt.Errorf("%s %s: %w", each.name, each.versions[value].Version.Version, err)
		}
	}
	return nil
}

func (s *solver) depend(at int, n *need) error {
	f := fact{want: -1, slot: at, need: n}
	ranges := make([]versions.Range, len(n.Choices()))
	for i, c := range n.Choices() {
		var err error
		if ranges[i], err = s.slots.parse(c.Version); err != nil {
			return &RangeError{By: s.slots.list[at].name, Name: c.Package, Err: err}
		}
	}
	if n.Optional {
		o := optional{at, n, ranges}
		s.optionals = append(s.optionals, o)
		for other := range s.slots.list {
			s.limit(o, other)
		}
		return nil
	}
	for i, c := range n.Choices() {
		standing, err := s.slots.standing(c.Package)
		if err != nil {
			return err
		}
		for _, other := range standing {
			if fits, _ := s.slots.list[other].fits(c.Package, ranges[i]); other != at {
				f.choices = join(f.choices, choice{other, fits})
			}
		}
	}
	n.choices = f.choices
	s.require(f)
	return nil
}

// join adds a choice to those that are there; one slot is one choice.
func join(choices []choice, c choice) []choice {
	for i := range choices {
		if choices[i].slot == c.slot {
			choices[i].fits = choices[i].fits.or(c.fits)
			return choices
		}
	}
	return append(choices, c)
}

// search goes on until all slots that must be there have their value. The result is nil, or facts that cannot all hold.
func (s *solver) search() (core []int, err error) {
	for {
		if broken := s.conclude(); broken != nil {
			if facts, ok := s.engine.learn(broken); !ok {
				return facts, nil
			}
			if *s.effort--; *s.effort < 0 {
				return nil, ErrTooHard
			}
			if s.deadEnds++; s.deadEnds == patience {
				s.hard = true
				s.engine.back(0)
			}
			continue
		}
		if more, err := s.unfold(); err != nil {
			return nil, err
		} else if more {
			continue
		}
		at, value, ok := s.choose()
		if !ok {
			return nil, nil
		}
		s.engine.decide(at, value)
	}
}

// conclude draws all conclusions; a rule is what broke.
func (s *solver) conclude() *rule {
	for len(s.pending) > 0 {
		next := s.pending[0]
		s.pending = s.pending[1:]
		if broken := s.engine.post(next); broken != nil {
			return broken
		}
	}
	return s.engine.propagate()
}

// unfold makes rules of what is known to be there.
func (s *solver) unfold() (more bool, err error) {
	if s.closed {
		return false, nil
	}
	e := &s.engine
	for ; e.seen < len(e.trail); e.seen++ {
		at := e.trail[e.seen].slot
		value, ok := e.known[at].single()
		if !ok || value == 0 || s.slots.list[at].expanded.has(value) {
			continue
		}
		if err := s.expand(at, value); err != nil {
			return false, err
		}
		more = true
	}
	return more, nil
}

// choose picks the next slot that must have a value: the first that must be there, or the one with the most trouble where the
// search is hard; else one of those of which one must be.
func (s *solver) choose() (at, value int, ok bool) {
	at = -1
	for i, known := range s.engine.known {
		if _, decided := known.single(); decided || known.has(0) {
			continue
		}
		if at < 0 || s.engine.trouble[i] > s.engine.trouble[at] {
			at = i
		}
		if !s.hard {
			break
		}
	}
	if at >= 0 {
		return at, s.best(at, s.engine.known[at]), true
	}
	for _, f := range s.required {
		if f.slot >= 0 && !s.engine.known[f.slot].within(f.need.of) || s.met(f) {
			continue
		}
		best := -1
		for i, c := range f.choices {
			if s.engine.known[c.slot].meets(c.fits) && (best < 0 || s.liking(c) > s.liking(f.choices[best])) {
				best = i
			}
		}
		c := f.choices[best]
		return c.slot, s.best(c.slot, s.engine.known[c.slot].and(c.fits)), true
	}
	return 0, 0, false
}

func (s *solver) met(f *fact) bool {
	return slices.ContainsFunc(f.choices, func(c choice) bool { return s.engine.known[c.slot].within(c.fits) })
}

// liking is more for what is there already, and for what is locked.
func (s *solver) liking(c choice) int {
	each := s.slots.list[c.slot]
	switch possible := s.engine.known[c.slot].and(c.fits); {
	case !s.engine.known[c.slot].has(0):
		return 2
	case each.locked > 0 && possible.has(each.locked):
		return 1
	}
	return 0
}

// best is what is locked, else the newest, of values that are not empty.
func (s *solver) best(at int, of set) int {
	if locked := s.slots.list[at].locked; locked > 0 && of.has(locked) {
		return locked
	}
	value := 1
	for !of.has(value) {
		value++
	}
	return value
}
