package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"
	"time"
)

var (
	errIsDir     = errors.New("is a folder")
	errNotDir    = errors.New("is not a folder")
	errSymlink   = errors.New("is a symbolic link; links are not followed")
	errSubmodule = errors.New("is a submodule; submodules are not fetched")
)

// FS is the snapshot's files, read from git's objects as they are asked for. It implements fs.ReadDirFS, fs.ReadFileFS
// and fs.StatFS. Symbolic links have fs.ModeSymlink and submodules fs.ModeIrregular; reading one is an error, and so
// is reading anything beyond it. There are no modification times but the commit's.
func (s *Snapshot) FS() fs.FS { return files{s} }

type files struct{ s *Snapshot }

// Open implements fs.FS. A file's content is read here, so that the open file needs the repository no more.
func (f files) Open(name string) (fs.File, error) {
	e, err := f.s.find("open", name)
	if err != nil {
		return nil, err
	}
	if e.Mode.IsDir() {
		list, err := f.ReadDir(name)
		return &dirFile{info: f.info(name, e), rest: list}, err
	}
	data, err := f.read("open", name, e)
	if err != nil {
		return nil, err
	}
	return &blobFile{Reader: bytes.NewReader(data), info: f.info(name, e)}, nil
}

// ReadFile implements fs.ReadFileFS.
func (f files) ReadFile(name string) ([]byte, error) {
	e, err := f.s.find("read", name)
	if err != nil {
		return nil, err
	}
	return f.read("read", name, e)
}

func (f files) read(op, name string, e Entry) ([]byte, error) {
	switch e.Mode.Type() {
	case 0:
		data, err := f.s.src.blob(e.Hash)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", op, name, err)
		}
		return data, nil
	case fs.ModeDir:
		return nil, &fs.PathError{Op: op, Path: name, Err: errIsDir}
	case fs.ModeSymlink:
		return nil, &fs.PathError{Op: op, Path: name, Err: errSymlink}
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: errSubmodule}
}

// ReadDir implements fs.ReadDirFS.
func (f files) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := f.s.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !e.Mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNotDir}
	}
	entries, err := f.s.src.Tree(e.Hash)
	if err != nil {
		return nil, fmt.Errorf("readdir %q: %w", name, err)
	}
	return f.dirEntries(name, entries), nil
}

// dirEntries puts git's order into fs.ReadDir's, which is by plain name.
func (f files) dirEntries(dir string, entries []Entry) []fs.DirEntry {
	list := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		list[i] = f.info(path.Join(dir, e.Name), e)
	}
	sortByName(list)
	return list
}

// Stat implements fs.StatFS.
func (f files) Stat(name string) (fs.FileInfo, error) {
	e, err := f.s.find("stat", name)
	if err != nil {
		return nil, err
	}
	return f.info(name, e).Info()
}

func (f files) info(name string, e Entry) *info {
	return &info{
		entry: e, base: path.Base(name), modTime: f.s.commit.Time,
		size: sync.OnceValues(func() (int64, error) {
			if e.Mode.Type() != 0 {
				return 0, nil
			}
			return f.s.src.blobSize(e.Hash)
		}),
	}
}

// info is both a DirEntry and a FileInfo; a file's size is looked up when it is first asked for.
type info struct {
	entry   Entry
	base    string
	modTime time.Time
	size    func() (int64, error)
}

func (i *info) Name() string       { return i.base }
func (i *info) Mode() fs.FileMode  { return i.entry.Mode }
func (i *info) Type() fs.FileMode  { return i.entry.Mode.Type() }
func (i *info) IsDir() bool        { return i.entry.Mode.IsDir() }
func (i *info) ModTime() time.Time { return i.modTime }
func (i *info) Sys() any           { return i.entry.Hash }

// Size is looked up by Info, which reports an error where this cannot.
func (i *info) Size() int64 {
	n, _ := i.size()
	return n
}

func (i *info) Info() (fs.FileInfo, error) {
	if _, err := i.size(); err != nil {
		return nil, fmt.Errorf("stat %q: %w", i.base, err)
	}
	return i, nil
}

type blobFile struct {
	*bytes.Reader
	info *info
}

func (f *blobFile) Stat() (fs.FileInfo, error) { return f.info.Info() }
func (f *blobFile) Close() error               { return nil }

type dirFile struct {
	info *info
	rest []fs.DirEntry
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *dirFile) Close() error               { return nil }

func (d *dirFile) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.base, Err: errIsDir}
}

func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		n = len(d.rest)
	} else if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	list := d.rest[:n]
	d.rest = d.rest[n:]
	return list, nil
}
