// Package sealcheck owns the check that everything is sealed as the policy says.
//
// It refuses to know identities: nothing is opened, so what it says is what anybody who can read the repository can see.
//
// A snapshot passes through twice: its policy and its groups are read, then every file that the policy covers is looked
// at, unless it was found in order before under the same rules (walk.go). Files and folders are told apart by their git ids,
// so a state that differs in one file from the one before costs one file, and a folder that lies at many paths is walked once
// where nothing in it has to be sealed. A work tree is judged as the commit that would be made of it: what is plain there will
// be sealed on its way into git.
package sealcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Problem is something that keeps a commit from being served.
type Problem struct {
	// File is relative to the repository's root, Line counts from 1 and is 0 where the file as a whole is meant.
	File         string
	Line         int
	Message, Fix string
}

// Checker judges one state after another with little work. It is safe for concurrent use.
type Checker struct {
	mu sync.Mutex // guards what follows
	// rules are those under which the rest was found.
	rules string
	// known are files and folders in order, bare folders in which no pattern matches anything.
	known map[place]struct{}
	bare  map[bareFolder]struct{}
	// large is the last state that was more than will be looked at, and where that was found.
	large struct {
		root snapshot.Hash
		at   string
	}
}

// maxKnown is how many files and folders are remembered before all are forgotten.
const maxKnown = 500_000

// New makes a Checker that remembers nothing yet.
func New() *Checker { return &Checker{} }

// Check lists what is wrong, sorted by file; nothing is wrong where there is no policy. More files than will be looked at, and
// more problems than anybody reads, are problems themselves. The error is one of reading, or that ctx ended.
func (c *Checker) Check(ctx context.Context, snap *snapshot.Snapshot) ([]Problem, error) {
	fsys := snap.FS()
	p, err := policy.Load(fsys)
	switch {
	case errors.Is(err, policy.ErrNone):
		return nil, nil
	case err != nil:
		return []Problem{placed(policy.File, err)}, nil
	}
	set, err := groups.Load(fsys)
	if err != nil {
		return []Problem{placed(".plural/groups", err)}, nil
	}
	if err := set.Check(p); err != nil {
		return []Problem{placed(policy.File, err)}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.under(snap, set); err != nil {
		return nil, err
	}
	found, err := c.walk(ctx, snap, leakcheck.Rules{Policy: p, Groups: set})
	if err != nil {
		return nil, fmt.Errorf("look for what is not sealed: %w", err)
	}
	slices.SortStableFunc(found, func(a, b Problem) int { return cmp.Compare(a.File, b.File) })
	return found, nil
}

// under forgets what was found in order under other rules.
func (c *Checker) under(snap *snapshot.Snapshot, set *groups.Set) error {
	id, _, err := snap.Hash(policy.File)
	if err != nil {
		return fmt.Errorf("read %s: %w", policy.File, err)
	}
	rules := string(id)
	for _, name := range set.Names() {
		if g, ok := set.Group(name); ok {
			rules += fmt.Sprintf("\n%s %d %s", name, g.Epoch, g.Recipient.Text)
		}
	}
	if rules != c.rules || len(c.known)+len(c.bare) > maxKnown {
		c.rules, c.known, c.bare = rules, map[place]struct{}{}, map[bareFolder]struct{}{}
		c.large.root = ""
	}
	return nil
}

// filePlace is how errors of policy and groups name a place: file:line: message, or file: message.
var filePlace = regexp.MustCompile(`(\.plural/[^:\n]*):(?:(\d+):)? (.*)`)

// placed sets the place in an error's text apart; without one, the fault is that of file.
func placed(file string, err error) Problem {
	message, line := err.Error(), 0
	if m := filePlace.FindStringSubmatch(message); m != nil {
		file, message = m[1], m[3]
		line, _ = strconv.Atoi(m[2]) // digits or nothing; a number out of range reads as unknown
	}
	return Problem{File: file, Line: line, Message: message, Fix: "correct " + file}
}
