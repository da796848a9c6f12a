// Package walktest owns folders without end, for tests of bounded walks.
//
// It refuses to know what is looked for in them.
package walktest

import (
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

const levels, wide = 12, 10

// Bomb is twelve levels of folders, each with ten of the next level: as a repository would have it that holds one folder ten
// times. The lowest are empty.
type Bomb struct{}

// Open implements fs.FS; there are no files.
func (Bomb) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// Stat implements fs.StatFS.
func (Bomb) Stat(name string) (fs.FileInfo, error) { return folder(path.Base(name)), nil }

// Sub implements fs.SubFS.
func (b Bomb) Sub(string) (fs.FS, error) { return b, nil }

// ReadDir implements fs.ReadDirFS.
func (Bomb) ReadDir(name string) ([]fs.DirEntry, error) {
	if strings.Count(name, "/") >= levels {
		return nil, nil
	}
	list := make([]fs.DirEntry, wide)
	for i := range list {
		list[i] = fs.FileInfoToDirEntry(folder(strconv.Itoa(i)))
	}
	return list, nil
}

type folder string

func (f folder) Name() string     { return string(f) }
func (folder) Size() int64        { return 0 }
func (folder) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (folder) ModTime() time.Time { return time.Time{} }
func (folder) IsDir() bool        { return true }
func (folder) Sys() any           { return nil }
