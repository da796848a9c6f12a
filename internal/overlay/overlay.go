// Package overlay owns a file system with changes laid over it.
//
// It refuses to write: the changes stay in memory.
package overlay

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// FS is a file system with changes laid over it.
type FS struct {
	base    fs.FS
	changes map[string][]byte
	// folders holds, for every folder above a change, the names in it that the changes speak of.
	folders map[string]map[string]bool
}

// New lays changes over base: slash-separated path to content, nil takes the file away, with folders that become empty.
// What is no path inside the file system is left out.
func New(base fs.FS, changes map[string][]byte) *FS {
	o := &FS{base: base, changes: maps.Clone(changes), folders: map[string]map[string]bool{}}
	for name := range changes {
		if !fs.ValidPath(name) || name == "." {
			delete(o.changes, name)
			continue
		}
		for at := name; at != "."; at = path.Dir(at) {
			dir := path.Dir(at)
			if o.folders[dir] == nil {
				o.folders[dir] = map[string]bool{}
			}
			o.folders[dir][path.Base(at)] = true
		}
	}
	return o
}

// Open implements fs.FS.
func (o *FS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if content, ok := o.changes[name]; ok {
		if content == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return &file{info: info{name: path.Base(name), size: int64(len(content))}, Reader: bytes.NewReader(content)}, nil
	}
	if o.folders[name] == nil {
		return o.base.Open(name)
	}
	entries, err := o.ReadDir(name)
	if err != nil {
		return nil, err
	}
	return &folder{info: info{name: path.Base(name), dir: true}, entries: entries}, nil
}

// Stat implements fs.StatFS. Of base nothing is opened for it: opening a pipe waits for whoever writes to it.
func (o *FS) Stat(name string) (fs.FileInfo, error) {
	if _, changed := o.changes[name]; !changed && o.folders[name] == nil {
		return fs.Stat(o.base, name)
	}
	file, err := o.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return file.Stat()
}

// ReadFile implements fs.ReadFileFS.
func (o *FS) ReadFile(name string) ([]byte, error) {
	if content, ok := o.changes[name]; ok && content != nil {
		return bytes.Clone(content), nil
	} else if ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return fs.ReadFile(o.base, name)
}

// ReadDir implements fs.ReadDirFS.
func (o *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.base, name)
	changed := o.folders[name]
	if changed == nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return entries, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return changed[e.Name()] })
	for child := range changed {
		content, isFile := o.changes[path.Join(name, child)]
		switch {
		case !isFile:
			if left, err := o.ReadDir(path.Join(name, child)); err != nil || len(left) > 0 {
				entries = append(entries, fs.FileInfoToDirEntry(info{name: child, dir: true}))
			}
		case content != nil:
			entries = append(entries, fs.FileInfoToDirEntry(info{name: child, size: int64(len(content))}))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

type info struct {
	name string
	size int64
	dir  bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }

func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

type file struct {
	info
	*bytes.Reader
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }
func (f *file) Size() int64                { return f.info.size }

type folder struct {
	info
	entries []fs.DirEntry
}

func (f *folder) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *folder) Close() error               { return nil }

func (f *folder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: f.name, Err: errors.New("is a folder")}
}

func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		all := f.entries
		f.entries = nil
		return all, nil
	}
	if len(f.entries) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(f.entries))
	some := f.entries[:n]
	f.entries = f.entries[n:]
	return some, nil
}
