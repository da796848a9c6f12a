// Package boundread owns reads of untrusted files with a bound.
//
// It refuses to know what the file means. What only looks like a file, such as a link to a terminal, is not opened: it may never end.
package boundread

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ErrNotRegular means that what is there is no file.
var ErrNotRegular = errors.New("not a regular file: put the file itself there")

// File reads a file of at most so many bytes; of a larger one it gives one byte more, for the caller to tell in its own words. That
// there is none is fs.ErrNotExist.
func File(fsys fs.FS, name string, most int64) ([]byte, error) {
	var size int64
	if info, err := fs.Stat(fsys, name); err == nil {
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: %w", name, ErrNotRegular)
		}
		size = info.Size()
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	text := bytes.NewBuffer(make([]byte, 0, min(size, most)+bytes.MinRead))
	if _, err := text.ReadFrom(io.LimitReader(file, most+1)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return text.Bytes(), nil
}
