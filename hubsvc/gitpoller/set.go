package gitpoller

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// keepMirror is how long the mirror of an upstream that nobody follows any more stays on disk: it holds the last good
// commits of a source that may have been removed by mistake.
const keepMirror = 30 * 24 * time.Hour

// SetOptions hold for all agents of a set.
type SetOptions struct {
	// Dir is the parent of all mirrors' folders.
	Dir string
	// Interval is for upstreams that ask for none of their own, Timeout bounds one fetch. Zero means the default.
	Interval, Timeout time.Duration
	// Patience is how long a fetch may take among those that are quick. Zero means the default.
	Patience time.Duration
	// MaxFile is every agent's.
	MaxFile int64
	// Role is this replica's to an upstream, with the name of the owner where it follows; nil means that it owns all.
	Role func(id string) (role Role, owner string)
	// Owner is where a follower fetches an upstream from, and Warm where a new owner does first; nil when Role is.
	Owner, Warm func(id string) mirror.Upstream
	// News is called after the mirror of an upstream changed that this replica owns, or its troubles; it may be nil.
	News func(id string)
	// Damaged is told of an upstream, by its name, that its mirror on disk is damaged, or was and has been fetched anew; it may be nil.
	Damaged func(name string, mended bool)
	// Log gets changes and failures; nil means slog.Default.
	Log *slog.Logger
}

// Want is an upstream to follow. Several wants may have one ID: then all their refs are followed, at the shortest of their
// intervals. Those that would open it in different ways are not fetched: none of them is to decide for the others.
type Want struct {
	// ID names the mirror, on every replica alike.
	ID string
	// Dir is the mirror's folder in the set's; empty means the ID.
	Dir string
	// Name is the upstream's URL without credentials.
	Name string
	// Version changes when Open would give another upstream, for example one with a new credential.
	Version string
	// Interval is before jitter; zero means the set's.
	Interval time.Duration
	Refs     []string
	// Trust stands for what decides which commits are let in, where replicas may differ in that: none takes a mirror of another
	// trust. Empty is that of whoever lets all in.
	Trust string
	// First never waits for others' fetches to end.
	First bool
	Open  func() (mirror.Upstream, error)
}

// ID names an upstream by all that decides what may be read of it: two that differ in a part are two.
func ID(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Set holds exactly one agent for each upstream. It is safe for concurrent use.
type Set struct {
	options SetOptions
	changed chan struct{}
	dirty   chan struct{}
	slots   *Slots

	mu     sync.Mutex
	agents map[string]*member // guarded by mu, by ID
}

// member is an agent of the set. It leaves the set only after its goroutine has ended, so that no folder ever has two.
type member struct {
	agent    *Agent
	name     string
	err      error // why there is no agent
	wanted   bool
	interval time.Duration
	// Only the goroutine of Run touches what follows.
	runs    pace // zero when it does not run
	cancel  context.CancelFunc
	stopped chan struct{}
}

// pace is how an agent runs. Another one ends a fetch that is under way: one from an owner that is gone may hang.
type pace struct {
	interval time.Duration
	role     Role
	owner    string
}

// NewSet makes an empty set, and removes mirrors that have not been followed for a month.
func NewSet(options SetOptions) (*Set, error) {
	options.Interval = cmp.Or(options.Interval, DefaultInterval)
	options.Patience = cmp.Or(options.Patience, DefaultPatience)
	options.Log = cmp.Or(options.Log, slog.Default())
	if options.Role == nil {
		options.Role = func(string) (Role, string) { return Own, "" }
	}
	if err := os.MkdirAll(options.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make folder for mirrors: %w", err)
	}
	s := &Set{
		options: options, changed: make(chan struct{}, 1), dirty: make(chan struct{}, 1), slots: newSlots(options.Patience),
		agents: map[string]*member{},
	}
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
// longer wanted cannot, and stop soon after. What is wrong with an upstream or its folder, Snapshot and Status tell.
func (s *Set) Ensure(wants []Want) {
	merged := s.merge(wants)
	s.mu.Lock()
	for id, m := range s.agents {
		_, m.wanted = merged[id]
	}
	for id, want := range merged {
		m, ok := s.agents[id]
		if !ok || m.agent == nil {
			m = s.open(want)
			s.agents[id] = m
		}
		m.wanted, m.interval = true, want.Interval
		if m.agent == nil {
			continue
		}
		m.agent.Use(want.Version, func() (mirror.Upstream, error) { return opened(want) })
		m.agent.askEvery(want.Interval)
		m.agent.followOnly(want.refs)
	}
	s.mu.Unlock()
	signal(s.dirty)
}

func opened(want union) (mirror.Upstream, error) {
	upstream, err := want.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want.Name, err)
	}
	return upstream, nil
}

// Rebalance has every agent take up the role that the options give it now.
func (s *Set) Rebalance() { signal(s.dirty) }

// union is all wants of one upstream together.
type union struct {
	Want
	refs map[string]bool
}

func (s *Set) merge(wants []Want) map[string]union {
	all := map[string]union{}
	for _, want := range wants {
		want.Interval = cmp.Or(want.Interval, s.options.Interval)
		had, ok := all[want.ID]
		if !ok {
			had = union{want, map[string]bool{}}
		}
		if had.Version != want.Version {
			had.Want = disagreeing(had.Want, want)
		}
		had.Interval = min(had.Interval, want.Interval)
		for _, ref := range want.Refs {
			had.refs[ref] = true
		}
		all[want.ID] = had
	}
	return all
}

var errDisagree = errors.New(
	"sources of this address name different host keys, floors (descendsFrom) or rewinds for it: say the same in each of them",
)

