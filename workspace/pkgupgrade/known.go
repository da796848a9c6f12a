package pkgupgrade

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// Known is a universe with the versions that a world's installations have besides: those stay possible when their catalog has
// them no longer, as the one that the program brings along has nothing but its own.
func Known(w *compose.World, u solve.Choosing) (solve.Choosing, error) {
	k := &known{Choosing: u}
	for i := range w.Lock.Packages {
		e := &w.Lock.Packages[i]
		data, err := fs.ReadFile(w.Repo, compose.Payload(e.Name)+"/"+packages.File)
		if errors.Is(err, fs.ErrNotExist) {
			continue // whoever composes it says so
		}
		if err != nil {
			return nil, err
		}
		p, err := packages.Parse(data)
		if err != nil {
			continue // the same
		}
		k.installed = append(k.installed, solve.Version{
			Name: e.Package, Version: e.Version, Catalog: e.Catalog, Provides: p.Spec.Provides, Dependencies: p.Spec.Dependencies,
		})
	}
	return k, nil
}

type known struct {
	solve.Choosing
	installed []solve.Version
}

// Versions implements solve.Universe.
func (k *known) Versions(name string) ([]solve.Version, error) {
	list, err := k.Choosing.Versions(name)
	if err != nil {
		return nil, err
	}
	return k.with(list, name, ""), nil
}

// VersionsFrom implements solve.Choosing.
func (k *known) VersionsFrom(catalog, name string) ([]solve.Version, error) {
	list, err := k.Choosing.VersionsFrom(catalog, name)
	if err != nil {
		return nil, err
	}
	return k.with(list, name, catalog), nil
}

// Names implements solve.Naming where the universe does.
func (k *known) Names() []string {
	if n, ok := k.Choosing.(solve.Naming); ok {
		return n.Names()
	}
	return nil
}

// with adds what is installed of a package, of the catalog that the others are from. One that only provides the name is added
// where no package has it.
func (k *known) with(list []solve.Version, name, catalog string) []solve.Version {
	own := slices.ContainsFunc(list, func(v solve.Version) bool { return v.Name == name })
	list = slices.Clone(list)
	for _, v := range k.installed {
		provides := !own && slices.ContainsFunc(v.Provides, func(p packages.Provided) bool { return p.Name == name })
		same := func(other solve.Version) bool { return other.Name == v.Name && other.Version == v.Version }
		from := func(other solve.Version) bool { return other.Name == v.Name && other.Catalog != v.Catalog }
		switch {
		case v.Name != name && !provides, slices.ContainsFunc(list, same), slices.ContainsFunc(list, from):
		case catalog != "" && v.Catalog != catalog:
		default:
			list = append(list, v)
		}
	}
	rank := map[string]int{} // packages stay in the order in which they came
	for i := range list {
		if _, ok := rank[list[i].Name]; !ok {
			rank[list[i].Name] = i
		}
	}
	slices.SortStableFunc(list, func(a, b solve.Version) int {
		return cmp.Or(cmp.Compare(rank[a.Name], rank[b.Name]), newer(a.Version, b.Version))
	})
	return list
}

// newer puts the newest first.
func newer(a, b string) int {
	va, errA := semver.NewVersion(a)
	vb, errB := semver.NewVersion(b)
	if errA != nil || errB != nil {
		return cmp.Compare(b, a)
	}
	return vb.Compare(va)
}
