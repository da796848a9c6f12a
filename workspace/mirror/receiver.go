package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxVerified bounds the memory of which objects are known to be good.
const maxVerified = 1 << 18

// receiver is a [Receiver] for one fetch or one compaction. It fills the current generation, or a new one that becomes
// current when the mirror commits it.
type receiver struct {
	m     *Mirror         // nil once committed
	ctx   context.Context //nolint:containedctx // a receiver lives for one call
	known state

	generation string
	store      *store
	// objects reads from the generation that is being filled. What is missing in it is no damage.
	objects *snapshot.Objects
	damaged atomic.Bool
	// lacking says that files over the limit may be missing in what came.
	lacking  bool
	verified snapshot.Seen
}

// receiver fills the current generation, or a new one when that is damaged.
func (m *Mirror) receiver(ctx context.Context) (*receiver, error) {
	if m.store.lost() || m.suspect.Swap(false) && m.lacking(ctx) {
		m.damaged.Store(true)
	}
	if m.damaged.Load() || m.otherLimit() {
		return m.freshReceiver(ctx)
	}
	if len(m.verified) > maxVerified {
		clear(m.verified)
	}
	r := &receiver{m: m, ctx: ctx, known: m.current(), generation: m.state.Generation, store: m.store, verified: m.verified}
	r.objects = snapshot.NewObjects(r.store, r.failed)
	return r, nil
}

// lacking says whether something that the state stands on is not here.
func (m *Mirror) lacking(ctx context.Context) bool {
	objects, seen := snapshot.NewObjects(m.store, nil), snapshot.Seen{}
	for _, commit := range m.state.commits() {
		root, err := rootOf(objects, commit)
		if err == nil {
			err = objects.Walk(root, seen, func(snapshot.Hash, plumbing.ObjectType) error { return ctx.Err() })
		}
		if ctx.Err() != nil {
			m.suspect.Store(true) // the next fetch looks
			return false
		}
		if err != nil {
			return true
		}
	}
	return false
}

func (m *Mirror) current() state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.clone()
}

// freshReceiver fills a new generation.
func (m *Mirror) freshReceiver(ctx context.Context) (*receiver, error) {
	generation, err := newGeneration(m.dir)
	if err != nil {
		return nil, err
	}
	r := &receiver{m: m, ctx: ctx, known: m.current(), generation: generation, verified: snapshot.Seen{}}
	if r.store, err = openStore(filepath.Join(m.dir, generation), m.maxFile); err != nil {
		return nil, err
	}
	r.objects = snapshot.NewObjects(r.store, r.failed)
	return r, nil
}

func (r *receiver) failed(err error) {
	if missing(err) {
		return
	}
	r.damaged.Store(true)
	if r.m != nil && !r.fresh() {
		r.m.damaged.Store(true)
	}
}

// fresh says whether the generation being filled is not the current one.
func (r *receiver) fresh() bool { return r.m != nil && r.generation != r.m.state.Generation }

// discard drops a new generation that did not become current.
func (r *receiver) discard() {
	if r.m != nil && r.fresh() {
		r.store.close()
		_ = os.RemoveAll(filepath.Join(r.m.dir, r.generation)) // the next sweep tries again
	}
}

// Tip implements Receiver.
func (r *receiver) Tip(ref string) Tip {
	tip := r.known.Refs[ref].Tip
	if tip.Commit == "" || !r.Complete(tip.Commit) {
		return Tip{}
	}
	return tip
}

// Complete implements Receiver. A commit that is here and refused is complete: having it again would change nothing.
func (r *receiver) Complete(commit string) bool {
	err := r.accept(commit)
	return err == nil || isCommit(commit) && !missing(err) && !r.damaged.Load() && r.ctx.Err() == nil
}

// accept checks all that a commit holds before the commit may become the last good one of a ref.
func (r *receiver) accept(commit string) error {
	if !isCommit(commit) {
		return fmt.Errorf("%.60q is not the id of a commit", commit)
	}
	if !r.fresh() && r.known.holds(commit) && r.objects.Has(snapshot.Hash(commit)) {
		return nil // was accepted before
	}
	root, err := rootOf(r.objects, commit)
	if err != nil {
		return err
	}
	left := map[plumbing.Hash]int64{}
	visit := func(snapshot.Hash, plumbing.ObjectType) error { return r.ctx.Err() }
	err = r.objects.WalkLacking(root, r.verified, visit, func(id snapshot.Hash) error {
		if _, known := r.objects.LeftOut(id); !known && !r.lacking {
			return plumbing.ErrObjectNotFound
		}
		left[plumbing.NewHash(string(id))] = 0
		return nil
	})
	if err != nil {
		return fmt.Errorf("commit %s: %w", commit, err)
	}
	return r.store.leave(left)
}

// Commits implements Receiver.
func (r *receiver) Commits() []string {
	var list []string
	for _, commit := range r.known.commits() {
		if r.objects.Has(snapshot.Hash(commit)) {
			list = append(list, commit)
		}
	}
	return list
}

// Object implements Receiver.
func (r *receiver) Object(id string) (kind string, body []byte, err error) {
	for _, kind := range []plumbing.ObjectType{plumbing.CommitObject, plumbing.TagObject} {
		body, err := r.objects.Read(snapshot.Hash(id), kind, snapshot.MaxCommit)
		if !missing(err) {
			return kind.String(), body, err
		}
	}
	return "", nil, fmt.Errorf("commit or tag %.60q is not in the mirror: %w", id, plumbing.ErrObjectNotFound)
}

// At gives a commit that is here, also one that was just received, for an upstream that has to look into it.
func (r *receiver) At(commit string) (*snapshot.Snapshot, error) {
	return r.objects.Snapshot(snapshot.Hash(commit))
}

// HasPack implements Receiver.
func (r *receiver) HasPack(name string) bool { return r.store.has(name) }

// MaxFile implements Receiver.
func (r *receiver) MaxFile() int64 { return r.store.MaxBlob() }

// Unsent implements Receiver.
func (r *receiver) Unsent() { r.lacking = true }

// LeaveOut implements Receiver.
func (r *receiver) LeaveOut(left map[string]int64, most int64) error {
	if most < r.store.MaxBlob() {
		return nil
	}
	return r.store.leave(hashes(left))
}

// Pack implements Receiver.
func (r *receiver) Pack(ctx context.Context, from io.Reader) error {
	unnamed, err := r.store.receive(ctx, from)
	r.lacking = r.lacking || unnamed
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

var errNoFiles = errors.New("it holds no files")
