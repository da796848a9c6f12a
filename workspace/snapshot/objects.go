package snapshot

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// What one object may measure, inflated.
const (
	maxBlob   = 32 << 20
	maxTree   = 4 << 20
	maxCommit = 1 << 20
)

// objectCache is how much of a repository's inflated objects stays in memory.
const objectCache = 32 * cache.MiByte

// objects reads one repository's objects, bounded. go-git's storage must not be read concurrently, so one mutex
// guards it; objects are small and copied out under it.
type objects struct {
	mu    sync.Mutex
	store storer.EncodedObjectStorer // guarded by mu
	// cache outlives the store: objects are named by their content. It is nil for a store that has its own.
	cache cache.Object
	// damaged is set when an object is there and cannot be read.
	damaged atomic.Bool
	trees   recentTrees
}

// recentTrees are the trees that were decoded last: whoever walks a folder file by file asks for the same few each time.
type recentTrees struct {
	mu    sync.Mutex // guards known
	known map[Hash][]entry
}

// mostTrees is how many decoded trees are kept before all are forgotten, largestTree how many entries one may have.
const (
	mostTrees   = 64
	largestTree = 20_000
)

func (r *recentTrees) get(id Hash) ([]entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, ok := r.known[id]
	return list, ok
}

func (r *recentTrees) put(id Hash, list []entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostTrees || r.known == nil {
		r.known = make(map[Hash][]entry, mostTrees)
	}
	r.known[id] = list
}

func (o *objects) blob(id Hash) ([]byte, error) { return o.read(id, plumbing.BlobObject, maxBlob) }

func (o *objects) tree(id Hash) ([]entry, error) {
	if known, ok := o.trees.get(id); ok {
		return known, nil
	}
	body, err := o.read(id, plumbing.TreeObject, maxTree)
	if err != nil {
		return nil, err
	}
	list, err := parseTree(id, body)
	if err == nil && len(list) <= largestTree {
		o.trees.put(id, list)
	}
	return list, err
}

func (o *objects) blobSize(id Hash) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.store.EncodedObjectSize(plumbing.NewHash(string(id)))
	if err != nil {
		return 0, fmt.Errorf("find blob %s: %w", id, err)
	}
	return n, nil
}

// has says whether the object is there, without reading it.
func (o *objects) has(id plumbing.Hash) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Not HasEncodedObject, which overlooks packs when the storage has exclusive access.
	_, err := o.store.EncodedObjectSize(id)
	return err == nil
}

// read checks the size before anything is inflated.
func (o *objects) read(id Hash, kind plumbing.ObjectType, most int64) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	hash := plumbing.NewHash(string(id))
	size, err := o.store.EncodedObjectSize(hash)
	if err != nil {
		return nil, fmt.Errorf("find %s %s: %w", kind, id, err)
	}
	if size > most {
		return nil, &LimitError{What: fmt.Sprintf("%s %s", kind, id), Size: size, Max: most}
	}
	obj, err := o.store.EncodedObject(kind, hash)
	if err != nil {
		o.damaged.CompareAndSwap(false, !errors.Is(err, plumbing.ErrObjectNotFound))
		return nil, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	r, err := obj.Reader()
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	data := make([]byte, size)
	_, err = io.ReadFull(r, data)
	if err := errors.Join(err, r.Close()); err != nil {
		o.damaged.Store(true)
		return nil, fmt.Errorf("read %s %s: %w", kind, id, err)
	}
	return data, nil
}

// peel follows annotated tags to a commit.
func (o *objects) peel(id plumbing.Hash) (*object.Commit, error) {
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
		id = tag.Target
	}
	return nil, fmt.Errorf("tag %s is nested too deep", id)
}

// memory copies an object, so that it can be decoded without the lock.
func (o *objects) memory(id plumbing.Hash, kind plumbing.ObjectType) (*plumbing.MemoryObject, error) {
	data, err := o.read(Hash(id.String()), kind, maxCommit)
	if err != nil {
		return nil, err
	}
	raw := &plumbing.MemoryObject{}
	raw.SetType(kind)
	_, err = raw.Write(data)
	return raw, err
}

// snapshot opens a commit and checks that its root tree can be read.
func (o *objects) snapshot(id plumbing.Hash) (*Snapshot, error) {
	commit, err := o.peel(id)
	if err != nil {
		return nil, fmt.Errorf("open commit %s: %w", id, err)
	}
	s := &Snapshot{commit: newCommit(commit), root: Hash(commit.TreeHash.String()), src: o}
	if _, err := o.tree(s.root); err != nil {
		return nil, fmt.Errorf("open commit %s: %w", id, err)
	}
	return s, nil
}
