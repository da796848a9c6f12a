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
	maxPack   = 512 << 20
	maxObject = snapshot.MaxBlob
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
}

type placeDelta struct{ base, i uint32 }

type idDelta struct {
	base plumbing.Hash
	i    uint32
}

// inspect measures a pack of so many bytes object by object, names each, and gives the entries of its index. Whatever is
// asked for in memory was measured before: an object, or the number of objects. The checksum at the end is not looked at.
func (z *inflaters) inspect(ctx context.Context, pack io.ReaderAt, size int64) ([]entry, error) {
	in := &inspection{pack: pack, cache: z, hasher: hash.New(crypto.SHA1)}
	if err := in.scan(ctx, size); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	slices.SortFunc(in.byPlace, func(a, b placeDelta) int { return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.i, b.i)) })
	slices.SortFunc(in.byID, func(a, b idDelta) int {
		return cmp.Or(bytes.Compare(a.base[:], b.base[:]), cmp.Compare(a.i, b.i))
	})
	if err := resolve(ctx, in); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	return in.entries, nil
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
		if in.total > maxInflated {
			return &snapshot.LimitError{What: "pack, inflated,", Size: in.total, Max: maxInflated}
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
			if _, _, err := readSizes(from.plain); err != nil {
				return err
			}
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
