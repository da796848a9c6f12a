package snapshot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// MirrorOptions are what a mirror may do.
type MirrorOptions struct {
	// AllowFile admits file URLs: the git program then runs on this machine.
	AllowFile bool
}

// Mirror is a folder that holds the newest commits of one remote repository: for each ref that was asked for, all files
// of its last good commit, and no history. One process owns the folder. Everything in it may be deleted; it is fetched
// again. A mirror is safe for concurrent use, and reading never waits for a fetch.
type Mirror struct {
	dir     string
	options MirrorOptions
	web     transport.Transport
	objects *objects

	// fetching is held by the one fetch that may run. It guards what follows.
	fetching sync.Mutex
	// saved is the state on disk.
	saved state
	// absent are commits that the remote did not have, by the refs it advertised then.
	absent map[plumbing.Hash]string
	// verified are trees known to be complete and well-formed, with all that they hold.
	verified map[Hash]bool

	mu    sync.Mutex
	state state // guarded by mu
}

// RefError says that one ref could not be brought up to date; its last good commit stays.
type RefError struct {
	Ref string
	Err error
}

func (e *RefError) Error() string { return fmt.Sprintf("ref %q: %v", e.Ref, e.Err) }
func (e *RefError) Unwrap() error { return e.Err }

// OpenMirror opens the mirror in dir, or starts an empty one. It removes what an interrupted process left behind. It
// does not touch the network, and a damaged mirror opens too: the next fetch replaces it.
func OpenMirror(dir string, options MirrorOptions) (*Mirror, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open mirror: %w", err)
	}
	st, err := loadState(dir)
	if err != nil {
		return nil, err
	}
	m := &Mirror{dir: dir, options: options, web: newWeb(), objects: &objects{cache: cache.NewObjectLRU(objectCache)}, verified: map[Hash]bool{}, absent: map[plumbing.Hash]string{}, state: st}
	if _, err := os.Stat(packDir(m.generation())); st.Generation == "" || err != nil {
		if m.state.Generation, err = newGeneration(dir); err != nil {
			return nil, err
		}
		if err := m.state.save(dir); err != nil {
			return nil, err
		}
	}
	m.objects.damaged.Store(!intact(m.generation()))
	return m, errors.Join(m.sweep(), m.objects.reload(m.generation()))
}

// generation is the folder that holds the objects now. Only a fetch changes it.
func (m *Mirror) generation() string { return filepath.Join(m.dir, m.state.Generation) }

// sweep removes whatever the state does not name.
func (m *Mirror) sweep() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return fmt.Errorf("clean mirror: %w", err)
	}
	for _, e := range entries {
		stale := strings.HasPrefix(e.Name(), generationPrefix) && e.Name() != m.state.Generation
		if stale || strings.HasPrefix(e.Name(), tempPrefix) {
			if err := os.RemoveAll(filepath.Join(m.dir, e.Name())); err != nil {
				return fmt.Errorf("clean mirror: %w", err)
			}
		}
	}
	return nil
}

// Snapshot gives the last good commit of a ref, spelled as it was given to Fetch. Before the first good fetch it is
// ErrNotFetched.
func (m *Mirror) Snapshot(ref string) (*Snapshot, error) {
	m.mu.Lock()
	tip, ok := m.state.Refs[ref]
	m.mu.Unlock()
	if id := plumbing.NewHash(ref); !ok && plumbing.IsHash(ref) && m.objects.has(id) {
		tip, ok = refTip{Commit: ref}, true
	}
	if !ok {
		return nil, &RefError{Ref: ref, Err: ErrNotFetched}
	}
	s, err := m.objects.snapshot(plumbing.NewHash(tip.Commit))
	if err != nil {
		return nil, &RefError{Ref: ref, Err: err}
	}
	return s, nil
}

// At gives a commit by its 40 hex digits, as long as it is here: a ref's last good one, or one of the few before it.
func (m *Mirror) At(commit string) (*Snapshot, error) {
	s, err := m.objects.snapshot(plumbing.NewHash(commit))
	if err != nil {
		return nil, fmt.Errorf("find commit %.40q: %w", commit, err)
	}
	return s, nil
}

// Commits gives the last good commit of every ref that has one.
func (m *Mirror) Commits() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	commits := make(map[string]string, len(m.state.Refs))
	for ref, tip := range m.state.Refs {
		commits[ref] = tip.Commit
	}
	return commits
}

// Fetched is when the remote last answered, also across restarts; zero if it never did.
func (m *Mirror) Fetched() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fetched
}

// Fetch asks the remote for the refs (each a branch, a tag, a full ref name, a commit's 40 hex digits, or "" and "HEAD"
// for the remote's default branch) and takes in what is new. It returns those refs whose commit changed, which it may do
// beside an error: a ref that is gone, or whose tree is refused, is a *RefError in it, and holds up no other ref.
// History is not needed, so a forced push is like any other. No error shows the URL's credentials.
func (m *Mirror) Fetch(ctx context.Context, rawURL string, refs []string) (changed []string, err error) {
	u, err := parseURL(rawURL, m.options.AllowFile)
	if err != nil {
		return nil, err
	}
	m.fetching.Lock()
	defer m.fetching.Unlock()
	changed, err = m.fetch(ctx, u, refs)
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		err = fmt.Errorf("fetch %s: %w", Redact(rawURL), redactError(err, u))
	}
	return changed, err
}

