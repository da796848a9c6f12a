package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

var (
	errIsDir  = errors.New("is a folder")
	errNotDir = errors.New("is not a folder")
)

// Files is an unpacked archive: an immutable file system in memory, safe for concurrent use. Files have mode 0644 or
// 0755, folders are never empty, and nothing has a time. It implements fs.FS, fs.ReadDirFS, fs.ReadFileFS and
// fs.StatFS.
type Files struct{ root *node }

// node is a file or a folder; only folders have entries.
type node struct {
	name    string
	mode    fs.FileMode
	data    []byte
	entries map[string]*node
}

func folder(name string) *node {
	return &node{name: name, mode: fs.ModeDir | 0o755, entries: map[string]*node{}}
}

// OneFile is an archive that holds a single file at its root.
func OneFile(name string, data []byte) *Files {
	root := folder(".")
	root.entries[name] = &node{name: name, mode: 0o644, data: data}
	return &Files{root}
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
	return append([]byte{}, n.data...), nil
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
func (f *Files) Stat(name string) (fs.FileInfo, error) {
	n, err := f.find("stat", name)
	if err != nil {
		return nil, err // not n: a nil *node would be a FileInfo that is not nil
	}
	return n, nil
}

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

// onlyFolder is the file system below the one folder that stands at the top.
func (f *Files) onlyFolder() (*Files, error) {
	list := f.root.list()
	for i, e := range list {
		if !e.IsDir() {
			return nil, &EntryError{Path: e.Name(), Reason: "stands beside the one folder that holds a chart"}
		}
		if i > 0 {
			reason := fmt.Sprintf("a second folder at the top, beside %q", clip(list[0].Name()))
			return nil, &EntryError{Path: e.Name(), Reason: reason}
		}
	}
	top := *f.root.entries[list[0].Name()]
	top.name = "."
	return &Files{root: &top}, nil
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

// prune drops folders without files, which git does not keep, and counts the files that stay.
func (n *node) prune() int {
	files := 0
	for name, e := range n.entries {
		switch {
		case !e.IsDir():
			files++
		default:
			below := e.prune()
			if below == 0 {
				delete(n.entries, name)
			}
			files += below
		}
	}
	return files
}

// tree is a file system while it is being built.
type tree struct {
	root  *node
	count int
}

func newTree() *tree { return &tree{root: folder(".")} }

// addDir takes a folder in; archives may list one twice.
func (t *tree) addDir(name string, most int) error {
	_, err := t.folder(name, name, most)
	return err
}

func (t *tree) addFile(name string, mode fs.FileMode, data []byte, most int) error {
	dir, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		dir, base = name[:i], name[i+1:]
	}
	parent, err := t.folder(dir, name, most)
	if err != nil {
		return err
	}
	if _, taken := parent.entries[base]; taken {
		return &EntryError{Path: name, Reason: "appears twice"}
	}
	parent.entries[base] = &node{name: base, mode: mode, data: data}
	return t.grow(name, most)
}

// folder finds or makes a folder with those above it; at is the entry that wants it.
func (t *tree) folder(dir, at string, most int) (*node, error) {
	n := t.root
	if dir == "" {
		return n, nil
	}
	for elem := range strings.SplitSeq(dir, "/") {
		next, ok := n.entries[elem]
		if !ok {
			next = folder(elem)
			n.entries[elem] = next
			if err := t.grow(at, most); err != nil {
				return nil, err
			}
		}
		if !next.IsDir() {
			return nil, &EntryError{Path: at, Reason: "is or lies below what is also a file"}
		}
		n = next
	}
	return n, nil
}

func (t *tree) grow(at string, most int) error {
	if t.count++; t.count > most {
		return &LimitError{Limit: "entries", Max: int64(most), Path: at}
	}
	return nil
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

// interface guards: Files is handed around as an fs.FS and fast paths are found by assertion.
var (
	_ fs.ReadDirFS  = (*Files)(nil)
	_ fs.ReadFileFS = (*Files)(nil)
	_ fs.StatFS     = (*Files)(nil)
)
