// Package replace owns the replacement of one file in a folder tree by new content, as a whole or not at all.
//
// It refuses to know what the content is, and whether it may stand there.
//
// The content goes into a fresh file beside the old one, which then takes its name. A link that somebody has put in the
// fresh file's place is taken away, and never followed: what it points at may be a file that everybody can read.
package replace

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Prefix is how the names of fresh files begin that a killed process left behind. The rest is the file's own name, so that
// patterns like *.secret.yaml cover both.
const Prefix = ".plural-new-"

// File makes name, slash-separated within root, a file of this content and mode. Folders on the way are made.
func File(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	dir, base := path.Split(name)
	if err := root.MkdirAll(path.Clean(dir), 0o755); err != nil {
		return err
	}
	fresh := dir + Prefix + base
	if err := root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := write(root, fresh, content, mode)
	if err == nil {
		err = root.Rename(fresh, name)
	}
	if err != nil {
		_ = root.Remove(fresh) // what went wrong is more worth telling
	}
	return err
}

// write makes a file that must not be there.
func write(root *os.Root, name string, content []byte, mode fs.FileMode) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Close())
}
