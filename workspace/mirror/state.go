package mirror

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stateFile is the mirror's one source of truth; whatever it does not name may be deleted.
const stateFile = "state.json"

// state is replaced as a whole by a rename, so a killed process leaves the old or the new one.
type state struct {
	// Generation is the folder that holds the objects.
	Generation string `json:"generation"`
	// MaxFile is how large a file may be in it; zero means snapshot.MaxBlob.
	MaxFile int64 `json:"maxFile,omitempty"`
	// Fetched is when the upstream last answered.
	Fetched time.Time `json:"fetched"`
	// Brought is when it last brought all that was asked for; nil in a file of an earlier release, which did not tell the two apart.
	Brought *time.Time        `json:"brought"`
	Refs    map[string]refTip `json:"refs"`
}

// refTip is the last good tip of a ref, with a few commits that it had before: a reader may still be at one of those.
type refTip struct {
	Tip
	// First is what the first form of this file called ID.
	First  string   `json:"tip,omitempty"`
	Before []string `json:"before,omitempty"`
	// Asked is when the ref was last among those to follow; on disk it may be a minute old.
	Asked time.Time `json:"asked"`
}

const keptBefore = 4

func (t refTip) moved(to Tip) refTip {
	if to.Commit == t.Commit && to.Rewound == "" {
		to.Rewound = t.Rewound
	}
	before := append([]string{t.Commit}, t.Before...)
	before = slices.DeleteFunc(before, func(c string) bool { return c == "" || c == to.Commit })
	return refTip{Tip: to, Before: before[:min(len(before), keptBefore)], Asked: t.Asked}
}

func (t refTip) equal(o refTip) bool { return t.Tip == o.Tip && slices.Equal(t.Before, o.Before) }

// touch notes that the upstream has answered, and what was asked for.
func (s *state) touch(refs []string, fetched, now time.Time) {
	s.Fetched = fetched
	for _, ref := range refs {
		if tip, ok := s.Refs[ref]; ok {
			tip.Asked = now
			s.Refs[ref] = tip
		}
	}
}

// tips gives the last good ones, by ref.
func (s state) tips() map[string]Tip {
	tips := make(map[string]Tip, len(s.Refs))
	for ref, tip := range s.Refs {
		tips[ref] = tip.Tip
	}
	return tips
}

// commits lists all commits that the state stands on: each was found good when it came in.
func (s state) commits() []string {
	var list []string
	for _, tip := range s.Refs {
		list = append(append(list, tip.Commit), tip.Before...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// holds says whether the state stands on a commit.
func (s state) holds(commit string) bool {
	for _, tip := range s.Refs {
		if tip.Commit == commit || slices.Contains(tip.Before, commit) {
			return true
		}
	}
	return false
}

func (s state) clone() state {
	s.Refs = maps.Clone(s.Refs)
	return s
}

// loadState gives the empty state when there is none, or none that can be read: then everything is fetched anew.
func loadState(dir string) (state, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state{}, fmt.Errorf("read mirror state: %w", err)
	}
	if s, ok := parseState(data); ok {
		return s, nil
	}
	return state{Brought: new(time.Time), Refs: map[string]refTip{}}, nil
}

func parseState(data []byte) (state, bool) {
	var s state
	if json.Unmarshal(data, &s) != nil || s.Refs == nil {
		return s, false
	}
	if !strings.HasPrefix(s.Generation, generationPrefix) || !filepath.IsLocal(s.Generation) || filepath.Base(s.Generation) != s.Generation {
		return s, false
	}
	for ref, tip := range s.Refs {
		if !isCommit(tip.Commit) || slices.ContainsFunc(tip.Before, func(c string) bool { return !isCommit(c) }) {
			return s, false
		}
		if tip.ID == "" {
			tip.ID = tip.First
		}
		tip.First = ""
		s.Refs[ref] = tip
	}
	if s.Brought == nil {
		s.Brought = &s.Fetched
	}
	return s, true
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

// tempPrefix marks what a killed process may have left behind.
const tempPrefix = ".tmp-"

// writeFile replaces a file at once: temporary name, sync, rename, sync of the folder.
func writeFile(name string, data []byte) (err error) {
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), name); err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
