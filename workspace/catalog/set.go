package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// Set is several catalogs as one.
type Set struct{ catalogs []Catalog }

// All puts catalogs together, in the order in which they are asked.
func All(catalogs ...Catalog) *Set { return &Set{catalogs} }

// Catalogs are those of the set, in order.
func (s *Set) Catalogs() []Catalog { return slices.Clone(s.catalogs) }

// Packages are the names of all packages with the catalog that each comes from.
func (s *Set) Packages(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	for _, c := range s.catalogs {
		names, err := c.Packages(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if all[name] == "" {
				all[name] = c.Name()
			}
		}
	}
	return all, nil
}

// Versions are those of one package, the newest first, from one catalog or, when that is empty, from the first that has it,
// whose name comes with them. A catalog that cannot be asked is an error, so that no later one stands in for it.
func (s *Set) Versions(ctx context.Context, catalog, name string) (list []Entry, from string, err error) {
	asked, err := s.named(catalog)
	if err != nil {
		return nil, "", err
	}
	for _, c := range asked {
		if list, err = c.Versions(ctx, name); err != nil || len(list) > 0 {
			return list, c.Name(), err
		}
	}
	return nil, catalog, nil
}

// named are the catalogs of a name, or all.
func (s *Set) named(catalog string) ([]Catalog, error) {
	if catalog == "" {
		return s.catalogs, nil
	}
	i := slices.IndexFunc(s.catalogs, func(c Catalog) bool { return c.Name() == catalog })
	if i < 0 {
		return nil, &CatalogError{catalog, fmt.Errorf("there is none of this name: add it to spec.catalogs of plural.yaml")}
	}
	return s.catalogs[i : i+1], nil
}

// Open gives one version from one catalog or, when that is empty, from the first that has the package. A digest that is not
// empty must be the package's, else the error is a *DigestError.
func (s *Set) Open(ctx context.Context, catalog, name, version, digest string) (*Payload, error) {
	list, from, err := s.Versions(ctx, catalog, name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		if from == "" {
			from = s.names()
		}
		return nil, notFound(from, name, version, nil)
	}
	asked, err := s.named(from)
	if err != nil {
		return nil, err
	}
	payload, err := asked[0].Open(ctx, name, version)
	if err != nil {
		return nil, err
	}
	if digest != "" && payload.Digest != digest {
		return nil, &DigestError{Catalog: from, Name: name, Version: version, Want: digest, Have: payload.Digest}
	}
	return payload, nil
}

func (s *Set) names() string {
	text := ""
	for i, c := range s.catalogs {
		if i > 0 {
			text += ", "
		}
		text += c.Name()
	}
	return text
}

// Universe is the set as solve asks it, until ctx ends. Versions that cannot be used are not there.
func (s *Set) Universe(ctx context.Context) solve.Choosing {
	return &universe{
		catalogs: s.catalogs,
		ask:      func(catalog, name string) ([]Entry, string, error) { return s.Versions(ctx, catalog, name) },
		owners:   sync.OnceValues(func() (map[string]string, error) { return s.Packages(ctx) }),
	}
}

type universe struct {
	catalogs []Catalog
	ask      func(catalog, name string) (list []Entry, from string, err error)
	owners   func() (map[string]string, error)
}

// Versions implements solve.Universe. Who provides a name is only known by reading every package, which is done when no
// package has the name itself.
func (u *universe) Versions(name string) ([]solve.Version, error) {
	own, err := u.VersionsFrom("", name)
	if err != nil || len(own) > 0 {
		return own, err
	}
	owners, err := u.owners()
	if err != nil {
		return nil, err
	}
	var providers []solve.Version
	for _, c := range u.catalogs {
		for _, other := range slices.Sorted(maps.Keys(owners)) {
			if owners[other] != c.Name() {
				continue
			}
			list, from, err := u.ask(c.Name(), other)
			if err != nil {
				return nil, err
			}
			for _, v := range usable(list, other, from) {
				if slices.ContainsFunc(v.Provides, func(p packages.Provided) bool { return p.Name == name }) {
					providers = append(providers, v)
				}
			}
		}
	}
	return providers, nil
}

// VersionsFrom implements solve.Choosing.
func (u *universe) VersionsFrom(catalog, name string) ([]solve.Version, error) {
	list, from, err := u.ask(catalog, name)
	if err != nil {
		return nil, err
	}
	all := usable(list, name, from)
	if len(all) == 0 && len(list) > 0 { // it would be said that nobody has it
		return nil, failed(from, list[0].Problem)
	}
	return all, nil
}

// usable are the versions that have no problem, as solve knows them.
func usable(list []Entry, name, from string) []solve.Version {
	var all []solve.Version
	for _, e := range list {
		if e.Problem == nil {
			all = append(all, solve.Version{
				Name: name, Version: e.Version, Catalog: from,
				Provides: e.Package.Spec.Provides, Dependencies: e.Package.Spec.Dependencies,
			})
		}
	}
	return all
}

// Names implements solve.Naming.
func (u *universe) Names() []string {
	owners, err := u.owners()
	if err != nil {
		return nil // only a hint would have come of it
	}
	return slices.Sorted(maps.Keys(owners))
}