func (m *Mirror) fetch(ctx context.Context, u *url.URL, refs []string) ([]string, error) {
	session, err := m.dial(u)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	advertised, err := session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, err
	}
	remote, err := newRemote(advertised)
	if err != nil {
		return nil, err
	}
	tips, problems := remote.resolve(refs)
	next := m.snapshotState()
	if m.objects.damaged.Load() && len(tips) > 0 {
		if next.Generation, err = newGeneration(m.dir); err != nil {
			return nil, err
		}
		m.verified = map[Hash]bool{}
	}
	wanted := m.wanted(next, tips, remote.fingerprint)
	if req := remote.request(wanted, m.haves(next)); req != nil {
		if err := download(ctx, session, req, packDir(filepath.Join(m.dir, next.Generation))); err != nil {
			return nil, errors.Join(err, m.sweep())
		}
		if err := m.objects.reload(filepath.Join(m.dir, next.Generation)); err != nil {
			return nil, err
		}
		m.note(wanted, remote.fingerprint)
	}
	changed, refused := m.advance(&next, tips)
	if next.Generation != m.state.Generation && !m.holdsAny(next) {
		return nil, errors.Join(append(append(problems, refused...), m.objects.reload(m.generation()), m.sweep())...)
	}
	next.touch(refs, time.Now())
	err = m.commit(next)
	if err == nil {
		err = m.compactIfNeeded(ctx)
	}
	return changed, errors.Join(append(append(problems, refused...), err)...)
}

func (m *Mirror) snapshotState() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.clone()
}

// note remembers which commits the remote did not have: looking for one costs a fetch of everything, and is worth it only
// when the remote has changed.
func (m *Mirror) note(wanted []plumbing.Hash, fingerprint string) {
	clear(m.absent)
	for _, id := range wanted {
		if !m.objects.has(id) {
			m.absent[id] = fingerprint
		}
	}
}

// wanted are the tips that are not here yet; all of them when the objects are about to be replaced.
func (m *Mirror) wanted(next state, tips map[string]plumbing.Hash, fingerprint string) []plumbing.Hash {
	fresh := next.Generation != m.state.Generation
	var wants []plumbing.Hash
	for ref, tip := range tips {
		known := next.Refs[ref]
		if m.absent[tip] == fingerprint {
			continue
		}
		if fresh || !(known.Tip == tip.String() && m.objects.has(plumbing.NewHash(known.Commit)) || m.objects.has(tip)) {
			wants = append(wants, tip)
		}
	}
	plumbing.HashesSort(wants)
	return slices.Compact(wants)
}

// haves are the commits that the remote need not send again.
func (m *Mirror) haves(next state) []plumbing.Hash {
	if next.Generation != m.state.Generation {
		return nil
	}
	var haves []plumbing.Hash
	for _, commit := range next.commits() {
		if id := plumbing.NewHash(commit); m.objects.has(id) {
			haves = append(haves, id)
		}
	}
	return haves
}

// advance moves refs whose new commit is complete and acceptable.
func (m *Mirror) advance(next *state, tips map[string]plumbing.Hash) (changed []string, refused []error) {
	for _, ref := range slices.Sorted(maps.Keys(tips)) {
		tip, known := tips[ref].String(), next.Refs[ref]
		if known.Tip == tip && m.objects.has(plumbing.NewHash(known.Commit)) {
			continue
		}
		commit, err := m.accept(tips[ref])
		if err != nil {
			refused = append(refused, &RefError{Ref: ref, Err: err})
			continue
		}
		if known.Commit != commit {
			changed = append(changed, ref)
		}
		next.Refs[ref] = known.moved(tip, commit)
	}
	return changed, refused
}

// holdsAny says whether there is anything to serve: what is damaged is better than nothing.
func (m *Mirror) holdsAny(st state) bool {
	return slices.ContainsFunc(st.commits(), func(c string) bool { return m.objects.has(plumbing.NewHash(c)) })
}

// accept checks all of a commit's trees before the commit may become the last good one.
func (m *Mirror) accept(tip plumbing.Hash) (commit string, err error) {
	s, err := m.objects.snapshot(tip)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return "", fmt.Errorf("commit %s is not in any branch or tag of the remote: %w", tip, err)
	}
	if err != nil {
		return "", err
	}
	err = m.objects.walk(s.root, m.verified, func(Hash, plumbing.ObjectType) error { return nil })
	if err != nil {
		return "", fmt.Errorf("commit %s: %w", s.commit.ID, err)
	}
	return s.commit.ID, nil
}

// saveEvery is how stale the time of the last answer may be on disk.
const saveEvery = time.Minute

// unsaved says whether next must be written: a poll that found nothing new is worth no write a second.
func (m *Mirror) unsaved(next state) bool {
	return next.Generation != m.saved.Generation || next.Fetched.Sub(m.saved.Fetched) >= saveEvery ||
		!maps.EqualFunc(next.Refs, m.saved.Refs, refTip.equal)
}

// commit makes next the state, on disk first, and drops the generation that it replaces.
func (m *Mirror) commit(next state) error {
	if m.unsaved(next) {
		if err := next.save(m.dir); err != nil {
			return err
		}
		m.saved = next
	}
	m.mu.Lock()
	replaced := m.state.Generation != next.Generation
	m.state = next
	m.mu.Unlock()
	if !replaced {
		return nil
	}
	m.objects.damaged.Store(false)
	return errors.Join(m.objects.reload(m.generation()), m.sweep())
}
