package gitagent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// keepMirror is how long the mirror of a repository that nobody follows any more stays on disk: it holds the last good
// commits of a source that may have been removed by mistake.
const keepMirror = 30 * 24 * time.Hour

// SetOptions hold for all agents of a set.
type SetOptions struct {
	// Dir is the parent of all mirrors' folders.
	Dir string
	// Interval is for repositories that ask for none of their own, Timeout bounds one fetch. Zero means the default.
	Interval, Timeout time.Duration
	AllowFile         bool
	// Log gets changes and failures; nil means slog.Default.
	Log *slog.Logger
}

// Want is a repository to follow. Several wants may name one repository: then all their refs are followed, at the
// shortest of their intervals.
type Want struct {
	URL string
	// Interval is before jitter; zero means the set's.
	Interval time.Duration
	Refs     []string
}

// Set holds exactly one agent for each repository. It is safe for concurrent use.
type Set struct {
	options SetOptions
	changed chan struct{}
	dirty   chan struct{}

	mu     sync.Mutex
	agents map[string]*member // guarded by mu, by identity of the URL
}

// member is an agent of the set. It leaves the set only after its goroutine has ended, so that no folder ever has two.
type member struct {
	agent    *Agent
	err      error // why there is no agent
	wanted   bool
	interval time.Duration
	// Only the goroutine of Run touches what follows.
	runs    time.Duration // the interval it runs at; zero when it does not run
	cancel  context.CancelFunc
	stopped chan struct{}
}

// NewSet makes an empty set, and removes mirrors that have not been followed for a month.
func NewSet(options SetOptions) (*Set, error) {
	options.Interval = cmp.Or(options.Interval, DefaultInterval)
	options.Log = cmp.Or(options.Log, slog.Default())
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder for mirrors: %w", err)
	}
	s := &Set{options: options, changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1), agents: map[string]*member{}}
	return s, s.forget(time.Now().Add(-keepMirror))
}

// forget removes mirrors that have not been written since; one in use is written every minute.
func (s *Set) forget(since time.Time) error {
	states, err := filepath.Glob(filepath.Join(s.options.Dir, "*", "state.json"))
	if err != nil {
		return fmt.Errorf("list mirrors: %w", err)
	}
	for _, state := range states {
		info, err := os.Stat(state)
		if err != nil || info.ModTime().After(since) {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(state)); err != nil {
			return fmt.Errorf("remove unused mirror: %w", err)
		}
	}
	return nil
}

// Run fetches for all that are wanted, now and later, until ctx ends. It returns ctx's error after all agents stopped.
func (s *Set) Run(ctx context.Context) error {
	defer s.stopAll()
	for {
		s.reconcile(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.dirty:
		}
	}
}

// Ensure replaces what is wanted. Agents that are new can be asked for snapshots as soon as it returns; those that are no
// longer wanted cannot, and stop soon after. What is wrong with a URL or its folder, Snapshot and Status tell.
func (s *Set) Ensure(wants []Want) {
	refs, intervals := s.merge(wants)
	s.mu.Lock()
	for id, m := range s.agents {
		m.wanted = refs[id].names != nil
	}
	for id, want := range refs {
		m, ok := s.agents[id]
		if !ok || m.agent == nil {
			m = s.open(id, want.url)
			s.agents[id] = m
		}
		m.wanted, m.interval = true, intervals[id]
		if m.agent != nil {
			m.agent.followOnly(want.names)
		}
	}
	s.mu.Unlock()
	signal(s.dirty)
}

type refSet struct {
	url   string
	names map[string]bool
}

func (s *Set) merge(wants []Want) (map[string]refSet, map[string]time.Duration) {
	refs, intervals := map[string]refSet{}, map[string]time.Duration{}
	for _, want := range wants {
		id := identity(want.URL)
		if _, ok := refs[id]; !ok {
			refs[id] = refSet{want.URL, map[string]bool{}}
		}
		for _, ref := range want.Refs {
			refs[id].names[ref] = true
		}
		interval := cmp.Or(want.Interval, s.options.Interval)
		if had, ok := intervals[id]; !ok || interval < had {
			intervals[id] = interval
		}
	}
	return refs, intervals
}

