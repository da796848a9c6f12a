package mirror

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

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
	// entries are in the pack's order; kinds are theirs, a delta's until it is resolved.
	entries []entry
	kinds   []plumbing.ObjectType
	// byPlace and byID are the deltas that are not resolved yet, ordered by what they are to be applied to.
	byPlace []placeDelta
	byID    []idDelta
	total   int64
}

type placeDelta struct{ base, i uint32 }

type idDelta struct {
	base plumbing.Hash
	i    uint32
}

// inspect measures a pack object by object, names each, and gives the entries of its index. Sum is the checksum that the
// pack ends with. Whatever is asked for in memory was measured before: an object, a delta, or the number of objects.
func inspect(ctx context.Context, pack *os.File, size int64, sum []byte) ([]entry, error) {
	in := &inspection{}
	if err := in.scan(&contextFile{ctx, pack}, size, sum); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	slices.SortFunc(in.byPlace, func(a, b placeDelta) int { return cmp.Or(cmp.Compare(a.base, b.base), cmp.Compare(a.i, b.i)) })
	slices.SortFunc(in.byID, func(a, b idDelta) int {
		return cmp.Or(bytes.Compare(a.base[:], b.base[:]), cmp.Compare(a.i, b.i))
	})
	if err := resolve(ctx, pack, in); err != nil {
		return nil, fmt.Errorf("check pack: %w", err)
	}
	return in.entries, nil
}

// scan inflates every object once, into nothing but a hash, and compares it with its header and the limits.
func (in *inspection) scan(r io.ReadSeeker, size int64, sum []byte) error {
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	scanner := packfile.NewScanner(r)
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	// No object takes fewer than nine bytes: a byte of header and the shortest zlib stream.
	if int64(count) > size/9 || count > maxObjects {
		return &snapshot.LimitError{What: "pack's number of objects", Size: int64(count), Max: min(size/9, maxObjects)}
	}
	in.entries, in.kinds = make([]entry, 0, count), make([]plumbing.ObjectType, 0, count)
	for range count {
		if err := in.object(scanner); err != nil {
			return err
		}
		if in.total > maxInflated {
			return &snapshot.LimitError{What: "pack, inflated,", Size: in.total, Max: maxInflated}
		}
	}
	end, err := scanner.Checksum()
	if err != nil || !bytes.Equal(end[:], sum) {
		return errors.New("something else than its checksum stands behind its last object")
	}
	return nil
}

// object takes in the next one.
func (in *inspection) object(scanner *packfile.Scanner) error {
	header, err := scanner.NextObjectHeader()
	if err != nil {
		return noEOF(err)
	}
	what := fmt.Sprintf("object at offset %d of the pack", header.Offset)
	if header.Length > maxObject {
		return &snapshot.LimitError{What: what, Size: header.Length, Max: maxObject}
	}
	e, i := entry{at: uint32(header.Offset)}, uint32(len(in.entries))
	var sink io.Writer
	var head prefix
	var hasher plumbing.Hasher
	switch header.Type {
	case plumbing.OFSDeltaObject:
		in.byPlace, sink = append(in.byPlace, placeDelta{uint32(header.OffsetReference), i}), &head
	case plumbing.REFDeltaObject:
		in.byID, sink = append(in.byID, idDelta{header.Reference, i}), &head
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		hasher = plumbing.NewHasher(header.Type, header.Length)
		sink = hasher
	default:
		return fmt.Errorf("%s: unknown kind %d", what, header.Type)
	}
	n, sum, err := scanner.NextObject(sink)
	if err != nil {
		return fmt.Errorf("%s: %w", what, noEOF(err))
	}
	if n != header.Length {
		return fmt.Errorf("%s: %d bytes where its header says %d", what, n, header.Length)
	}
	if e.sum = sum; isDelta(header.Type) {
		if _, _, err := readSizes(bytes.NewReader(head.kept)); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	} else {
		e.id = hasher.Sum()
	}
	in.entries, in.kinds, in.total = append(in.entries, e), append(in.kinds, header.Type), in.total+n
	return nil
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

// prefix keeps the first bytes of what is written to it.
type prefix struct{ kept []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if room := 2*binary.MaxVarintLen64 - len(p.kept); room > 0 {
		p.kept = append(p.kept, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

// contextFile lets a deadline stop the work on a pack, which knows no context itself.
type contextFile struct {
	ctx context.Context //nolint:containedctx // io.Reader leaves no other way to pass it
	f   *os.File
}

func (c *contextFile) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.f.Read(p)
}

func (c *contextFile) Seek(offset int64, whence int) (int64, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.f.Seek(offset, whence)
}
