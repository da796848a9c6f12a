package simcontainer

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// How much the files of one pod may be.
const (
	maxFilesBytes = 32 << 20
	maxFiles      = 4096
)

var (
	errNoSpace   = errors.New("no space left on device")
	errOtherKind = errors.New("a file stands where a folder is wanted, or the other way round")
)

// file is a regular file, or a folder when data is nil.
type file struct {
	data     []byte
	mode     fs.FileMode // permission bits alone
	modified time.Time
}

func (f file) folder() bool { return f.data == nil }

// Files is the file system of one pod, shared by its containers. Paths are absolute and clean; what is put at one makes
// the folders above it.
type Files struct {
	mu      sync.Mutex
	entries map[string]file // guarded by mu; their data is never changed
	bytes   int             // guarded by mu
}

// NewFiles returns the files that a pod starts with.
func NewFiles(pod string) *Files {
	f := &Files{entries: map[string]file{"/": {mode: 0o755}, "/tmp": {mode: 0o777}}}
	f.entries["/etc"] = file{mode: 0o755}
	f.entries["/etc/hostname"] = file{data: []byte(pod + "\n"), mode: 0o644}
	return f
}

// absolute is what a program in the root folder means by name.
func absolute(name string) string { return path.Join("/", name) }

func (f *Files) get(name string) (file, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entry, ok := f.entries[absolute(name)]
	return entry, ok
}

// put replaces what is at name; a folder that is there already stays as it is.
func (f *Files) put(name string, entry file) error {
	name = absolute(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	before, ok := f.entries[name]
	if ok && before.folder() != entry.folder() {
		return &fs.PathError{Op: "write", Path: name, Err: errOtherKind}
	}
	if ok && entry.folder() {
		return nil
	}
	missing, err := f.missingAbove(name)
	if err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	if f.bytes-len(before.data)+len(entry.data) > maxFilesBytes || len(f.entries)+len(missing) >= maxFiles {
		return &fs.PathError{Op: "write", Path: name, Err: errNoSpace}
	}
	for _, folder := range missing {
		f.entries[folder] = file{mode: 0o755, modified: entry.modified}
	}
	f.bytes += len(entry.data) - len(before.data)
	f.entries[name] = entry
	return nil
}

// missingAbove lists the folders above name that are not there. The caller holds mu.
func (f *Files) missingAbove(name string) ([]string, error) {
	var missing []string
	for folder := path.Dir(name); ; folder = path.Dir(folder) {
		if entry, ok := f.entries[folder]; ok {
			if !entry.folder() {
				return nil, errOtherKind
			}
			return missing, nil
		}
		missing = append(missing, folder)
	}
}

// below lists name itself, when it is there, and what is in it, parents first.
func (f *Files) below(name string) []string {
	name = absolute(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []string
	for entry := range f.entries {
		if entry == name || name == "/" || strings.HasPrefix(entry, name+"/") {
			found = append(found, entry)
		}
	}
	slices.Sort(found)
	return found
}
