// Package rotation owns the rotation of log files.
//
// It writes none of them: who does says when a file is full, and puts it aside under the next name.
package rotation

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// fullTime is when a file was full, as it stands in its name.
const fullTime = "20060102T150405.000000000Z"

// Files are the newest, which has no time in its name, and beside it those that are full: of NAME.jsonl, NAME-TIME.jsonl.
type Files struct {
	// Newest is its path.
	Newest string
	// Keep is how many stay, with the newest.
	Keep int
}

// Full are the files that are not written any more, the oldest first.
func (f Files) Full() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(f.Newest)) // sorted, as their times are
	var full []string
	for _, entry := range entries {
		path := filepath.Join(filepath.Dir(f.Newest), entry.Name())
		if _, ok := f.filled(path); ok {
			full = append(full, path)
		}
	}
	return full, err
}

// Next is the name of a file that is full now: it comes behind the others, also when the clock stands still, or was set back.
func (f Files) Next(now time.Time) (string, error) {
	full, err := f.Full()
	if err != nil {
		return "", err
	}
	now = now.UTC()
	if len(full) > 0 {
		if last, _ := f.filled(full[len(full)-1]); !now.After(last) {
			now = last.Add(1)
		}
	}
	before, after := f.around()
	return before + now.Format(fullTime) + after, nil
}

// Prune deletes the oldest, where there are more than stay.
func (f Files) Prune() error {
	full, err := f.Full()
	if err != nil {
		return err
	}
	for i := range len(full) - (f.Keep - 1) {
		if err := os.Remove(full[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// filled is when a file was full, by its name; false for what is none of these files.
func (f Files) filled(path string) (time.Time, bool) {
	before, after := f.around()
	rest, ours := strings.CutPrefix(path, before)
	text, ends := strings.CutSuffix(rest, after)
	at, err := time.Parse(fullTime, text)
	return at, ours && ends && err == nil
}

// around are what stands before and after the time in a name.
func (f Files) around() (before, after string) {
	after = filepath.Ext(f.Newest)
	return strings.TrimSuffix(filepath.Clean(f.Newest), after) + "-", after
}
