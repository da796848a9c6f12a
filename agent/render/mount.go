package render

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// seen is where a file of the mount's own tree is seen.
func (m Mount) seen(name string) string {
	inside := strings.TrimPrefix(strings.TrimPrefix(name, m.Path), "/")
	switch {
	case m.Path == ".":
		inside = name
	case inside == "": // the mounted file itself
		inside = path.Base(name)
	}
	return path.Join(m.At, inside)
}

// check refuses a mount that would leave the repository, or hide a part of it.
func (m Mount) check(own fs.FS) error {
	if !fs.ValidPath(m.At) || m.At == "." || !fs.ValidPath(m.Path) {
		return (&Error{Reason: Invalid, Message: "mount at " + m.At + " leaves the repository", Fix: "name a folder below its root"}).cleaned()
	}
	for dir := m.At; dir != "."; dir = path.Dir(dir) {
		info, err := fs.Stat(own, dir)
		if err == nil && (dir == m.At || !info.IsDir()) {
			return place{file: dir}.invalid("is in the way of the mount at %s", m.At)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
