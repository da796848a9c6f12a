package resolve

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/ignore"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// reading is what a service's renderer reads of its own folder, told by names alone. What it leaves out is no part of bundle and
// key. The zero value reads everything everywhere.
type reading struct {
	dir, renderer string
	patterns      []string
	exclusion     exclusion
	ignored       *ignore.Rules // by the chart's .helmignore
	// bare says that the chart reads nothing but what charts are made of, and the named files.
	bare  bool
	named []string
}

// readingOf is a service's. The chart's own rules, where it has any, are read from the view.
func (rs *Resolver) readingOf(seen *view, s *fleet.Service, renderer string, named []string) (reading, *fault) {
	r := reading{
		dir: path.Clean(s.Spec.Source.Path), renderer: renderer, patterns: s.Spec.Exclude, exclusion: seen.exclusion, named: named,
	}
	if renderer != rendererHelm {
		return r, nil
	}
	mounted := slices.ContainsFunc(seen.mounts, func(m mountPoint) bool { _, in := inside(m.dir, r.dir); return in })
	if !mounted && (s.Spec.Helm == nil || !s.Spec.Helm.Record) {
		reads, err := rs.readsOwnFiles(seen.repo, r.dir)
		if err != nil {
			return r, unreadable(err)
		}
		r.bare = !reads
	}
	snap := seen.repo
	file, err := snap.Follow(path.Join(r.dir, ignore.HelmIgnore))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !file.Mode.IsRegular():
		return r, nil
	case err != nil:
		return r, unreadable(err)
	}
	text, err := fs.ReadFile(snap.FS(), file.Path)
	if err != nil {
		return r, unreadable(err)
	}
	if rules, err := ignore.Parse(bytes.NewReader(text)); err == nil { // else the render says what is wrong with it
		rules.AddDefaults()
		r.ignored = rules
	}
	return r, nil
}

// readsOwnFiles says whether a chart may read files that charts are not made of, its README or the values of another place. A
// template reaches them by .Files alone, also in a value that goes through tpl. What cannot be looked into may.
func (rs *Resolver) readsOwnFiles(snap *snapshot.Snapshot, dir string) (bool, error) {
	at, err := snap.Follow(dir)
	if err != nil {
		return false, err
	}
	scan := rs.scan(snap, at.Path, at.Hash, at.Mode)
	if scan.fault != nil || scan.links || scan.filtered || scan.entries > bundle.DefaultLimits().Entries {
		return true, nil
	}
	if known, ok := rs.readers.get(at.Hash); ok {
		return known, nil
	}
	reads := false // the scan has counted what follows
	for _, part := range []string{"templates", "charts"} {
		if reads {
			break
		}
		err := fs.WalkDir(snap.FS(), path.Join(at.Path, part), func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil || e.IsDir():
				return err
			}
			if reads = part == "charts" && path.Ext(name) == ".tgz"; reads {
				return fs.SkipAll
			}
			text, err := fs.ReadFile(snap.FS(), name)
			if err != nil {
				return err
			}
			if reads = bytes.Contains(text, []byte("Files")) || bytes.Contains(text, []byte("tpl")); reads {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			return false, err
		}
	}
	rs.readers.set(at.Hash, reads)
	return reads, nil
}

// whole says that nothing at a path, or below it, is left out.
func (r *reading) whole(name string) bool {
	if r.renderer != rendererRaw && r.ignored == nil && len(r.patterns) == 0 && !r.bare {
		return true
	}
	return !meets(name, r.dir)
}

// meets says whether one of two paths is the other, or lies in it.
func meets(a, b string) bool {
	_, in := inside(a, b)
	_, around := inside(b, a)
	return in || around
}

// keeps says whether a file is read, or may hold such files if it is a folder. It is asked from the outside in.
func (r *reading) keeps(name string, folder bool) bool {
	inner, ok := inside(name, r.dir)
	if !ok || inner == "." {
		return true
	}
	switch {
	case r.exclusion.has(name, folder):
		return false
	case r.renderer == rendererRaw:
		return !strings.HasPrefix(path.Base(name), ".") && (folder || isManifest(name))
	case slices.ContainsFunc(r.named, func(file string) bool { return meets(file, name) }):
		return true
	case r.bare && !r.needs(name):
		return false
	case r.ignored != nil:
		return !r.ignored.Ignore(inner, ignorable{path.Base(name), folder})
	}
	return true
}

// needs says whether a render without the file could be another than its author meant. Of a chart it is what charts are made of;
// a file elsewhere in it is read only where a template names it.
func (r *reading) needs(name string) bool {
	inner, ok := inside(name, r.dir)
	switch {
	case !ok:
		return false
	case r.renderer == rendererRaw:
		return isManifest(name)
	case r.renderer != rendererHelm:
		return false
	}
	for rest, sub := strings.CutPrefix(inner, "charts/"); sub; rest, sub = strings.CutPrefix(inner, "charts/") {
		if _, inner, sub = strings.Cut(rest, "/"); !sub {
			return true // a chart as a whole
		}
	}
	first, _, _ := strings.Cut(inner, "/")
	return slices.Contains([]string{
		"templates", "crds", "charts", "Chart.yaml", "Chart.lock", "values.yaml", "values.schema.json",
		"requirements.yaml", "requirements.lock", ignore.HelmIgnore,
	}, first)
}

// isManifest tells as the renderer raw does.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(strings.TrimSuffix(name, templateSuffix)))
}

// ignorable is a file or a folder as the rules of a .helmignore look at it.
type ignorable struct {
	name   string
	folder bool
}

func (i ignorable) Name() string       { return i.name }
func (i ignorable) IsDir() bool        { return i.folder }
func (i ignorable) Size() int64        { return 0 }
func (i ignorable) ModTime() time.Time { return time.Time{} }
func (i ignorable) Sys() any           { return nil }

func (i ignorable) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir
	}
	return 0
}
