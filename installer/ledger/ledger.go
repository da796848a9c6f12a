// Package ledger owns the record of what was deployed of a fleet's packages, a git ref that is also the lock.
//
// It refuses to know what a step is, and how one is taken or undone: plan compares the record with what is wanted, others do
// what follows. It holds no secret in clear: a file for the record is refused unless it is sealed.
//
// The record is a tree of its own in the installation repo's git repository, on a ref that no branch contains: one JSON file,
// with files of steps beside it. The git program moves it, as the person that git knows; the work tree, the index and the
// branches have no part in it. A change is a commit on top of the record as it is known here, pushed on the condition that the
// remote's ref has not moved, so nobody's change is lost; and whoever has written itself into the record as the holder of its
// lock is the only one to write. A push that was cut off has either moved the ref or has not, and the next look tells which.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pluralsh/plural/workspace"
)

// Ref is where the record lies in the installation repo's git repository, here and at its remote.
const Ref = "refs/plural/deployments"

const (
	// races bounds how often a write is made again because somebody else was faster, refusals how often because the remote did
	// not take it though nobody was: servers refuse for a moment, too, while another push holds their lock.
	races    = 50
	refusals = 4
)

// Ledger is the record of one installation repo. It is safe for concurrent use.
type Ledger struct {
	// NoInput keeps git from asking anybody for a password or a passphrase. It never does without a terminal.
	NoInput bool

	root string

	mu   sync.Mutex // guards all below
	repo *clone
	at   string // the commit that was read or written last, empty for none
}

// Open is the ledger of a repo. It asks nobody anything.
func Open(repo *workspace.Repo) (*Ledger, error) { return &Ledger{root: repo.Root()}, nil }

// clone is the git repository, looked at once.
func (l *Ledger) clone(ctx context.Context) (*clone, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.repo != nil {
		return l.repo, nil
	}
	c, err := openClone(ctx, l.root)
	if err != nil {
		return nil, err
	}
	c.noInput = l.NoInput
	l.repo = c
	return c, nil
}

func (l *Ledger) known() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

func (l *Ledger) knows(commit string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = commit
}

// Read is the record as the remote has it, or as this clone has it where there is no remote. One that was never written is
// empty; but a remote that has none gets the one of this clone, as one does that was added later. The error is a *RemoteError
// when the remote cannot be asked.
func (l *Ledger) Read(ctx context.Context) (*Record, error) {
	s, err := l.look(ctx)
	if err != nil {
		return nil, err
	}
	return s.record()
}

// File is a file of the record as it was read or written last. The error is fs.ErrNotExist when there is none.
func (l *Ledger) File(ctx context.Context, name string) ([]byte, error) {
	c, err := l.clone(ctx)
	if err != nil {
		return nil, err
	}
	at := l.known()
	if at == "" {
		return nil, fmt.Errorf("read %q from the record of deployments: %w", name, fs.ErrNotExist)
	}
	return c.read(ctx, at, name)
}

// snapshot is the record at one moment. It does not change.
type snapshot struct {
	// ref is the commit that the ref named then, empty for none; commit is the one with the record, which differs when only
	// this clone has one.
	ref, commit string
	// text is the record's file, nil for none.
	text []byte
}

func (s *snapshot) record() (*Record, error) {
	if s.text == nil {
		return &Record{Installations: map[string]*Installation{}}, nil
	}
	return decode(s.text)
}

// look finds the record.
func (l *Ledger) look(ctx context.Context) (*snapshot, error) {
	c, err := l.clone(ctx)
	if err != nil {
		return nil, err
	}
	for range refusals {
		s, err := see(ctx, c)
		if errors.Is(err, errMoved) {
			continue
		}
		if err == nil {
			l.knows(s.commit)
		}
		return s, err
	}
	return nil, errMoved
}

func see(ctx context.Context, c *clone) (*snapshot, error) {
	tip, err := c.tip(ctx)
	if err != nil {
		return nil, err
	}
	s := &snapshot{ref: tip, commit: tip}
	switch {
	case tip == "":
		if s.commit, err = c.here(ctx); err != nil || s.commit == "" {
			return s, err
		}
	case c.remote != "":
		if err := c.fetch(ctx, tip); err != nil {
			return nil, err
		}
	}
	s.text, err = c.read(ctx, s.commit, recordFile)
	return s, err
}

// revision is a change on its way: the record, and files that are put beside it.
type revision struct {
	record *Record
	files  map[string][]byte
}

// publish makes a commit with a revision on top of what was seen, and moves the ref there. The error is errMoved when somebody
// else was faster. Nothing is written, and s returned, when the revision changes nothing.
func (l *Ledger) publish(ctx context.Context, s *snapshot, r revision, message string) (*snapshot, error) {
	c, err := l.clone(ctx)
	if err != nil {
		return nil, err
	}
	text, err := r.record.encode()
	if err != nil {
		return nil, err
	}
	files, changed, err := c.arrange(ctx, s, r, text)
	if err != nil || !changed {
		return s, err
	}
	next, err := c.commit(ctx, s.commit, files, message)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		refused := c.publish(ctx, s.ref, next)
		if refused == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		tip, err := c.tip(ctx)
		switch {
		case err != nil:
			return nil, err
		case tip == next: // it arrived, and only the answer did not
		case tip != s.ref:
			return nil, errMoved
		case attempt == refusals:
			return nil, &RefusedError{Remote: c.remote, Err: refused}
		default:
			if err := pause(ctx, attempt); err != nil {
				return nil, err
			}
			continue
		}
		break
	}
	l.knows(next)
	return &snapshot{ref: next, commit: next, text: text}, nil
}

// arrange is all files that a commit with the revision holds, and whether that differs from what was seen. Files that belong to
// no step of the record are left out.
func (c *clone) arrange(ctx context.Context, s *snapshot, r revision, text []byte) (map[string]file, bool, error) {
	was, err := c.files(ctx, s.commit)
	if err != nil {
		return nil, false, err
	}
	keeps := r.record.keeps()
	now := map[string]file{}
	for path, f := range was {
		if given, replaced := r.files[path]; keeps[path] && (!replaced || given != nil) {
			now[path] = f
		}
	}
	put := map[string][]byte{recordFile: text}
	for path, content := range r.files {
		if content != nil && keeps[path] {
			put[path] = content
		}
	}
	for path, content := range put {
		oid, err := c.store(ctx, content)
		if err != nil {
			return nil, false, err
		}
		now[path] = file{"100644", oid}
	}
	same := len(now) == len(was) && s.ref == s.commit
	for path, f := range now {
		same = same && was[path].oid == f.oid
	}
	return now, !same, nil
}

// pause waits a little, longer each time, so that those who wait for the same thing do not come back together.
func pause(ctx context.Context, attempt int) error {
	timer := time.NewTimer(time.Duration(attempt)*50*time.Millisecond + rand.N(100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// change makes a change to the record as it is at the moment, again when somebody else was faster.
func (l *Ledger) change(ctx context.Context, message string, make func(*Record) error) (*snapshot, error) {
	for attempt := range races {
		s, err := l.look(ctx)
		if err != nil {
			return nil, err
		}
		record, err := s.record()
		if err != nil {
			return nil, err
		}
		if err := make(record); err != nil {
			return nil, err
		}
		next, err := l.publish(ctx, s, revision{record: record}, message)
		if !errors.Is(err, errMoved) {
			return next, err
		}
		if err := pause(ctx, min(attempt, 10)); err != nil {
			return nil, err
		}
	}
	return nil, errMoved
}
