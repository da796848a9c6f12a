package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/pluralsh/plural/internal/block"
	"github.com/pluralsh/plural/internal/replace"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxFile bounds what is read of one file, in bytes, sealed ones among them: a hub takes none that is larger.
const maxFile = snapshot.MaxBlob

func tooLarge(path string) error {
	return refuse("split it, or keep it elsewhere: no hub takes such a file", "%q is larger than %d MiB", path, maxFile>>20)
}

// edit changes one file.
type edit struct {
	// path is slash-separated and relative to the repo's root.
	path string
	// apply gives the new content for the old one, which is nil when there is no file. A nil result leaves the file as
	// it is.
	apply func(old []byte) ([]byte, error)
	// readable is what the work tree holds where that is not what git keeps; nil where it is.
	readable []byte
	// remove takes the file away.
	remove bool
}

// put makes a file what content is; nil removes it.
func put(path string, content []byte) edit {
	return edit{path: path, remove: content == nil, apply: func([]byte) ([]byte, error) { return content, nil }}
}

// translated makes a file what git keeps as stored, and the work tree as readable.
func translated(path string, stored, readable []byte) edit {
	e := put(path, stored)
	if e.readable = readable; readable == nil {
		e.readable = []byte{}
	}
	return e
}

// provide makes a file that is missing, and leaves one alone that says something else.
func provide(path string, content []byte) edit {
	return edit{path: path, apply: func(old []byte) ([]byte, error) {
		if old == nil || bytes.Equal(old, content) {
			return content, nil
		}
		return nil, nil
	}}
}

// managed keeps a managed block inside a file.
func managed(path string, body []byte) edit {
	return edit{path: path, apply: func(old []byte) ([]byte, error) { return block.Put(old, body) }}
}

// outcome is what an edit did to the file on disk.
type outcome int

const (
	unchanged outcome = iota
	created
	updated
	// foreign: the file is somebody else's; the edit is not to be committed either.
	foreign
)

// write applies e on disk. The file is replaced as a whole, by renaming, and keeps its mode.
func (e edit) write(root *os.Root) (outcome, error) {
	old, mode, err := readFile(root, e.path)
	if err != nil {
		return unchanged, err
	}
	if e.remove {
		return e.unlink(root, old)
	}
	text := e.readable
	if text == nil {
		text, err = e.apply(old)
	}
	switch {
	case err != nil:
		return unchanged, fmt.Errorf("edit %q: %w", e.path, err)
	case text == nil:
		return foreign, nil
	case old != nil && bytes.Equal(old, text):
		return unchanged, nil
	}
	if err := replaceFile(root, e.path, text, mode); err != nil {
		return unchanged, err
	}
	if old == nil {
		return created, nil
	}
	return updated, nil
}

// unlink takes the file away, with the folders that become empty.
func (e edit) unlink(root *os.Root, old []byte) (outcome, error) {
	if old == nil {
		return unchanged, nil
	}
	if err := root.Remove(e.path); err != nil {
		return unchanged, fmt.Errorf("remove %q: %w", e.path, err)
	}
	for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
		if root.Remove(dir) != nil { // it is not empty
			break
		}
	}
	return updated, nil
}

// readFile is name's content and mode; nil and 0644 when it does not exist. Nothing but a regular file is read.
func readFile(root *os.Root, name string) ([]byte, fs.FileMode, error) {
	if err := noLinks(root, name); err != nil {
		return nil, 0, err
	}
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o644, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %q: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read %q: %w", name, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %q: %w", name, err)
	}
	if len(text) > maxFile {
		return nil, 0, tooLarge(name)
	}
	return text, info.Mode().Perm(), nil
}

// noLinks refuses what git would not track as a file at name: a symbolic link on the way, a folder, a device.
func noLinks(root *os.Root, name string) error {
	parts := strings.Split(name, "/")
	for i := range parts {
		at := path.Join(parts[:i+1]...)
		info, err := root.Lstat(at)
		last := i == len(parts)-1
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return fmt.Errorf("look at %q: %w", at, err)
		case info.Mode()&fs.ModeSymlink != 0:
			return refuse("replace it by what it points at", "%q is a symbolic link, and git keeps no file behind one", at)
		case last && !info.Mode().IsRegular():
			return refuse("move it away", "%q is in the way: it is not a regular file", at)
		case !last && !info.IsDir():
			return refuse("move it away", "%q is in the way: it is not a folder", at)
		}
	}
	return nil
}

// replaceFile puts text in the place of the file at name.
func replaceFile(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	if err := replace.File(root, name, text, mode); err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	return nil
}
