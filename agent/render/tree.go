package render

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// tree is the input's files in memory. It is the only file system a renderer sees.
type tree struct {
	files map[string][]byte
	names []string // of files, sorted
	dirs  map[string]map[string]bool
}

func newTree(files map[string][]byte) *tree {
	t := &tree{files: files, dirs: map[string]map[string]bool{".": {}}}
	for name := range files {
		t.names = append(t.names, name)
		for child := name; child != "."; child = path.Dir(child) {
			parent := path.Dir(child)
			if t.dirs[parent] == nil {
				t.dirs[parent] = map[string]bool{}
			}
			t.dirs[parent][path.Base(child)] = true
		}
	}
	slices.Sort(t.names)
	return t
}

func (t *tree) isDir(name string) bool { return t.dirs[name] != nil }

// isFile is true for a file, and for a name that a template stands in for.
func (t *tree) isFile(name string) bool {
	_, plain := t.files[name]
	_, template := t.files[name+templateSuffix]
	return plain || template
}

// list returns the sorted names in a folder.
func (t *tree) list(dir string) []string {
	var names []string
	for name := range t.dirs[dir] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// below returns the files under dir, sorted, with their full names.
func (t *tree) below(dir string) []string {
	if dir == "." {
		return t.names
	}
	prefix := dir + "/"
	from, _ := slices.BinarySearch(t.names, prefix)
	var names []string
	for _, name := range t.names[from:] {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		names = append(names, name)
	}
	return names
}

// entry is an fs.FileInfo for libraries that want to see one.
type entry struct {
	name string
	size int64
	dir  bool
}

func (e entry) Name() string       { return e.name }
func (e entry) Size() int64        { return e.size }
func (e entry) IsDir() bool        { return e.dir }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) Sys() any           { return nil }

func (e entry) Mode() fs.FileMode {
	if e.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
