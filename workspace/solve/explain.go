package solve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/packages"
)

// What an explanation has at most: people read the beginning.
const (
	mostReasons = 24
	mostRanges  = 4
	mostTrials  = 12
)

// explain makes an error of facts that cannot all hold.
func (s *solver) explain(core []int) error {
	effort := explainEffort
	s.effort = &effort
	x := &explanation{solver: s}
	for _, i := range s.fewest(core) {
		x.facts = append(x.facts, s.facts[i])
	}
	for i, f := range x.facts {
		if f.want >= 0 {
			x.tell(i)
		}
	}
	for i := range x.facts { // of what is there for another reason than those that clash
		x.tell(i)
	}
	x.clash()
	if more := len(x.reasons) - mostReasons; more > 0 {
		x.reasons = append(x.reasons[:mostReasons], fmt.Sprintf("and %d more of the kind", more))
	}
	return &ConflictError{Reasons: x.reasons, Fixes: x.fixes()}
}

// fewest leaves out facts as long as the others still cannot all hold.
func (s *solver) fewest(core []int) []int {
	for i := len(core) - 1; i >= 0 && *s.effort >= 0; i-- {
		without := slices.Delete(slices.Clone(core), i, i+1)
		if clash := s.clashing(without); clash != nil {
			core = clash
			i = min(i, len(core))
		}
	}
	return core
}

// clashing gives facts among the given ones that cannot all hold; nil when they can, or nobody knows.
func (s *solver) clashing(facts []int) []int {
	closed := &solver{slots: s.slots, closed: true, effort: s.effort}
	for _, each := range s.slots.list {
		closed.engine.add(len(each.versions))
	}
	for _, i := range facts {
		f := s.facts[i]
		closed.pending = append(closed.pending, &rule{terms: f.rule.terms, facts: []int{i}})
		if len(f.choices) > 1 {
			closed.required = append(closed.required, &f)
		}
	}
	core, err := closed.search()
	if err != nil {
		return nil
	}
	return core
}

// explanation is told in the order in which one thing leads to another.
type explanation struct {
	*solver
	facts   []fact
	told    []int
	reasons []string
}

// tell says a fact, and then those that it brings up.
func (x *explanation) tell(i int) {
	if slices.Contains(x.told, i) {
		return
	}
	x.told = append(x.told, i)
	f := x.facts[i]
	x.reasons = append(x.reasons, x.sentence(f))
	for _, c := range f.choices {
		for j, other := range x.facts {
			if other.slot == c.slot {
				x.tell(j)
			}
		}
	}
}

// sentence says one fact.
func (x *explanation) sentence(f fact) string {
	if f.want >= 0 {
		w := x.wants[f.want]
		text := w.By + " asks for " + ask(w.Name, w.Range)
		if w.As != "" && w.As != w.Name {
			text += " as " + w.As
		}
		return text + x.outcome(f, []packages.Alternative{{Package: w.Name, Version: w.Range}})
	}
	who, many := x.span(f.slot, x.relevant(f.slot, f.need.of))
	verb := "needs "
	if many {
		verb = "need "
	}
	if f.need.Optional {
		verb = map[bool]string{false: "goes only with ", true: "go only with "}[many]
	}
	var all []string
	for _, c := range f.need.Choices() {
		all = append(all, ask(c.Package, c.Version))
	}
	return who + " " + verb + strings.Join(all, " or ") + x.outcome(f, f.need.Choices())
}

func ask(name, versions string) string {
	if versions == "" {
		return name
	}
	return name + " " + versions
}

// relevant are those values of a set that the other facts leave a slot.
func (x *explanation) relevant(at int, of set) set {
	left := of
	for _, f := range x.facts {
		if len(f.choices) == 1 && f.choices[0].slot == at {
			left = left.and(f.choices[0].fits)
		}
	}
	if left.empty() {
		return of
	}
	return left
}

// outcome says what a range comes to, where that is not plain from its words.
func (x *explanation) outcome(f fact, asked []packages.Alternative) string {
	var fits, not []string
	for _, c := range f.choices {
		each := x.slots.list[c.slot]
		if !c.fits.empty() {
			if !slices.ContainsFunc(asked, func(a packages.Alternative) bool { return a.Package == each.name }) {
				text, _ := x.span(c.slot, c.fits)
				fits = append(fits, text)
			}
		} else if len(each.versions) > 1 {
			not = append(not, each.name+" "+each.versions[1].Version.Version)
		}
	}
	switch {
	case len(fits) > 0:
		return ", which " + strings.Join(fits, " and ") + " would be"
	case slices.ContainsFunc(f.choices, func(c choice) bool { return !c.fits.empty() }):
		return ""
	case len(not) > 0:
		return ", and there is none: the newest is " + strings.Join(not, " or ")
	}
	text := ", which no catalog has"
	if near := x.near(asked[0].Package); near != "" {
		text += " (there is " + near + ")"
	}
	return text
}

// span names some versions of a slot: "web 1.2.0 to 1.4.2".
func (x *explanation) span(at int, of set) (text string, many bool) {
	each := x.slots.list[at]
	count, last := 0, -1
	var parts []string
	for value := len(each.versions) - 1; value > 0; value-- {
		if !of.has(value) {
			last = -1
			continue
		}
		count++
		if last < 0 {
			last = value
		}
		if value == 1 || !of.has(value-1) {
			part := each.versions[last].Version.Version
			if last != value {
				part += " to " + each.versions[value].Version.Version
			}
			parts = append(parts, part)
		}
	}
	if more := len(parts) - mostRanges; more > 0 {
		parts = append(parts[:mostRanges], fmt.Sprintf("%d more", more))
	}
	name := each.name
	if each.as != each.name {
		name += " (" + each.as + ")"
	}
	if count == len(each.versions)-1 && count > 1 {
		return "every version of " + name, false
	}
	if len(parts) > 1 {
		parts = []string{strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]}
	}
	return name + " " + strings.Join(parts, ""), count > 1
}

