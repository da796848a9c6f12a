package solve

import (
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// slot is an installation that is there, or may come to be.
type slot struct {
	as, name, catalog string
	// versions are by value; the first stands for none.
	versions []version
	// locked is the value that is installed now; 0 when there is none.
	locked int
	// needs are what the versions depend on, each said once.
	needs []*need
	// expanded are the values whose needs have become rules.
	expanded set
}

type version struct {
	Version
	parsed *semver.Version
	// admitted is a pre-release that somebody has asked for.
	admitted bool
}

// need is one dependency of those versions of a slot that say it in the same words.
type need struct {
	packages.Dependency
	of     set
	posted bool
	// choices are what would do, once the need is posted and unless it is optional.
	choices []choice
}

func (n *need) same(d packages.Dependency) bool {
	return n.Key() == d.Key() && n.Optional == d.Optional && slices.Equal(n.Choices(), d.Choices())
}

// newSlot takes the versions of one package, newest first whatever their order was. What is no version is passed over.
func newSlot(as, name, catalog string, list []Version, locked string) *slot {
	s := &slot{as: as, name: name, catalog: catalog, versions: make([]version, 1, len(list)+1)}
	for _, v := range list {
		if parsed := versions.Parse(v.Version); parsed != nil && v.Name == name {
			s.versions = append(s.versions, version{v, parsed, v.Version == locked})
		}
	}
	slices.SortStableFunc(s.versions[1:], func(a, b version) int { return versions.Compare(b.parsed, a.parsed) })
	s.expanded = newSet(len(s.versions))
	for value, v := range s.versions[1:] {
		if v.Version.Version == locked {
			s.locked = value + 1
		}
		for _, d := range v.Dependencies {
			s.need(d).of.add(value + 1)
		}
	}
	return s
}

func (s *slot) need(d packages.Dependency) *need {
	for _, n := range s.needs {
		if n.same(d) {
			return n
		}
	}
	n := &need{Dependency: d, of: newSet(len(s.versions))}
	s.needs = append(s.needs, n)
	return n
}

// admit lets pre-releases that a want's own range includes count for everybody's.
func (s *slot) admit(r versions.Range) {
	for i := range s.versions[1:] {
		v := &s.versions[i+1]
		v.admitted = v.admitted || v.parsed.Prerelease() != "" && r.Has(v.parsed, false)
	}
}

// offers says by which versions a value may be asked for under a name; nil when not at all.
func (v *version) offers(name string) []*semver.Version {
	var all []*semver.Version
	if v.Name == name {
		all = append(all, v.parsed)
	}
	for _, p := range v.Provides {
		if p.Name != name {
			continue
		}
		if as := versions.Parse(p.Version); as != nil {
			all = append(all, as)
		} else if p.Version == "" {
			all = append(all, v.parsed)
		}
	}
	return all
}

// fits are the values that stand for a name at a version in the range, offering those that stand for it at any.
func (s *slot) fits(name string, r versions.Range) (fits, offering set) {
	fits, offering = newSet(len(s.versions)), newSet(len(s.versions))
	for i := range s.versions[1:] {
		for _, as := range s.versions[i+1].offers(name) {
			offering.add(i + 1)
			if r.Has(as, s.versions[i+1].admitted) {
				fits.add(i + 1)
			}
		}
	}
	return fits, offering
}

// slots are all that have come up, with the way to more.
type slots struct {
	universe Universe
	locked   map[string]string
	list     []*slot
	// asked are the answers of the universe, by name.
	asked map[string][]Version
	// wanted counts the slots that are wanted, which come first.
	wanted int
	// called and providing are the slots by the name of their package, and by those names that they provide besides.
	called, providing map[string][]int
	// added is told of every new slot.
	added func(at int)
	// ranges spare reading the same text again.
	ranges map[string]versions.Range
}

func newSlots(u Universe, locked map[string]string, added func(at int)) slots {
	return slots{
		universe: u, locked: locked, added: added, asked: map[string][]Version{}, ranges: map[string]versions.Range{},
		called: map[string][]int{}, providing: map[string][]int{},
	}
}

func (all *slots) parse(text string) (versions.Range, error) {
	if r, ok := all.ranges[text]; ok {
		return r, nil
	}
	r, err := versions.ParseRange(text)
	if err == nil {
		all.ranges[text] = r
	}
	return r, err
}

func (all *slots) versions(name string) ([]Version, error) {
	if list, ok := all.asked[name]; ok {
		return list, nil
	}
	list, err := all.universe.Versions(name)
	if err != nil {
		return nil, fmt.Errorf("look %s up: %w", name, err)
	}
	all.asked[name] = list
	return list, nil
}

// add makes a slot for a package.
func (all *slots) add(as, name, catalog, locked string, list []Version) int {
	if locked == "" {
		locked = all.locked[as]
	}
	all.list = append(all.list, newSlot(as, name, catalog, list, locked))
	at := len(all.list) - 1
	all.called[name] = append(all.called[name], at)
	for _, v := range all.list[at].versions {
		for _, p := range v.Provides {
			if known := all.providing[p.Name]; len(known) == 0 || known[len(known)-1] != at {
				all.providing[p.Name] = append(known, at)
			}
		}
	}
	all.added(at)
	return at
}

// named are the slots of a package. When there is none yet it becomes one; none at all are there for a package that does
// not exist.
func (all *slots) named(name string) ([]int, error) {
	if at := all.called[name]; len(at) > 0 {
		return slices.Clone(at), nil
	}
	list, err := all.versions(name)
	if err != nil || !slices.ContainsFunc(list, func(v Version) bool { return v.Name == name }) {
		return nil, err
	}
	return []int{all.add(all.free(name), name, "", "", list)}, nil
}

// free is a name for a new installation.
func (all *slots) free(name string) string {
	as := name
	for i := 2; slices.ContainsFunc(all.list, func(s *slot) bool { return s.as == as }); i++ {
		as = fmt.Sprintf("%s-%d", name, i)
	}
	return as
}

// standing are the slots that may stand for a name, the best first: those of the package of that name, then those that
// provide it. That of the installation with the very name goes before others of the same package.
func (all *slots) standing(name string) ([]int, error) {
	at, err := all.named(name)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(at, func(a, b int) int { return rank(all.list[a].as == name) - rank(all.list[b].as == name) })
	list, err := all.versions(name)
	if err != nil {
		return nil, err
	}
	for _, v := range list {
		if v.Name == name || slices.ContainsFunc(at, func(i int) bool { return all.list[i].name == v.Name }) {
			continue
		}
		providers, err := all.named(v.Name)
		if err != nil {
			return nil, err
		}
		at = append(at, providers...)
	}
	for _, i := range all.providing[name] {
		if i < all.wanted && !slices.Contains(at, i) {
			at = append(at, i)
		}
	}
	return at, nil
}

// rank sorts what is so before what is not.
func rank(yes bool) int {
	if yes {
		return 0
	}
	return 1
}
