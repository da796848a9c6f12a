package offline

import (
	"errors"
	"fmt"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/fleet"
)

// maxUnreadable is how many commits in a row may be unreadable for the one before them to be found.
const maxUnreadable = 50

// LastReadable is the state at the newest commit, from HEAD back, whose files read as a fleet, with how many steps it is behind
// HEAD; nil, negative, where there is none.
func LastReadable(repo *workspace.Repo) (*State, int) {
	for n := range maxUnreadable {
		state, err := Open(repo, fmt.Sprintf("HEAD~%d", n))
		if err == nil {
			return state, n
		}
		if !errors.As(err, new(fleet.Errors)) { // there are no more commits here
			break
		}
	}
	return nil, -1
}

// Ancestor is the commit so many steps behind HEAD, by first parents; nil where there is none.
func Ancestor(repo *workspace.Repo, steps int) (*Commit, error) {
	g, at, err := head(repo)
	if err != nil || at == nil {
		return nil, err
	}
	for range steps {
		if len(at.ParentHashes) == 0 {
			return nil, nil
		}
		if at, err = g.CommitObject(at.ParentHashes[0]); err != nil {
			return nil, fmt.Errorf("read history: %w", err)
		}
	}
	return told(at, false), nil
}
