// Package mirror owns the mirror of one source on disk: its last good commits.
//
// A [Mirror] is a folder of git packs with a small state beside them: for each ref that was asked for, all files of its
// last good commit and of a few before it, and no history. [Mirror.Fetch] lets an [Upstream] say what the refs name now
// and bring what is missing; nothing that an upstream brings is believed before it was measured, hashed and found
// complete. Until then, and while the upstream is away, the last good commit is served.
//
// The package does not know where commits come from: a git remote, a chart, or another replica's mirror, which reads this
// one through [Mirror.Manifest] and [Mirror.OpenPack]. Nor does it know what files mean.
//
// Bytes come in through [Receiver], into a generation: one folder of packs, which only ever gains some. What is damaged,
// or has too many packs, is replaced by a new generation, which becomes current when the state names it. Each file is
// synced before it is named, and named before the state names it, so a process may be killed at any point.
package mirror

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Mirror holds the last good commits of one upstream in a folder that it has for itself. Everything in it may be deleted;
// it is fetched again. A mirror is safe for concurrent use, and reading never waits for a fetch.
type Mirror struct {
	dir     string
	maxFile int64
	objects *snapshot.Objects
	// damaged is set when something cannot be read, or is not what it should be: the next fetch replaces everything.
	damaged atomic.Bool
	// suspect is set when something was not found. A snapshot may have outlived its commit, so the next fetch looks whether
	// all is here that should be.
	suspect atomic.Bool

	// replaced counts the times that everything was replaced because of damage.
	replaced atomic.Int64

	// fetching is held by the one fetch that may run. It guards what follows.
	fetching sync.Mutex
	// saved is the state on disk.
	saved state
	// verified are objects known to be complete and well-formed, with all that they hold.
	verified snapshot.Seen

	// mu guards what follows. Only a fetch changes it.
	mu    sync.Mutex
	state state
	store *store
}

// Open opens the mirror in dir, or starts an empty one. It removes what an interrupted process left behind. It does not
// touch the network, and a damaged mirror opens too: it gives what can be read, and the next fetch replaces it.
func Open(dir string) (*Mirror, error) { return OpenLimited(dir, snapshot.MaxBlob) }

// OpenLimited is Open where files of up to so many bytes are read. Larger ones are left out: a commit that has some is good all the
// same. With another limit than the mirror had before, the next fetch replaces everything if that makes a difference.
func OpenLimited(dir string, maxFile int64) (*Mirror, error) {
	m := &Mirror{dir: dir, maxFile: maxFile, verified: snapshot.Seen{}}
	if err := m.open(); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	return m, nil
}

func (m *Mirror) open() (err error) {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if m.state, err = loadState(m.dir); err != nil {
		return err
	}
	if _, err := os.Stat(packDir(m.generation())); m.state.Generation == "" || err != nil {
		if m.state.Generation, err = newGeneration(m.dir); err != nil {
			return err
		}
		m.state.MaxFile = m.maxFile
		if err := m.state.save(m.dir); err != nil {
			return err
		}
	}
	m.saved = m.state.clone()
	if m.store, err = openStore(m.generation(), m.maxFile); err != nil {
		m.damaged.Store(true)
	}
	m.objects = snapshot.NewObjects(m.store, func(err error) {
		if missing(err) {
			m.suspect.Store(true)
		} else {
			m.damaged.Store(true)
		}
	})
	return m.sweep()
}

// otherLimit says whether the generation was filled under another limit, by which it lacks files or has too large ones.
func (m *Mirror) otherLimit() bool {
	was := cmp.Or(m.state.MaxFile, snapshot.MaxBlob)
	return m.maxFile < was || m.maxFile > was && len(m.store.left.all()) > 0
}

// generation is the folder that holds the objects now.
func (m *Mirror) generation() string { return filepath.Join(m.dir, m.state.Generation) }

// Snapshot gives the last good commit of a ref, spelled as it was given to Fetch. Before the first good fetch it is
// snapshot.ErrNotFetched. A commit's 40 hex digits name it also when it is the last good one of another ref, or one of
// the few before it.
func (m *Mirror) Snapshot(ref string) (*snapshot.Snapshot, error) {
	m.mu.Lock()
	commit := m.state.Refs[ref].Commit
	if commit == "" && m.state.holds(ref) {
		commit = ref
	}
	m.mu.Unlock()
	if commit == "" {
		return nil, &RefError{Ref: ref, Err: snapshot.ErrNotFetched}
	}
	s, err := m.read(commit)
	if err != nil {
		return nil, &RefError{Ref: ref, Err: err}
	}
	return s, nil
}

// At gives a commit by its 40 hex digits, as long as it is kept: a ref's last good one, or one of the few before it. What
// was received and not accepted is not given out.
func (m *Mirror) At(commit string) (*snapshot.Snapshot, error) {
	m.mu.Lock()
	known := m.state.holds(commit)
	m.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("find commit %.40q: %w", commit, snapshot.ErrNotFetched)
	}
	return m.read(commit)
}

func (m *Mirror) read(commit string) (*snapshot.Snapshot, error) {
	s, err := m.objects.Snapshot(snapshot.Hash(commit))
	if err != nil {
		return nil, fmt.Errorf("the mirror on disk is damaged, and replaced by the next good fetch: %w", err)
	}
	return s, nil
}

// Tips gives the last good tip of every ref that has one.
func (m *Mirror) Tips() map[string]Tip {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.tips()
}

// Fetched is when the upstream last answered, also across restarts; zero if it never did. In a mirror that was filled
// from another one it is what that one says.
func (m *Mirror) Fetched() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fetched
}

// Brought is when the upstream last brought all that was asked for, also across restarts; zero if it never did. It is no later than
// Fetched.
func (m *Mirror) Brought() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.state.Brought
}

// Damage says whether something cannot be read now, and how often everything was fetched anew because of that since the mirror was
// opened.
func (m *Mirror) Damage() (now bool, mended int64) { return m.damaged.Load(), m.replaced.Load() }

// isCommit says whether a ref is a commit's 40 lower-case hex digits.
func isCommit(ref string) bool {
	return plumbing.NewHash(ref).String() == ref && ref != plumbing.ZeroHash.String()
}

// missing says whether an error means that an object is not there, rather than that it is no good.
func missing(err error) bool { return errors.Is(err, plumbing.ErrObjectNotFound) }
