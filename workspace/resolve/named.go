package resolve

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/internal/kustomizeurl"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Named is a remote that a kustomization names.
type Named struct {
	fleet.Position
	// Meanings are what it may mean, the likelier first; none when Err says what is wrong with it.
	Meanings []kustomizeurl.Remote
	Err      error
}

// Remotes lists the remotes that the kustomizations below a folder name, and those of the same repository to which they refer. Both
// together are at most maxReferences folders.
func Remotes(fsys fs.FS, dir string) ([]Named, error) {
	s := &search{fsys: fsys, seen: map[string]bool{}}
	err := fs.WalkDir(fsys, dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return s.folder(name)
		}
		return nil
	})
	return s.found, err
}

// search gathers remotes from folder to folder.
type search struct {
	fsys  fs.FS
	seen  map[string]bool
	found []Named
}

func (s *search) folder(dir string) error {
	if s.seen[dir] {
		return nil
	}
	if s.seen[dir] = true; len(s.seen) > maxReferences {
		return fmt.Errorf("more than %d folders: name one of them", maxReferences)
	}
	for _, base := range kustomizationNames() {
		file := path.Join(dir, base)
		if info, err := fs.Stat(s.fsys, file); err != nil || !info.Mode().IsRegular() {
			continue
		}
		found, err := readKustomization(s.fsys, file)
		if err != nil {
			return err
		}
		if found.err != nil {
			s.found = append(s.found, Named{Position: fleet.Position{File: file, Line: found.line}, Err: found.err})
			continue
		}
		if err := s.kustomization(dir, file, found); err != nil {
			return err
		}
	}
	return nil
}

func (s *search) kustomization(dir, file string, found parsed) error {
	for _, ref := range found.refs {
		at := fleet.Position{File: file, Line: ref.line, Column: ref.column}
		if kustomizeurl.Is(ref.path) {
			meanings, err := kustomizeurl.Parse(kustomizeurl.WithoutKey(ref.path))
			s.found = append(s.found, Named{at, meanings, err})
			continue
		}
		name := path.Join(dir, ref.path)
		if info, err := fs.Stat(s.fsys, name); err == nil && info.IsDir() && fs.ValidPath(name) {
			if err := s.folder(name); err != nil {
				return err
			}
		}
	}
	for _, c := range found.charts {
		local, err := fs.Stat(s.fsys, path.Join(dir, c.home, c.name))
		if err == nil && local.IsDir() {
			continue
		}
		named := Named{
			Position: fleet.Position{File: file, Line: c.line, Column: c.column},
			Err:      errors.New("the chart is not here, and no repo is named"),
		}
		if c.repo != "" {
			var meaning kustomizeurl.Remote
			if meaning, named.Err = kustomizeurl.Chart(c.repo, c.name, c.version); named.Err == nil {
				named.Meanings = []kustomizeurl.Remote{meaning}
			}
		}
		s.found = append(s.found, named)
	}
	return nil
}
