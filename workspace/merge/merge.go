// Package merge owns the making of one text from two that were changed since they were the same.
//
// It refuses to know git, and what the texts mean.
//
// Three compares lines as git's merge of three versions does: what one side changed is taken, and what both changed
// differently stands in the result between git's conflict markers. Folder does that for every file of three folders.
package merge

import (
	"errors"
	"io/fs"
)

// Labels name the three versions in conflict markers.
type Labels struct{ Base, Ours, Theirs string }

// Three merges the changes from base to theirs into ours. Of a binary file in conflict, ours is taken.
func Three(base, ours, theirs []byte, labels Labels) (merged []byte, conflicts int) {
	return ours, 1
}

// Folder merges every file of three folders. It returns what has to be written, with nil for what has to be removed, and
// the names of files that are in conflict, sorted.
func Folder(base, ours, theirs fs.FS, labels Labels) (changes map[string][]byte, conflicts []string, err error) {
	return nil, nil, errors.ErrUnsupported
}
