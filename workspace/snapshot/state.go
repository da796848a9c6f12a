package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// stateFile is the mirror's one source of truth; whatever it does not name may be deleted.
const stateFile = "state.json"

// state is replaced as a whole by a rename, so a killed process leaves the old or the new one.
type state struct {
	// Generation is the folder that holds the objects.
	Generation string `json:"generation"`
	// Fetched is when the remote last answered.
	Fetched time.Time         `json:"fetched"`
	Refs    map[string]refTip `json:"refs"`
}

// refTip is the last good commit of a ref, with a few that it had before: a reader may still be at one of those.
type refTip struct {
	// Tip is what the remote advertised: the commit or an annotated tag of it.
	Tip    string   `json:"tip"`
	Commit string   `json:"commit"`
	Before []string `json:"before,omitempty"`
	// Asked is when the ref was last among those to follow; on disk it may be a minute old.
	Asked time.Time `json:"asked"`
}

const keptBefore = 4

func (t refTip) moved(tip, commit string) refTip {
	before := append([]string{t.Commit}, t.Before...)
	before = slices.DeleteFunc(before, func(c string) bool { return c == "" || c == commit })
	return refTip{Tip: tip, Commit: commit, Before: before[:min(len(before), keptBefore)], Asked: t.Asked}
}

func (t refTip) equal(o refTip) bool {
	return t.Tip == o.Tip && t.Commit == o.Commit && slices.Equal(t.Before, o.Before)
}

// touch notes that the remote has answered, and who was asked for.
func (s *state) touch(refs []string, now time.Time) {
	s.Fetched = now
	for _, ref := range refs {
		if tip, ok := s.Refs[ref]; ok {
			tip.Asked = now
			s.Refs[ref] = tip
		}
	}
}

func (s state) clone() state {
	s.Refs = maps.Clone(s.Refs)
	return s
}

// loadState gives the empty state when there is none, or none that can be read: then everything is fetched anew.
func loadState(dir string) (state, error) {
	empty := state{Refs: map[string]refTip{}}
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("read mirror state: %w", err)
	}
	s := empty
	if json.Unmarshal(data, &s) != nil || s.Generation == "" || filepath.Base(s.Generation) != s.Generation || s.Refs == nil {
		return empty, nil
	}
	return s, nil
}

func (s state) save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode mirror state: %w", err)
	}
	if err := writeFile(filepath.Join(dir, stateFile), data); err != nil {
		return fmt.Errorf("write mirror state: %w", err)
	}
	return nil
}

// writeFile replaces a file at once: temporary name, sync, rename.
func writeFile(name string, data []byte) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(name), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), name)
}

// tempPrefix marks what a killed process may have left behind.
const tempPrefix = ".tmp-"
