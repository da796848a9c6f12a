package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/versions"
)

// folder is a catalog in a file system that does not change.
type folder struct {
	name  string
	files fs.FS
	mu    sync.Mutex
	// read are packages by their folder. Guarded by mu.
	read map[string]*folderReader
}

// Bounds of one catalog. A folder can lie at many paths for nothing.
const (
	maxPackages = 10_000
	maxVersions = 1_000
)

// folderReader is a package's folder, read at most once.
type folderReader struct {
	once  sync.Once
	entry Entry
	files fs.FS
	// err comes from the file system; what the package's author has done wrong is in entry.
	err error
}

// Folder is a catalog of NAME/package.yaml, or NAME/VERSION/package.yaml for several versions, in files that do not change
// while it is used. A folder without such a file is none of its business.
func Folder(name string, files fs.FS) Catalog {
	return &folder{name: name, files: files, read: map[string]*folderReader{}}
}

func (f *folder) Name() string { return f.name }

func (f *folder) Packages(ctx context.Context) ([]string, error) {
	folders, err := subfolders(f.files, ".")
	if err != nil {
		return nil, failed(f.name, err)
	}
	var names []string
	if len(folders) > maxPackages {
		return nil, failed(f.name, fmt.Errorf("it has more than %d folders: keep packages in a folder of their own", maxPackages))
	}
	for _, name := range folders {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		places, err := f.places(name)
		if err != nil {
			return nil, failed(f.name, err)
		}
		if len(places) > 0 {
			names = append(names, name)
		}
	}
	return names, nil
}

func (f *folder) Versions(ctx context.Context, name string) ([]Entry, error) {
	places, err := f.places(name)
	if err != nil {
		return nil, failed(f.name, err)
	}
	var list []Entry
	for _, place := range places {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := f.at(name, place)
		if o.err != nil {
			return nil, failed(f.name, o.err)
		}
		if same := slices.IndexFunc(list, func(e Entry) bool { return e.Version == o.entry.Version }); same >= 0 {
			list[same] = Entry{Version: o.entry.Version, Problem: fmt.Errorf("two folders of %s are version %s", name, o.entry.Version)}
			continue
		}
		list = append(list, o.entry)
	}
	newestFirst(list)
	return list, nil
}

func (f *folder) Open(ctx context.Context, name, version string) (*Payload, error) {
	list, err := f.Versions(ctx, name)
	if err != nil {
		return nil, err
	}
	e, err := pick(f.name, name, version, list)
	if err != nil {
		return nil, err
	}
	places, err := f.places(name)
	if err != nil {
		return nil, failed(f.name, err)
	}
	for _, place := range places {
		if o := f.at(name, place); o.entry.Version == version {
			return &Payload{Files: o.files, Package: e.Package, Digest: e.Digest}, nil
		}
	}
	return nil, notFound(f.name, name, version, list)
}

// pick finds a version that can be used.
func pick(catalog, name, version string, list []Entry) (*Entry, error) {
	for i := range list {
		if list[i].Version == version {
			return &list[i], failed(catalog, list[i].Problem)
		}
	}
	return nil, notFound(catalog, name, version, list)
}

func notFound(catalog, name, version string, list []Entry) error {
	e := &NotFoundError{Catalog: catalog, Name: name, Version: version}
	for _, have := range list {
		if have.Problem == nil {
			e.Has = append(e.Has, have.Version)
		}
	}
	return e
}

// places are the folders that hold versions of a package: its own, else those below it that have a package.yaml.
func (f *folder) places(name string) ([]string, error) {
	if !fs.ValidPath(name) || name == "." {
		return nil, nil
	}
	switch own, err := holdsPackage(f.files, name); {
	case err != nil:
		return nil, err
	case own:
		return []string{name}, nil
	}
	below, err := subfolders(f.files, name)
	if err != nil {
		return nil, err
	}
	if len(below) > maxVersions {
		return nil, fmt.Errorf("%s has more than %d folders: a package has one for each version", name, maxVersions)
	}
	var places []string
	for _, version := range below {
		switch own, err := holdsPackage(f.files, name+"/"+version); {
		case err != nil:
			return nil, err
		case own:
			places = append(places, name+"/"+version)
		}
	}
	return places, nil
}

func holdsPackage(files fs.FS, place string) (bool, error) {
	_, err := fs.Stat(files, place+"/"+packages.File)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	if info, statErr := fs.Stat(files, place); statErr == nil && !info.IsDir() {
		return false, nil // some file systems have another error for what lies below a file
	}
	return false, err
}

// subfolders are the names of folders in a folder; none when it is not there.
func subfolders(files fs.FS, of string) ([]string, error) {
	info, err := fs.Stat(files, of)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(files, of)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// at reads one folder.
func (f *folder) at(name, place string) *folderReader {
	f.mu.Lock()
	o := f.read[place]
	if o == nil {
		o = &folderReader{}
		f.read[place] = o
	}
	f.mu.Unlock()
	o.once.Do(func() { o.load(f.files, name, place) })
	return o
}

func (o *folderReader) load(files fs.FS, name, place string) {
	if o.files, o.err = fs.Sub(files, place); o.err != nil {
		return
	}
	p, digest, err := examine(o.files)
	o.entry = Entry{Version: place[len(name):], Package: p, Digest: digest, Problem: err}
	if p != nil {
		o.entry.Version = p.Spec.Version
	} else if o.entry.Version != "" {
		o.entry.Version = o.entry.Version[1:]
	}
	if err == nil {
		o.entry.Problem = fits(p, name, place)
	}
	if o.entry.Problem != nil {
		o.entry.Problem = fmt.Errorf("%s: %w", place, o.entry.Problem)
		o.entry.Package, o.entry.Digest = nil, ""
	}
}

// fits holds a package against where it lies.
func fits(p *packages.Package, name, place string) error {
	if p.Metadata.Name != name {
		return fmt.Errorf("the package is called %q, and lies in the folder of %q: rename one of them", p.Metadata.Name, name)
	}
	if place != name && place != name+"/"+p.Spec.Version {
		if versions.Is(place[len(name)+1:]) {
			return fmt.Errorf("the package is version %s: rename its folder", p.Spec.Version)
		}
	}
	return nil
}

// examine reads a package as a whole.
func examine(files fs.FS) (*packages.Package, string, error) {
	p, err := packages.Load(files)
	if err != nil {
		return nil, "", err
	}
	digest, err := packages.Digest(files)
	if err != nil {
		return nil, "", err
	}
	return p, digest, nil
}
