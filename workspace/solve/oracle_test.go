package solve

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// oracle knows by trying everything whether something fits together. It shares no code with the solver but the ranges.
type oracle struct {
	universe list
	wants    []Want
	locked   map[string]string
	// as are the installations that there may be, names the package of each; the first are those that are wanted.
	as     []string
	names  map[string]string
	wanted int
}

func newOracle(u list, wants []Want, locked map[string]string) *oracle {
	o := &oracle{universe: u, wants: wants, locked: locked, names: map[string]string{}}
	add := func(as, name string) {
		if o.names[as] == "" {
			o.as, o.names[as] = append(o.as, as), name
		}
	}
	taken := map[string]bool{}
	for _, w := range wants {
		if o.exists(w.Name) {
			add(installation(w), w.Name)
			taken[w.Name] = true
		}
	}
	o.wanted = len(o.as)
	for _, v := range u {
		if !taken[v.Name] {
			add(v.Name, v.Name)
		}
	}
	return o
}

func (o *oracle) exists(name string) bool {
	return slices.ContainsFunc(o.universe, func(v Version) bool { return v.Name == name })
}

// versions are those of an installation, the best first.
func (o *oracle) versions(as string) []Version {
	var all []Version
	for _, v := range o.universe {
		if v.Name == o.names[as] {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b Version) int {
		if l := o.lockedAt(as); l == a.Version || l == b.Version {
			return rank(a.Version == l) - rank(b.Version == l)
		}
		return versions.Compare(versions.Parse(b.Version), versions.Parse(a.Version))
	})
	return all
}

func (o *oracle) lockedAt(as string) string {
	for _, w := range o.wants {
		if installation(w) == as {
			if w.Locked != "" {
				return w.Locked
			}
			break
		}
	}
	return o.locked[as]
}

func in(version, text string, admitted bool) bool {
	r, err := versions.ParseRange(text)
	if err != nil {
		panic(err)
	}
	return r.Has(versions.Parse(version), admitted)
}

// stands says whether a version of an installation may be asked for by a name, and whether it is in the range then.
func (o *oracle) stands(as string, v Version, name, text string) (may, fits bool) {
	admitted := o.lockedAt(as) == v.Version
	for _, w := range o.wants {
		admitted = admitted || installation(w) == as && o.names[as] == w.Name && in(v.Version, w.Range, false)
	}
	if v.Name == name {
		may, fits = true, in(v.Version, text, admitted)
	}
	for _, p := range v.Provides {
		if p.Name == name {
			at := p.Version
			if at == "" {
				at = v.Version
			}
			may, fits = true, fits || in(at, text, admitted)
		}
	}
	return may, fits
}

// listed says whether an installation is asked about a name at all.
func (o *oracle) listed(as, name string) bool {
	return o.names[as] == name || !o.exists(name) || slices.Index(o.as, as) < o.wanted
}

// valid says why an assignment breaks a rule; empty when it breaks none.
func (o *oracle) valid(have map[string]Version) string {
	for _, w := range o.wants {
		ok := false
		for as, v := range have {
			_, fits := o.stands(as, v, w.Name, w.Range)
			ok = ok || fits && (as == installation(w) && o.names[as] == w.Name || !o.exists(w.Name))
		}
		if !ok {
			return fmt.Sprintf("%s does not get %s %s", w.By, w.Name, w.Range)
		}
	}
	for as, v := range have {
		for _, d := range v.Dependencies {
			met := false
			for other, w := range have {
				if other == as {
					continue
				}
				may, fits := false, false
				for _, c := range d.Choices() {
					m, f := o.stands(other, w, c.Package, c.Version)
					may, fits = may || m, fits || f
					met = met || f && o.listed(other, c.Package)
				}
				if d.Optional && may && !fits {
					return fmt.Sprintf("%s %s does not go with %s %s", as, v.Version, other, w.Version)
				}
			}
			if !d.Optional && !met {
				return fmt.Sprintf("%s %s lacks %s", as, v.Version, d.Key())
			}
		}
	}
	return ""
}

// possible says whether the choice so far can be completed.
func (o *oracle) possible(have map[string]Version, next int) bool {
	if next == len(o.as) {
		return o.valid(have) == ""
	}
	as := o.as[next]
	if _, chosen := have[as]; chosen {
		return o.possible(have, next+1)
	}
	if next >= o.wanted && o.possible(have, next+1) {
		return true
	}
	for _, v := range o.versions(as) {
		have[as] = v
		if o.possible(have, next+1) {
			delete(have, as)
			return true
		}
		delete(have, as)
	}
	return false
}

// best are the versions of what is wanted, each the best that leaves a solution with those before it.
func (o *oracle) best() map[string]Version {
	have := map[string]Version{}
	for _, as := range o.as[:o.wanted] {
		for _, v := range o.versions(as) {
			if have[as] = v; o.possible(have, 0) {
				break
			}
		}
	}
	return have
}

