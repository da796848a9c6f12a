// Package sealed owns the judgement of one state of an installation repo: what in it must be sealed, and is not as it
// must be.
//
// It refuses to know identities: nothing is opened, so what it says is what anybody who can read the repository can see.
//
// A snapshot passes through twice: its policy and its groups are read, then every file that the policy covers is looked
// at, unless it was found in order before under the same rules. Files and folders are told apart by their git ids, so a
// state that differs in one file from the one before costs one file. A work tree is judged as the commit that would be
// made of it: what is plain there will be sealed on its way into git.
package sealed

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/guard"
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
	// rules are those under which known was found in order.
	rules string
	known map[place]struct{}
}

// maxKnown is how many files and folders are remembered before all are forgotten.
const maxKnown = 500_000

// New makes a Checker that remembers nothing yet.
func New() *Checker { return &Checker{} }

// Check lists what is wrong, sorted by file; nothing is wrong where there is no policy. The error is one of reading.
func (c *Checker) Check(snap *snapshot.Snapshot) ([]Problem, error) {
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
	news := &unknown{files: fsys, known: c.known}
	findings, err := guard.Tree(news, p, set)
	if err != nil && strings.Contains(err.Error(), policy.File+":") { // patterns that contradict each other
		return append(problems(findings), placed(policy.File, err)), nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for what is not sealed: %w", err)
	}
	if snap.Commit().ID == "" {
		findings = slices.DeleteFunc(findings, func(f guard.Finding) bool { return f.Kind == guard.Plaintext })
	} else if len(findings) == 0 {
		for _, at := range news.seen {
			c.known[at] = struct{}{}
		}
	}
	return problems(findings), nil
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
	if rules != c.rules || len(c.known) > maxKnown {
		c.rules, c.known = rules, map[place]struct{}{}
	}
	return nil
}

func problems(findings []guard.Finding) []Problem {
	var list []Problem
	for _, f := range findings {
		list = append(list, Problem{File: f.Path, Message: f.Message, Fix: f.Fix})
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return cmp.Compare(a.File, b.File) })
	return list
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

// place is one file or folder of one content.
type place struct {
	path string
	id   snapshot.Hash
	mode fs.FileMode
}

// unknown shows of a file system what is not known to be in order, and notes it. The folder .plural is always shown: it
// holds the rules.
type unknown struct {
	files fs.FS
	known map[place]struct{}
	seen  []place
}

// Open implements fs.FS.
func (u *unknown) Open(name string) (fs.File, error) { return u.files.Open(name) }

// ReadFile implements fs.ReadFileFS.
func (u *unknown) ReadFile(name string) ([]byte, error) { return fs.ReadFile(u.files, name) }

// Stat implements fs.StatFS.
func (u *unknown) Stat(name string) (fs.FileInfo, error) { return fs.Stat(u.files, name) }

// ReadDir implements fs.ReadDirFS.
func (u *unknown) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(u.files, name)
	if err != nil || name == ".plural" || strings.HasPrefix(name, ".plural/") {
		return entries, err
	}
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		child := path.Join(name, e.Name())
		git, ok := e.(interface{ Sys() any })
		if !ok || child == ".plural" {
			return false
		}
		id, ok := git.Sys().(snapshot.Hash)
		if !ok {
			return false
		}
		at := place{child, id, e.Type()}
		if _, ok := u.known[at]; ok {
			return true
		}
		u.seen = append(u.seen, at)
		return false
	}), nil
}
