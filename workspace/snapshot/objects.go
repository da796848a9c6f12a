package snapshot

import (
	"errors"
	"fmt"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// What one object may measure, inflated, in bytes. A [Limited] store has a limit of its own for blobs.
const (
	MaxBlob   = 32 << 20
	MaxTree   = 4 << 20
	MaxCommit = 1 << 20
)

// Store holds git objects by their ids. It is safe for concurrent use. What is not there is an error that wraps
// plumbing.ErrObjectNotFound; any other error means that the store is damaged.
type Store interface {
	// Has says whether an object is there, without reading it.
	Has(id plumbing.Hash) bool
	// Size is what an object measures inflated, told without inflating all of it.
	Size(id plumbing.Hash) (int64, error)
	// Read gives an object whose size has been found acceptable. The content belongs to the caller.
	Read(id plumbing.Hash) (plumbing.ObjectType, []byte, error)
}

// Limited is a store that lacks the blobs over a limit, and knows which.
type Limited interface {
	Store
	// MaxBlob is that limit, in bytes.
	MaxBlob() int64
	// LeftOut says whether a blob is over it, and what it measures, zero where that is not known.
	LeftOut(id plumbing.Hash) (size int64, ok bool)
}

// Objects reads the objects of a store: bounded, and each compared with its id. It is safe for concurrent use.
type Objects struct {
	mu     sync.RWMutex
	store  Store // guarded by mu
	most   int64 // what a blob may measure where the store has no limit of its own; guarded by mu
	failed func(error)
	trees  recentTrees
}

// NewObjects reads from a store. When an object is missing, cannot be read, or is not what its id says, failed is called
// with the reason, which wraps plumbing.ErrObjectNotFound in the first case. It may be nil.
func NewObjects(store Store, failed func(error)) *Objects {
	if failed == nil {
		failed = func(error) {}
	}
	return &Objects{store: store, most: MaxBlob, failed: failed}
}

// Use makes snapshots that were taken earlier read from another store. When it returns, nobody reads from the old one,
// which it gives back.
func (o *Objects) Use(store Store) (old Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, o.store = o.store, store
	return old
}

// recentTrees are the trees that were decoded last: whoever walks a folder file by file asks for the same few each time.
type recentTrees struct {
	mu    sync.Mutex // guards known
	known map[Hash][]Entry
}

// mostTrees is how many decoded trees are kept before all are forgotten, largestTree how many entries one may have.
const (
	mostTrees   = 64
	largestTree = 20_000
)

func (r *recentTrees) get(id Hash) ([]Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, ok := r.known[id]
	return list, ok
}

func (r *recentTrees) put(id Hash, list []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostTrees || r.known == nil {
		r.known = make(map[Hash][]Entry, mostTrees)
	}
	r.known[id] = list
}

func (o *Objects) blob(id Hash) ([]byte, error) {
	o.mu.RLock()
	most := o.maxBlob()
	o.mu.RUnlock()
	return o.Read(id, plumbing.BlobObject, most)
}

// maxBlob must be called with mu held.
func (o *Objects) maxBlob() int64 {
	if store, ok := o.store.(Limited); ok {
		return store.MaxBlob()
	}
	return o.most
}

func (o *Objects) limit(most int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.most = most
}

func (o *Objects) tooLarge(id Hash) error {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if size, left := o.leftOut(id); left {
		return &LimitError{What: "blob " + string(id), Size: size, Max: o.maxBlob()}
	}
	if _, ok := o.store.(Limited); ok {
		return nil
	}
	size, err := o.store.Size(plumbing.NewHash(string(id)))
	if err == nil && size > o.most {
		return &LimitError{What: "blob " + string(id), Size: size, Max: o.most}
	}
	return nil // who reads it learns what is wrong with it
}

// leftOut must be called with mu held.
func (o *Objects) leftOut(id Hash) (size int64, ok bool) {
	store, ok := o.store.(Limited)
	if !ok {
		return 0, false
	}
	return store.LeftOut(plumbing.NewHash(string(id)))
}

// Tree gives a tree's entries in git's order, which the caller must not change. A tree that git's own tools would not
// have written is a *TreeError.
func (o *Objects) Tree(id Hash) ([]Entry, error) {
	if known, ok := o.trees.get(id); ok {
		return known, nil
	}
	body, err := o.Read(id, plumbing.TreeObject, MaxTree)
	if err != nil {
		return nil, err
	}
	list, err := parseTree(id, body)
	if err == nil && len(list) <= largestTree {
		o.trees.put(id, list)
	}
	return list, err
}

func (o *Objects) blobSize(id Hash) (int64, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if n, left := o.leftOut(id); left {
		return max(n, o.maxBlob()+1), nil
	}
	return o.size(plumbing.BlobObject, id)
}

// size must be called with mu held.
func (o *Objects) size(kind plumbing.ObjectType, id Hash) (int64, error) {
	n, err := o.store.Size(plumbing.NewHash(string(id)))
	if err != nil {
		return 0, o.fail(fmt.Errorf("find %s %s: %w", kind, id, err))
	}
	return n, nil
}

// LeftOut says whether the store lacks a blob for its size, and what that is, zero where it is not known.
func (o *Objects) LeftOut(id Hash) (size int64, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.leftOut(id)
}

// Has says whether the object is there, without reading it.
func (o *Objects) Has(id Hash) bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.store.Has(plumbing.NewHash(string(id)))
}

