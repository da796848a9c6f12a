package bundle

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// Files is an unpacked bundle: an immutable file system in memory, safe for concurrent use. It implements fs.FS,
// fs.ReadDirFS, fs.ReadFileFS and fs.StatFS.
type Files struct{ root *node }

// node is a file or a folder; folders have entries, sorted by name once the tree is complete.
type node struct {
	name    string
	mode    fs.FileMode
	data    []byte
	entries map[string]*node
}

// NewFiles builds a bundle's file system from contents by path, all of mode 0644.
func NewFiles(contents map[string][]byte) (*Files, error) {
	lim := DefaultLimits()
	t := newTree()
	for name, data := range contents {
		if err := lim.checkPath(name); err != nil {
			return nil, err
		}
		if err := t.addFile(name, 0o644, bytes.Clone(data), lim.Entries); err != nil {
			return nil, err
		}
	}
	return &Files{root: t.root}, nil
}

// Entries lists all files, sorted by path.
func (f *Files) Entries() []Entry {
	var list []Entry
	f.root.walk("", func(name string, n *node) {
		if !n.IsDir() {
			list = append(list, Entry{Path: name, Mode: gitMode(n.mode), Size: n.Size()})
		}
	})
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Open implements fs.FS.
func (f *Files) Open(name string) (fs.File, error) {
	n, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return &openDir{node: n, rest: n.list()}, nil
	}
	return &openFile{node: n, Reader: bytes.NewReader(n.data)}, nil
}

// ReadFile implements fs.ReadFileFS; the caller owns the bytes.
func (f *Files) ReadFile(name string) ([]byte, error) {
	n, err := f.find("read", name)
	if err != nil {
		return nil, err
	}
	if n.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errIsDir}
	}
	return append(make([]byte, 0, len(n.data)), n.data...), nil
}

// ReadDir implements fs.ReadDirFS.
func (f *Files) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNotDir}
	}
	return n.list(), nil
}

// Stat implements fs.StatFS.
func (f *Files) Stat(name string) (fs.FileInfo, error) { return f.find("stat", name) }

func (f *Files) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n := f.root
	if name == "." {
		return n, nil
	}
	for elem := range strings.SplitSeq(name, "/") {
		next, ok := n.entries[elem]
		if !ok {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		n = next
	}
	return n, nil
}

func (n *node) Name() string               { return n.name }
func (n *node) Size() int64                { return int64(len(n.data)) }
func (n *node) Mode() fs.FileMode          { return n.mode }
func (n *node) Type() fs.FileMode          { return n.mode.Type() }
func (n *node) ModTime() time.Time         { return time.Time{} }
func (n *node) IsDir() bool                { return n.mode.IsDir() }
func (n *node) Sys() any                   { return nil }
func (n *node) Info() (fs.FileInfo, error) { return n, nil }

func (n *node) list() []fs.DirEntry {
	list := make([]fs.DirEntry, 0, len(n.entries))
	for _, e := range n.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

func (n *node) walk(prefix string, visit func(string, *node)) {
	for name, e := range n.entries {
		visit(path.Join(prefix, name), e)
		e.walk(path.Join(prefix, name), visit)
	}
}

type openFile struct {
	*node
	*bytes.Reader
}

func (f *openFile) Size() int64                { return f.node.Size() }
func (f *openFile) Stat() (fs.FileInfo, error) { return f.node, nil }
func (f *openFile) Close() error               { return nil }

type openDir struct {
	*node
	rest []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.node, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errIsDir}
}

func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
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