// clash says which package cannot be as all want it. Where different versions of one package want different things there is
// more than one end to tell of, and the single sentences do.
func (x *explanation) clash() {
	if x.branches() {
		return
	}
	for at, each := range x.slots.list {
		var asked []string
		left := x.engine.every[at]
		for _, f := range x.facts {
			if f.choices[0].slot == at && !f.choices[0].fits.empty() {
				left = left.and(f.choices[0].fits)
				asked = append(asked, x.asks(f, each.name))
			}
		}
		if len(asked) > 1 && left.empty() {
			x.reasons = append(x.reasons, fmt.Sprintf("so no version of %s will do: none is %s", each.name, strings.Join(asked, " and ")))
		}
	}
}

func (x *explanation) branches() bool {
	together := map[int]set{}
	for _, f := range x.facts {
		if len(f.choices) != 1 {
			return true
		}
		if f.slot < 0 {
			continue
		}
		if _, ok := together[f.slot]; !ok {
			together[f.slot] = x.engine.every[f.slot]
		}
		if together[f.slot] = together[f.slot].and(f.need.of); together[f.slot].empty() {
			return true
		}
	}
	return false
}

// asks is how a fact asks for a package: by a range, or by another name.
func (x *explanation) asks(f fact, name string) string {
	asked := []packages.Alternative{}
	if f.want >= 0 {
		asked = append(asked, packages.Alternative{Package: x.wants[f.want].Name, Version: x.wants[f.want].Range})
	} else {
		asked = f.need.Choices()
	}
	for _, a := range asked {
		if a.Package == name && a.Version != "" {
			return a.Version
		}
	}
	if asked[0].Package == name {
		return "stable"
	}
	return ask(asked[0].Package, asked[0].Version)
}

// fixes are those changes of one want that lead to a solution: another range, or doing without.
func (x *explanation) fixes() []string {
	var fixes []string
	for _, f := range x.facts {
		if f.want < 0 || len(fixes) >= mostTrials || x.wants[f.want].Range == "" {
			continue
		}
		other := slices.Clone(x.wants)
		w := &other[f.want]
		w.Range = ""
		if solution := x.trial(other); solution != nil {
			fixes = append(fixes, fmt.Sprintf("in %s, ask for %s instead of %s", w.By, solution.named(*w), x.wants[f.want].Range))
		}
	}
	if len(fixes) > 0 {
		return fixes
	}
	for _, f := range x.facts {
		if f.want < 0 || len(fixes) >= mostTrials || len(x.wants) == 1 {
			continue
		}
		w := x.wants[f.want]
		if x.trial(slices.Delete(slices.Clone(x.wants), f.want, f.want+1)) != nil {
			fixes = append(fixes, fmt.Sprintf("do without %s, which %s asks for", installation(w), w.By))
		}
	}
	return append(fixes, x.outside()...)
}

// trial gives what comes of other wants; nil when nothing fits either, or it would take too long to know.
func (x *explanation) trial(wants []Want) *Solution {
	if *x.effort < 0 {
		return nil
	}
	s, core, err := solve(wants, x.slots.universe, x.slots.locked, *x.effort)
	if err != nil || core != nil {
		return nil
	}
	*x.effort = *s.effort
	solution, err := s.solution()
	if err != nil {
		return nil
	}
	return solution
}

// named is what a want came to.
func (s *Solution) named(w Want) string {
	for _, p := range s.Picks {
		if p.As == installation(w) {
			return p.Name + " " + p.Version
		}
	}
	return "another " + w.Name
}

// outside is what only others can do.
func (x *explanation) outside() []string {
	var lacking, makers []string
	for _, f := range x.facts {
		if f.want >= 0 {
			continue
		}
		makers = append(makers, x.slots.list[f.slot].name)
		if !slices.ContainsFunc(f.choices, func(c choice) bool { return !c.fits.empty() }) {
			c := f.need.Choices()[0]
			lacking = append(lacking, fmt.Sprintf("a catalog that has %s: name it in spec.catalogs of plural.yaml", ask(c.Package, c.Version)))
		}
	}
	if len(lacking) == 0 && len(makers) > 0 {
		slices.Sort(makers)
		lacking = []string{"another version of " + strings.Join(slices.Compact(makers), " or ") + ", from whoever makes it"}
	}
	slices.Sort(lacking)
	return slices.Compact(lacking)
}

// unknown is the error for a name that nobody has.
func (s *solver) unknown(w Want) error {
	err := &UnknownError{Name: w.Name, Catalog: w.Catalog, By: w.By}
	if w.Catalog != "" {
		if list, _ := s.slots.versions(w.Name); len(list) > 0 {
			err.Elsewhere = list[0].Catalog
			return err
		}
	}
	err.Near = s.near(w.Name)
	return err
}

// near is the known name that another may be a slip of.
func (s *solver) near(name string) string {
	all, ok := s.slots.universe.(Naming)
	if !ok || len(name) > 64 {
		return ""
	}
	best, _ := yamlstrict.Nearest(name, all.Names())
	return best
}