func (s *Set) open(id, url string) *member {
	agent, err := New(Options{
		URL: url, Dir: filepath.Join(s.options.Dir, folder(id)), Interval: s.options.Interval, Timeout: s.options.Timeout,
		AllowFile: s.options.AllowFile, Log: s.options.Log,
	})
	if err != nil {
		s.options.Log.Error("repository cannot be followed", "repo", Redact(url), "error", err)
		return &member{err: err}
	}
	agent.changed = s.changed
	return &member{agent: agent}
}

// reconcile starts and stops goroutines to match what is wanted.
func (s *Set) reconcile(ctx context.Context) {
	s.mu.Lock()
	members := maps.Clone(s.agents)
	wanted := make(map[string]time.Duration, len(members))
	for id, m := range members {
		if m.wanted && m.agent != nil {
			wanted[id] = m.interval
		}
	}
	s.mu.Unlock()
	for id, m := range members {
		if m.runs == wanted[id] {
			s.drop(id, m)
			continue
		}
		m.stop()
		if interval := wanted[id]; interval > 0 {
			m.start(ctx, interval)
		}
		s.drop(id, m)
	}
}

// drop takes a member out that neither runs nor is wanted.
func (s *Set) drop(id string, m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.wanted && m.runs == 0 && s.agents[id] == m {
		delete(s.agents, id)
	}
}

func (s *Set) stopAll() {
	s.mu.Lock()
	members := slices.Collect(maps.Values(s.agents))
	s.mu.Unlock()
	for _, m := range members {
		m.stop()
	}
}

func (m *member) start(ctx context.Context, interval time.Duration) {
	ctx, m.cancel = context.WithCancel(ctx)
	stopped := make(chan struct{})
	m.runs, m.stopped = interval, stopped
	go func() {
		defer close(stopped)
		_ = m.agent.run(ctx, interval) // only ever the context's error
	}()
}

// stop waits until the member's goroutine has ended.
func (m *member) stop() {
	if m.runs == 0 {
		return
	}
	m.cancel()
	<-m.stopped
	m.runs = 0
}

// Changed has a value after any repository changed; see [Agent.Changed].
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Hint makes the next fetch of every repository due now.
func (s *Set) Hint() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.agents {
		if m.agent != nil {
			m.agent.Hint()
		}
	}
}

// Get gives the agent of a repository that is wanted.
func (s *Set) Get(url string) (*Agent, bool) {
	agent, err := s.find(url)
	return agent, err == nil
}

// Snapshot gives the last good commit of a repository's ref; see [Agent.Snapshot].
func (s *Set) Snapshot(url, ref string) (*snapshot.Snapshot, error) {
	agent, err := s.find(url)
	if err != nil {
		return nil, err
	}
	return agent.Snapshot(ref)
}

// At gives a commit that is still in a repository's mirror.
func (s *Set) At(url, commit string) (*snapshot.Snapshot, error) {
	agent, err := s.find(url)
	if err != nil {
		return nil, err
	}
	return agent.At(commit)
}

// Status tells how a repository does, also one that could not be opened.
func (s *Set) Status(url string) Status {
	agent, err := s.find(url)
	if err != nil {
		return Status{URL: Redact(url), LastError: err.Error()}
	}
	return agent.Status()
}

var errUnwanted = errors.New("repository is not followed")

func (s *Set) find(url string) (*Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.agents[identity(url)]
	switch {
	case !ok || !m.wanted:
		return nil, fmt.Errorf("%s: %w: %w", Redact(url), snapshot.ErrNotFetched, errUnwanted)
	case m.err != nil:
		return nil, fmt.Errorf("%w: %w", snapshot.ErrNotFetched, m.err)
	}
	return m.agent, nil
}

// identity is the same for URLs that differ only in how they are written. Credentials count: what one of them may read,
// another may not. So does ".git" at the end: that both names lead to one repository is a habit of hosts, not a rule.
func identity(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	for scheme, port := range map[string]string{"https": ":443", "http": ":80", "ssh": ":22"} {
		if u.Scheme == scheme {
			u.Host = strings.TrimSuffix(u.Host, port)
		}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath, u.Fragment = "", ""
	return u.String()
}

// folder names a mirror without showing the URL.
func folder(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}