// Read gives an object of one kind and of at most so many bytes; the size is known before anything is inflated. A larger
// one is a *LimitError, and one of another kind is not found.
func (o *Objects) Read(id Hash, kind plumbing.ObjectType, most int64) ([]byte, error) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	if size, left := o.leftOut(id); left {
		return nil, &LimitError{What: fmt.Sprintf("%s %s", kind, id), Size: size, Max: o.maxBlob()}
	}
	size, err := o.size(kind, id)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, &LimitError{What: fmt.Sprintf("%s %s", kind, id), Size: size, Max: most}
	}
	found, data, err := o.store.Read(plumbing.NewHash(string(id)))
	if err != nil {
		return nil, o.fail(fmt.Errorf("read %s %s: %w", kind, id, err))
	}
	if found != kind {
		return nil, fmt.Errorf("read %s %s: it is a %s: %w", kind, id, found, plumbing.ErrObjectNotFound)
	}
	if is := plumbing.ComputeHash(kind, data).String(); is != string(id) {
		return nil, o.fail(fmt.Errorf("read %s %s: what is stored is %s", kind, id, is))
	}
	return data, nil
}

func (o *Objects) fail(err error) error {
	o.failed(err)
	return err
}

// peel follows annotated tags to a commit.
func (o *Objects) peel(id Hash) (*object.Commit, error) {
	const mostTags = 5
	for range mostTags {
		commit := &object.Commit{}
		raw, err := o.memory(id, plumbing.CommitObject)
		if err == nil {
			return commit, commit.Decode(raw)
		}
		if !errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil, err
		}
		tag := &object.Tag{}
		if raw, err = o.memory(id, plumbing.TagObject); err != nil {
			return nil, err
		}
		if err := tag.Decode(raw); err != nil {
			return nil, fmt.Errorf("decode tag %s: %w", id, err)
		}
		if tag.TargetType != plumbing.CommitObject && tag.TargetType != plumbing.TagObject {
			return nil, fmt.Errorf("tag %s names a %s, not a commit", id, tag.TargetType)
		}
		id = Hash(tag.Target.String())
	}
	return nil, fmt.Errorf("tag %s is nested too deep", id)
}

// memory puts an object where it can be decoded from.
func (o *Objects) memory(id Hash, kind plumbing.ObjectType) (*plumbing.MemoryObject, error) {
	data, err := o.Read(id, kind, MaxCommit)
	if err != nil {
		return nil, err
	}
	raw := &plumbing.MemoryObject{}
	raw.SetType(kind)
	_, err = raw.Write(data)
	return raw, err
}

// Snapshot opens a commit, or the one that an annotated tag names, and checks that its root tree can be read.
func (o *Objects) Snapshot(id Hash) (*Snapshot, error) {
	commit, err := o.peel(id)
	if err != nil {
		return nil, fmt.Errorf("open commit %s: %w", id, err)
	}
	s := &Snapshot{commit: newCommit(commit), root: Hash(commit.TreeHash.String()), src: o}
	if _, err := o.Tree(s.root); err != nil {
		return nil, fmt.Errorf("open commit %s: %w", id, err)
	}
	return s, nil
}