func drawUniverse(t *rapid.T) list {
	ranges := rapid.SampledFrom([]string{"", ">=2", "<2", "1.0.0", "3.0.0", ">=2.0.0-0", "^1 || ^3"})
	alternative := rapid.Custom(func(t *rapid.T) packages.Alternative {
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "p", "q"}).Draw(t, "name")
		return packages.Alternative{Package: name, Version: ranges.Draw(t, "range")}
	})
	dependency := rapid.Custom(func(t *rapid.T) packages.Dependency {
		d := packages.Dependency{Optional: rapid.Float64Range(0, 1).Draw(t, "optional") > 0.8}
		if rapid.Float64Range(0, 1).Draw(t, "any") > 0.7 {
			d.Name, d.AnyOf = "any", rapid.SliceOfN(alternative, 2, 3).Draw(t, "of")
		} else {
			a := alternative.Draw(t, "one")
			d.Package, d.Version = a.Package, a.Version
		}
		return d
	})
	var all list
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, version := range []string{"1.0.0", "2.0.0-rc.1", "2.0.0", "3.0.0"}[:rapid.IntRange(1, 4).Draw(t, "versions of "+name)] {
			v := Version{Name: name, Version: version, Dependencies: rapid.SliceOfN(dependency, 0, 2).Draw(t, name+" "+version)}
			if rapid.Float64Range(0, 1).Draw(t, "provides") > 0.6 {
				v.Provides = []packages.Provided{{
					Name:    rapid.SampledFrom([]string{"p", "q", "a"}).Draw(t, "provided"),
					Version: rapid.SampledFrom([]string{"", "1.0.0", "2.0.0"}).Draw(t, "as"),
				}}
			}
			all = append(all, v)
		}
	}
	return all
}

func drawWants(t *rapid.T) []Want {
	want := rapid.Custom(func(t *rapid.T) Want {
		return Want{
			Name:   rapid.SampledFrom([]string{"a", "b", "c", "a", "p"}).Draw(t, "name"),
			Range:  rapid.SampledFrom([]string{"", "", ">=2", "<3", ">=2.0.0-0"}).Draw(t, "range"),
			Locked: rapid.SampledFrom([]string{"", "", "1.0.0", "2.0.0-rc.1"}).Draw(t, "locked"),
		}
	})
	wants := rapid.SliceOfN(want, 1, 3).Draw(t, "wants")
	for i := range wants {
		wants[i].By = fmt.Sprintf("person %d", i)
		if wants[i].Name == "a" && rapid.Bool().Draw(t, "another") {
			wants[i].As = "another"
		}
	}
	return wants
}

func TestWhatFitsIsFoundAndItIsTheBest(t *testing.T) {
	found, conflicts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		u, wants := drawUniverse(t), drawWants(t)
		locked := map[string]string{}
		for _, name := range []string{"c", "d", "e"} {
			if v := rapid.SampledFrom([]string{"", "1.0.0", "2.0.0-rc.1"}).Draw(t, "locked "+name); v != "" {
				locked[name] = v
			}
		}
		o := newOracle(u, wants, locked)
		s, core, err := solve(wants, u, locked, searchEffort)
		var unknown *UnknownError
		if errors.As(err, &unknown) {
			if list, _ := u.Versions(unknown.Name); len(list) > 0 {
				t.Fatal(err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if possible := o.possible(map[string]Version{}, 0); possible != (core == nil) {
			t.Fatalf("possible: %v; found %v", possible, core)
		}
		if core != nil {
			conflicts++
			checkFewest(t, s, core)
			return
		}
		have := map[string]Version{}
		for at, each := range s.slots.list {
			if v := s.value(at); v != nil {
				have[each.as] = v.Version
			}
		}
		best := o.best()
		for _, as := range o.as[:o.wanted] {
			if have[as].Version != best[as].Version {
				t.Fatalf("%s is %s; the best is %s", as, have[as].Version, best[as].Version)
			}
		}
		solution, err := s.solution()
		var circle *CycleError
		if errors.As(err, &circle) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		found++
		checkSolution(t, o, solution)
	})
	if found == 0 || conflicts == 0 {
		t.Errorf("%d solutions, %d conflicts: nothing was tried", found, conflicts)
	}
}

// checkSolution holds a solution against the oracle, its order and what it says of itself.
func checkSolution(t *rapid.T, o *oracle, s *Solution) {
	have := map[string]Version{}
	for _, p := range s.Picks {
		i := slices.IndexFunc(o.universe, func(v Version) bool { return v.Name == p.Name && v.Version == p.Version })
		for _, d := range o.universe[i].Dependencies {
			on, there := p.Satisfies[d.Key()]
			if _, before := have[on]; !before && (there || !d.Optional) {
				t.Fatalf("%s comes before its %s, %q", p.As, d.Key(), on)
			}
		}
		if len(p.For) == 0 {
			t.Fatalf("nobody asked for %s", p.As)
		}
		have[p.As] = o.universe[i]
	}
	if why := o.valid(have); why != "" {
		t.Fatal(why)
	}
}

// checkFewest holds that the facts told clash, and that no fewer of them do.
func checkFewest(t *rapid.T, s *solver, core []int) {
	fewest := s.fewest(core)
	if s.clashing(fewest) == nil {
		t.Fatal("what is told does not clash")
	}
	for i := range fewest {
		if s.clashing(slices.Delete(slices.Clone(fewest), i, i+1)) != nil {
			t.Fatal("less would clash too")
		}
	}
	var conflict *ConflictError
	if err := s.explain(core); !errors.As(err, &conflict) || len(conflict.Reasons) < len(fewest) {
		t.Fatal(err)
	}
}
