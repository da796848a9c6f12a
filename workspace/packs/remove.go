package packs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
)

// Removal is what it takes to have packages no more.
type Removal struct {
	Changes map[string][]byte
	// Idle are installations that others needed, and that nothing needs any more.
	Idle []string
	// Without are installations that can do without what goes, and have it no more.
	Without []string
}

// NeededError says that a package cannot go while others need it.
type NeededError struct {
	Installation string
	By           []string
}

// Error names them.
func (e *NeededError) Error() string {
	return fmt.Sprintf("%s is needed by %s", e.Installation, strings.Join(e.By, ", "))
}

// Fix says what to do.
func (e *NeededError) Fix() string {
	return fmt.Sprintf("plural package remove %s %s", strings.Join(e.By, " "), e.Installation)
}

// Remove plans that installations go. Those that need one optionally are generated anew.
func (s *Snapshot) Remove(names ...string) (*Removal, error) {
	if err := s.known(names); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := s.removable(name); err != nil {
			return nil, err
		}
	}
	lock := &lockfile.Lock{Packages: slices.Clone(s.World.Lock.Packages)}
	var left []string // those that did without
	for _, name := range names {
		needed, optional, err := s.neededBy(name, names)
		if err != nil {
			return nil, err
		}
		if len(needed) > 0 {
			return nil, &NeededError{name, needed}
		}
		left = append(left, optional...)
		lock.Remove(name)
	}
	slices.Sort(left)
	left = slices.Compact(left)
	r := &Removal{Changes: map[string][]byte{}, Idle: idle(s.World.Lock, lock), Without: left}
	for i := range lock.Packages {
		e := &lock.Packages[i]
		e.Requires = maps.Clone(e.Requires)
		maps.DeleteFunc(e.Requires, func(_, by string) bool { return slices.Contains(names, by) })
	}
	text, err := lock.Encode()
	if err != nil {
		return nil, err
	}
	r.Changes[lockfile.File] = text
	for _, name := range names {
		if err := s.takeFiles(name, r.Changes); err != nil {
			return nil, err
		}
	}
	if len(left) > 0 {
		return r, pkgupgrade.Generate(s.World, lock, r.Changes, left...)
	}
	_, err = fleet.Load(overlay.New(s.World.Repo, r.Changes))
	return r, err
}

// removable refuses what is protected.
func (s *Snapshot) removable(name string) error {
	in, _ := s.World.Fleet.Installation(name)
	if in.Spec.Protected {
		return &Error{
			fmt.Sprintf("%s is protected, at %s", name, in.Place("spec.protected")),
			"take spec.protected out there, and commit that",
		}
	}
	p, err := s.installed(name)
	if err != nil || !p.Spec.Protected {
		return nil //nolint:nilerr // a package that cannot be read any more must be removable
	}
	file := compose.Payload(name) + "/" + packages.File
	return &Error{
		fmt.Sprintf("%s is protected by its package, at %s", name, file),
		"take spec.protected out there, and commit that",
	}
}

// neededBy are the installations besides names that a package is a dependency of, those that can do without it apart.
func (s *Snapshot) neededBy(name string, names []string) (needed, optional []string, err error) {
	for i := range s.World.Lock.Packages {
		e := &s.World.Lock.Packages[i]
		if slices.Contains(names, e.Name) {
			continue
		}
		for dependency, by := range e.Requires {
			if by != name {
				continue
			}
			p, err := s.installed(e.Name)
			if err != nil {
				return nil, nil, err
			}
			at := slices.IndexFunc(p.Spec.Dependencies, func(d packages.Dependency) bool { return d.Key() == dependency })
			if at >= 0 && !p.Spec.Dependencies[at].Optional {
				needed = append(needed, e.Name)
			} else {
				optional = append(optional, e.Name)
			}
		}
	}
	return needed, optional, nil
}

// installed is the package of an installation, as it lies in the repo.
func (s *Snapshot) installed(name string) (*packages.Package, error) {
	files, err := fs.Sub(s.World.Repo, compose.Payload(name))
	if err != nil {
		return nil, err
	}
	p, err := packages.Load(files)
	var mistakes fleet.Errors
	if errors.As(err, &mistakes) {
		moved := make(fleet.Errors, len(mistakes))
		for i, m := range mistakes {
			one := *m
			one.File = compose.Payload(name) + "/" + one.File
			moved[i] = &one
		}
		return nil, moved
	}
	return p, err
}

func (s *Snapshot) takeFiles(name string, changes map[string][]byte) error {
	if a, ok := s.World.Fleet.Application(name); ok && a.Metadata.Labels[compose.InstallationLabel] == name {
		changes[compose.ApplicationFile(name)] = nil
	}
	return boundwalk.Dir(s.World.Repo, "packages/"+name, compose.MaxFiles, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() {
			changes[path] = nil
		}
		return nil
	})
}

// idle are what something needed before, and nothing does after.
func idle(before, after *lockfile.Lock) []string {
	needed := func(l *lockfile.Lock) map[string]bool {
		all := map[string]bool{}
		for i := range l.Packages {
			for _, by := range l.Packages[i].Requires {
				all[by] = true
			}
		}
		return all
	}
	was, is := needed(before), needed(after)
	var list []string
	for i := range after.Packages {
		if name := after.Packages[i].Name; was[name] && !is[name] {
			list = append(list, name)
		}
	}
	return list
}
