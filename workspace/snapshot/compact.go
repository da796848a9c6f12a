package snapshot

import (
	"bufio"
	"compress/zlib"
	"context"
	"crypto/sha1" //nolint:gosec // the pack format's own checksum, not a protection
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxPacks is how many packs, one a fetch, may gather before they are made into one.
const maxPacks = 32

// maxVerified bounds the memory of which trees are known to be good.
const maxVerified = 1 << 18

// maxDepth is how deep folders may be nested.
const maxDepth = 256

// commits lists all commits that the state stands on.
func (s state) commits() []string {
	var list []string
	for _, tip := range s.Refs {
		list = append(append(list, tip.Commit), tip.Before...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// walk visits a tree and everything below it that is not in seen, once each, and adds the trees to seen when all of
// them were visited. A missing object, a malformed tree and an object beyond the limits are errors. Trees that hold
// themselves many times over cost no more than their number.
func (o *objects) walk(root Hash, seen map[Hash]bool, visit func(Hash, plumbing.ObjectType) error) error {
	if len(seen) > maxVerified {
		clear(seen)
	}
	type level struct {
		tree  Hash
		path  string
		depth int
	}
	fresh := map[Hash]bool{}
	for todo := []level{{root, ".", 0}}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at.tree] || fresh[at.tree] {
			continue
		}
		if at.depth > maxDepth {
			return &LimitError{What: "depth of folders", Size: int64(at.depth), Max: maxDepth}
		}
		fresh[at.tree] = true
		entries, err := o.tree(at.tree)
		if err != nil {
			return fmt.Errorf("folder %q: %w", at.path, err)
		}
		if err := visit(at.tree, plumbing.TreeObject); err != nil {
			return err
		}
		for _, e := range entries {
			switch e.mode.Type() {
			case fs.ModeDir:
				todo = append(todo, level{e.hash, path.Join(at.path, e.name), at.depth + 1})
			case fs.ModeIrregular:
			default:
				if fresh[e.hash] {
					continue
				}
				fresh[e.hash] = true
				if !o.has(plumbing.NewHash(string(e.hash))) {
					return fmt.Errorf("file %q in folder %q: %w", e.name, at.path, plumbing.ErrObjectNotFound)
				}
				if err := visit(e.hash, plumbing.BlobObject); err != nil {
					return err
				}
			}
		}
	}
	for id := range fresh {
		seen[id] = true
	}
	return nil
}

// keptUnasked is how long a ref that nobody asks for any more survives: whoever asked may be about to do so again.
const keptUnasked = 24 * time.Hour

// compactIfNeeded makes one pack of all that the refs stand on, and with that drops what no ref holds any more.
func (m *Mirror) compactIfNeeded(ctx context.Context) error {
	names, _, err := packs(m.generation())
	if err != nil || len(names) <= maxPacks {
		return err
	}
	next := m.snapshotState()
	maps.DeleteFunc(next.Refs, func(_ string, tip refTip) bool { return time.Since(tip.Asked) > keptUnasked })
	if next.Generation, err = newGeneration(m.dir); err != nil {
		return err
	}
	if err := m.repack(ctx, next); err != nil {
		return errors.Join(fmt.Errorf("compact mirror: %w", err), m.sweep())
	}
	return m.commit(next)
}

type packed struct {
	id   Hash
	kind plumbing.ObjectType
}

// repack writes one pack into next's generation.
func (m *Mirror) repack(ctx context.Context, next state) error {
	var list []packed
	seen := map[Hash]bool{}
	for _, commit := range next.commits() {
		s, err := m.objects.snapshot(plumbing.NewHash(commit))
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		list = append(list, packed{Hash(commit), plumbing.CommitObject})
		err = m.objects.walk(s.root, seen, func(id Hash, kind plumbing.ObjectType) error {
			list = append(list, packed{id, kind})
			return ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	dir := packDir(filepath.Join(m.dir, next.Generation))
	tmp, err := os.CreateTemp(dir, tempPrefix)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	if err := m.objects.writePack(ctx, tmp, unique(list)); err != nil {
		return err
	}
	return installPack(ctx, tmp, dir)
}

// unique drops repetitions: seen may have been cleared on the way.
func unique(list []packed) []packed {
	seen := make(map[Hash]bool, len(list))
	return slices.DeleteFunc(list, func(p packed) bool {
		again := seen[p.id]
		seen[p.id] = true
		return again
	})
}

// writePack writes objects one after the other, without deltas: what is kept is one state of each file, which has
// little to gain from them, and memory stays at one object.
func (o *objects) writePack(ctx context.Context, w io.Writer, list []packed) error {
	sum := sha1.New() //nolint:gosec // see above
	buffered := bufio.NewWriterSize(w, 1<<16)
	out := io.MultiWriter(buffered, sum)
	header := append([]byte("PACK"), 0, 0, 0, 2)
	if _, err := out.Write(binary.BigEndian.AppendUint32(header, uint32(len(list)))); err != nil {
		return err
	}
	deflate := zlib.NewWriter(out)
	for _, p := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		body, err := o.read(p.id, p.kind, maxObject)
		if err != nil {
			return err
		}
		if _, err := out.Write(objectHeader(p.kind, len(body))); err != nil {
			return err
		}
		deflate.Reset(out)
		if _, err := deflate.Write(body); err != nil {
			return err
		}
		if err := deflate.Close(); err != nil {
			return err
		}
	}
	if _, err := buffered.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return buffered.Flush()
}

// objectHeader is an object's kind and size as packs have it: four bits of size, then seven a byte.
func objectHeader(kind plumbing.ObjectType, size int) []byte {
	b := byte(kind)<<4 | byte(size&0x0f)
	var header []byte
	for size >>= 4; size > 0; size >>= 7 {
		header = append(header, b|0x80)
		b = byte(size & 0x7f)
	}
	return append(header, b)
}