// disagreeing opens nothing. What is wrong with one of them by itself it says first.
func disagreeing(a, b Want) Want {
	first, second := a.Open, b.Open
	a.Version = ID(a.Version, b.Version)
	a.Open = func() (mirror.Upstream, error) {
		for _, open := range []func() (mirror.Upstream, error){first, second} {
			if _, err := open(); err != nil {
				return nil, err
			}
		}
		return nil, errDisagree
	}
	return a
}

func (s *Set) open(want union) *member {
	options := Options{
		Name: want.Name, Dir: filepath.Join(s.options.Dir, cmp.Or(want.Dir, want.ID)), Interval: s.options.Interval,
		Timeout: s.options.Timeout, MaxFile: s.options.MaxFile, Trust: want.Trust, Slots: s.slots, Log: s.options.Log,
	}
	if want.First {
		options.Slots = nil
	}
	if s.options.Damaged != nil {
		options.Damaged = func(mended bool) { s.options.Damaged(want.Name, mended) }
	}
	if s.options.Owner != nil {
		options.Owner, options.Warm = s.options.Owner(want.ID), s.options.Warm(want.ID)
	}
	agent, err := New(options)
	if err != nil {
		s.options.Log.Error("upstream cannot be followed", "upstream", want.Name, "error", err)
		return &member{name: want.Name, err: err}
	}
	agent.role = Idle // until Run gives it one
	agent.changed = func() { s.news(want.ID, agent) }
	return &member{agent: agent, name: want.Name}
}

// news passes on that an agent has something new.
func (s *Set) news(id string, agent *Agent) {
	signal(s.changed)
	agent.mu.Lock()
	own := agent.role == Own
	agent.mu.Unlock()
	if own && s.options.News != nil {
		s.options.News(id)
	}
}

// reconcile starts and stops goroutines to match what is wanted, and which roles this replica has.
func (s *Set) reconcile(ctx context.Context) {
	s.mu.Lock()
	members := maps.Clone(s.agents)
	wanted := make(map[string]pace, len(members))
	for id, m := range members {
		if m.wanted && m.agent != nil {
			wanted[id] = s.pace(id, m)
		}
	}
	s.mu.Unlock()
	for id, m := range members {
		want := wanted[id]
		if m.runs != want {
			m.stop()
			if want.interval > 0 {
				m.start(ctx, want)
			}
		}
		s.drop(id, m)
	}
}

func (s *Set) pace(id string, m *member) pace {
	p := pace{interval: m.interval}
	if p.role, p.owner = s.options.Role(id); p.role == Follow {
		p.interval = min(p.interval, followInterval)
	}
	return p
}

// drop takes a member out that neither runs nor is wanted.
func (s *Set) drop(id string, m *member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.wanted && m.runs == (pace{}) && s.agents[id] == m {
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

func (m *member) start(ctx context.Context, at pace) {
	ctx, m.cancel = context.WithCancel(ctx)
	stopped := make(chan struct{})
	m.runs, m.stopped = at, stopped
	if m.agent.setRole(at.role, at.owner) {
		m.agent.changed()
	}
	go func() {
		defer close(stopped)
		_ = m.agent.run(ctx, at.interval) // only ever the context's error
	}()
}

// stop waits until the member's goroutine has ended.
func (m *member) stop() {
	if m.runs == (pace{}) {
		return
	}
	m.cancel()
	<-m.stopped
	m.runs = pace{}
}

// Changed has a value after any upstream changed: a ref got a new commit, or its troubles did. Values are coalesced, so
// one reader must look at everything again.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// IDs lists what is wanted.
func (s *Set) IDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, m := range s.agents {
		if m.wanted {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Hint makes the next fetch of an upstream due now: somebody says that it has changed.
func (s *Set) Hint(id string) {
	if agent, ok := s.Get(id); ok {
		agent.Hint()
	}
}

// Wake makes the next fetch from an upstream's owner due now.
func (s *Set) Wake(id string) {
	if agent, ok := s.Get(id); ok {
		agent.Wake()
	}
}

// Get gives the agent of an upstream that is wanted.
func (s *Set) Get(id string) (*Agent, bool) {
	agent, err := s.find(id)
	return agent, err == nil
}

// Snapshot gives the last good commit of an upstream's ref; see [Agent.Snapshot].
func (s *Set) Snapshot(id, ref string) (*snapshot.Snapshot, error) {
	agent, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return agent.Snapshot(ref)
}

// Tip names the last good commit of an upstream's ref; see [Agent.Tip].
func (s *Set) Tip(id, ref string) (mirror.Tip, error) {
	agent, err := s.find(id)
	if err != nil {
		return mirror.Tip{}, err
	}
	return agent.Tip(ref)
}

// At gives a commit that is still in an upstream's mirror.
func (s *Set) At(id, commit string) (*snapshot.Snapshot, error) {
	agent, err := s.find(id)
	if err != nil {
		return nil, err
	}
	return agent.At(commit)
}

// Synced says whether an upstream's mirror is up to date; see [Agent.Synced].
func (s *Set) Synced(id string) bool {
	agent, ok := s.Get(id)
	return ok && agent.Synced()
}

// Status tells how an upstream does, also one that could not be opened.
func (s *Set) Status(id string) Status {
	agent, err := s.find(id)
	if err != nil {
		return Status{LastError: err.Error()}
	}
	return agent.Status()
}

var errUnwanted = errors.New("upstream is not followed")

func (s *Set) find(id string) (*Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.agents[id]
	switch {
	case !ok || !m.wanted:
		return nil, fmt.Errorf("%w: %w", snapshot.ErrNotFetched, errUnwanted)
	case m.err != nil:
		return nil, fmt.Errorf("%s: %w: %w", m.name, snapshot.ErrNotFetched, m.err)
	}
	return m.agent, nil
}
