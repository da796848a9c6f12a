// Package boundwalk owns walks of untrusted file systems with a bound.
//
// It refuses to know what is looked for. A folder of a git repository can lie at more paths than anybody can walk, at the price
// of a kilobyte; so every file and every folder that is met counts, wherever it lies and whatever the caller makes of it. An
// entry costs one read of the file system, so a bound on the number is one on the time, too.
package boundwalk

import (
	"fmt"
	"io/fs"
	"strings"
)

// MaxDepth is how deep folders may be nested below the root of a walk.
const MaxDepth = 256

// Dir is fs.WalkDir with an end: the error is a *TooManyError when there are more than so many files and folders, or when they
// are nested too deep.
func Dir(fsys fs.FS, root string, most int, visit fs.WalkDirFunc) error {
	met := 0
	return fs.WalkDir(fsys, root, func(name string, entry fs.DirEntry, err error) error {
		if met++; met > most || strings.Count(name, "/")-strings.Count(root, "/") > MaxDepth {
			return &TooManyError{Root: root, At: name, Most: most}
		}
		return visit(name, entry, err)
	})
}

// TooManyError says that a folder holds more than will be walked.
type TooManyError struct {
	// Root is the folder, At where counting stopped.
	Root, At string
	// Most is how many files and folders would have been walked.
	Most int
}

// Error names the folder.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("%q holds more than %d files and folders, or they are nested more than %d deep, counted at %.300q",
		e.Root, e.Most, MaxDepth, e.At)
}

// Fix says what to do about it.
func (e *TooManyError) Fix() string {
	return "take out what does not belong there: a folder counts wherever it lies"
}
