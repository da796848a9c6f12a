package mirror

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of one pack, in bytes where not objects.
const (
	maxPack = 512 << 20
	// maxObjects bounds memory: receiving takes some 60 bytes for each, and reading 28.
	maxObjects = 4 << 20
	// maxInflated is what all objects and deltas may inflate to.
	maxInflated = 8 << 30
)

// inspection is what is learned of a pack from a stranger on the way to its index.
type inspection struct {
	pack   io.ReaderAt
	cache  *inflaters
	hasher hash.Hash
	// entries are in the pack's order; kinds are theirs, a delta's until it is resolved.
	entries []entry
	kinds   []plumbing.ObjectType
	// byPlace and byID are the deltas, ordered by what they are to be applied to.
	byPlace []placeDelta
	byID    []idDelta
	total   int64
	// large are the objects over the limit: files, or deltas that have to do with such a file.
	large []uint32
	left  map[plumbing.Hash]int64
}

// contents are what a pack was found to hold.
type contents struct {
	entries []entry
	// left are the files over the limit, with what each measures: they are in the pack, and nobody reads them.
	left map[plumbing.Hash]int64
	// unnamed says that there are more of those, whose ids are not known: making them would take as much memory as they do.
	unnamed bool
}

// leftOut stands in kinds for what is not to be read.
const leftOut = plumbing.InvalidObject

type placeDelta struct{ base, i uint32 }

type idDelta struct {
	base plumbing.Hash
	i    uint32
}

// inspect measures a pack of so many bytes object by object, names each, and gives the entries of its index. Whatever is
// asked for in memory was measured before: an object, or the number of objects. A file over the limit is named, and left out.
// The checksum at the end is not looked at.
func (z *inflaters) inspect(ctx context.Context, pack io.ReaderAt, size int64) (*contents, error) {
	in := &inspection{pack: pack, cache: z, hasher: hash.New(crypto.SHA1), left: map[plumbing.Hash]int64{}}
	if err := in.scan(ctx, size); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	slices.SortFunc(in.byPlace, func(a, b placeDelta) int { return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.i, b.i)) })
	slices.SortFunc(in.byID, func(a, b idDelta) int {
		return cmp.Or(bytes.Compare(a.base[:], b.base[:]), cmp.Compare(a.i, b.i))
	})
	unnamed := in.leaveOut()
	if err := resolve(ctx, in); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	return &contents{in.kept(), in.left, unnamed}, nil
}

// leaveOut marks the objects over the limit, with all deltas that stand on one. It says whether a delta is among them.
func (in *inspection) leaveOut() (unnamed bool) {
	for todo := in.large; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], in.on(i)...)
		unnamed = unnamed || isDelta(in.kinds[i])
		in.kinds[i] = leftOut
	}
	return unnamed
}

// kept are the entries of what can be read.
func (in *inspection) kept() []entry {
	if len(in.large) == 0 {
		return in.entries
	}
	var kept []entry
	for i, e := range in.entries {
		if in.kinds[i] != leftOut {
			kept = append(kept, e)
		}
	}
	return kept
}

// scan inflates every object once, into nothing but a hash, and compares it with its header and the limits.
func (in *inspection) scan(ctx context.Context, size int64) error {
	start := make([]byte, len(packHeader(0)))
	if _, err := in.pack.ReadAt(start, 0); err != nil {
		return noEOF(err)
	}
	count := binary.BigEndian.Uint32(start[8:])
	if !bytes.Equal(start[:8], packHeader(0)[:8]) {
		return errors.New("it does not start as a pack of version 2 does")
	}
	// No object takes fewer than nine bytes: a byte of header and the shortest zlib stream.
	if int64(count) > size/9 || count > maxObjects {
		return &snapshot.LimitError{What: "pack's number of objects", Size: int64(count), Max: min(size/9, maxObjects)}
	}
	in.entries, in.kinds = make([]entry, 0, count), make([]plumbing.ObjectType, 0, count)
	at := int64(len(start))
	for range count {
		var err error
		if at, err = in.object(at); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if at != size-sumSize {
		return errors.New("something else than its checksum stands behind its last object")
	}
	return nil
}

// object takes in the one at an offset, and gives where the next one starts.
func (in *inspection) object(at int64) (next int64, err error) {
	h, err := readHeader(in.pack, at)
	if err != nil {
		return 0, err
	}
	most, large := in.cache.limit(), h.size > in.cache.limit()
	if large && !isDelta(h.kind) && h.kind != plumbing.BlobObject {
		return 0, h.tooLarge(most)
	}
	if h.size > maxInflated-in.total {
		return 0, &snapshot.LimitError{What: "pack, inflated,", Size: in.total + h.size, Max: maxInflated}
	}
	e, i := entry{at: uint32(at)}, uint32(len(in.entries))
	next, err = in.cache.behind(in.pack, h, func(from *inflater) error {
		var sink io.Writer = io.Discard
		switch h.kind {
		case plumbing.OFSDeltaObject:
			in.byPlace = append(in.byPlace, placeDelta{uint32(h.base), i})
		case plumbing.REFDeltaObject:
			in.byID = append(in.byID, idDelta{h.ref, i})
		default:
			sink = in.start(h.kind, h.size)
		}
		if isDelta(h.kind) {
			base, result, err := readSizes(from.plain)
			if err != nil {
				return err
			}
			if result > maxInflated {
				return &snapshot.LimitError{What: "result of a delta", Size: result, Max: maxInflated}
			}
			large = large || base > most || result > most
		}
		if _, err := io.Copy(sink, from.plain); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !isDelta(h.kind) {
		in.hasher.Sum(e.id[:0])
	}
	if large {
		in.large = append(in.large, i)
	}
	if large && !isDelta(h.kind) {
		in.left[e.id] = h.size
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, io.NewSectionReader(in.pack, at, next-at)); err != nil {
		return 0, err
	}
	e.sum = sum.Sum32()
	in.entries, in.kinds, in.total = append(in.entries, e), append(in.kinds, h.kind), in.total+h.size
	return next, nil
}

// start begins to hash an object.
func (in *inspection) start(kind plumbing.ObjectType, size int64) io.Writer {
	in.hasher.Reset()
	_, _ = fmt.Fprintf(in.hasher, "%s %d\x00", kind, size) // a hash takes everything
	return in.hasher
}

// name gives the id of an object.
func (in *inspection) name(kind plumbing.ObjectType, body []byte) (id plumbing.Hash) {
	_, _ = in.start(kind, int64(len(body))).Write(body) // as above
	in.hasher.Sum(id[:0])
	return id
}

// on lists the deltas that are to be applied to an object.
func (in *inspection) on(i uint32) []uint32 {
	var list []uint32
	base := in.entries[i]
	at, _ := slices.BinarySearchFunc(in.byPlace, base.at, func(d placeDelta, at uint32) int { return cmp.Compare(d.base, at) })
	for ; at < len(in.byPlace) && in.byPlace[at].base == base.at; at++ {
		list = append(list, in.byPlace[at].i)
	}
	at, _ = slices.BinarySearchFunc(in.byID, base.id, func(d idDelta, id plumbing.Hash) int { return bytes.Compare(d.base[:], id[:]) })
	for ; at < len(in.byID) && in.byID[at].base == base.id; at++ {
		list = append(list, in.byID[at].i)
	}
	return slices.DeleteFunc(list, func(i uint32) bool { return !isDelta(in.kinds[i]) })
}
