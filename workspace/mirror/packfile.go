package mirror

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Packs are read here, and not by go-git: that one holds all of a delta's ancestors in memory at once, and all its readers
// wait for each other.

// pack is one open pack file. It is safe for concurrent use.
type pack struct {
	// name is "pack-", the 40 hex digits of the checksum at the file's end, ".pack".
	name  string
	file  *os.File
	size  int64
	made  time.Time
	index *index
	cache *cache
}

const (
	packPrefix = "pack-"
	packSuffix = ".pack"
	sumSize    = 20
	// shortestPack is a header and a checksum.
	shortestPack = 12 + sumSize
	// longestHeader is what stands before an object's deflated bytes: kind and size, then another object's id.
	longestHeader = binary.MaxVarintLen64 + sumSize
)

// maxChain is how many deltas may stand on each other; it is git's own bound.
const maxChain = 4095

func packName(sum []byte) string   { return packPrefix + hex.EncodeToString(sum) + packSuffix }
func indexName(pack string) string { return strings.TrimSuffix(pack, packSuffix) + ".idx" }

// packSum reads the checksum out of a pack's name.
func packSum(name string) (sum []byte, ok bool) {
	digits, hasSuffix := strings.CutSuffix(name, packSuffix)
	digits, hasPrefix := strings.CutPrefix(digits, packPrefix)
	sum, err := hex.DecodeString(digits)
	return sum, hasSuffix && hasPrefix && err == nil && len(sum) == sumSize && packName(sum) == name
}

// openPack opens a pack with its index, and checks that both are whole and belong together: the checksum at the pack's
// end, the one in its index and its name are the same. Damage in the middle shows when an object is read.
func openPack(dir, name string, cache *cache) (_ *pack, err error) {
	sum, ok := packSum(name)
	if !ok {
		return nil, errors.New("not the name of a pack")
	}
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < shortestPack {
		return nil, errors.New("truncated")
	}
	tail := make([]byte, sumSize)
	if _, err := f.ReadAt(tail, info.Size()-sumSize); err != nil {
		return nil, err
	}
	if !bytes.Equal(tail, sum) {
		return nil, errors.New("truncated or changed: its checksum is not its name")
	}
	x, err := openIndex(filepath.Join(dir, indexName(name)), sum)
	if err != nil {
		return nil, err
	}
	return &pack{name: name, file: f, size: info.Size(), made: info.ModTime(), index: x, cache: cache}, nil
}

// header is what stands before an object's deflated bytes.
type header struct {
	kind plumbing.ObjectType
	// size is that of the object, or of the delta, inflated.
	size int64
	// at is where the object starts, body where its deflated bytes do.
	at, body int64
	// base and ref name what a delta is to be applied to, by kind: where it starts, or its id.
	base int64
	ref  plumbing.Hash
}

var errMalformed = errors.New("malformed object in pack")

// readHeader reads what stands at an offset.
func readHeader(r io.ReaderAt, at int64) (header, error) {
	h := header{at: at}
	var buf [longestHeader]byte
	n, err := r.ReadAt(buf[:], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return h, err
	}
	b := buf[:n]
	if len(b) == 0 {
		return h, errMalformed
	}
	first := b[0]
	h.kind, h.size = plumbing.ObjectType(first>>4&7), int64(first&0x0f)
	used := 1
	if first&0x80 != 0 {
		more, k := binary.Uvarint(b[1:])
		if k <= 0 || more > math.MaxInt64>>4 {
			return h, fmt.Errorf("%w: its size at offset %d", errMalformed, at)
		}
		h.size, used = h.size|int64(more)<<4, used+k
	}
	switch h.kind {
	case plumbing.OFSDeltaObject:
		back, k := distance(b[used:])
		if k == 0 || back <= 0 || back >= at {
			return h, fmt.Errorf("%w: a delta's base at offset %d", errMalformed, at)
		}
		h.base, used = at-back, used+k
	case plumbing.REFDeltaObject:
		used += copy(h.ref[:], b[used:])
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	default:
		return h, fmt.Errorf("%w: unknown kind %d at offset %d", errMalformed, h.kind, at)
	}
	h.body = at + int64(used)
	return h, nil
}

// tooLarge is the error of who would hold all of the object.
func (h header) tooLarge(most int64) error {
	return &snapshot.LimitError{What: fmt.Sprintf("object at offset %d of the pack", h.at), Size: h.size, Max: most}
}

// distance reads the number by which a delta points back; the number of bytes it takes is zero when it is malformed.
func distance(b []byte) (n int64, used int) {
	for i, c := range b[:min(len(b), 8)] {
		if i > 0 {
			n++
		}
		n = n<<7 | int64(c&0x7f)
		if c&0x80 == 0 {
			return n, i + 1
		}
	}
	return 0, 0
}

func isDelta(kind plumbing.ObjectType) bool {
	return kind == plumbing.OFSDeltaObject || kind == plumbing.REFDeltaObject
}

// objectSize is what the object at an offset measures, deltas applied.
func (p *pack) objectSize(at int64) (int64, error) {
	h, err := readHeader(p.file, at)
	if err != nil || !isDelta(h.kind) {
		return h.size, err
	}
	_, result, err := p.cache.deltaSizes(p.file, h)
	return result, err
}

// object reads the object at an offset. It holds at most one base and what is made of it at a time.
func (p *pack) object(at int64) (plumbing.ObjectType, []byte, error) {
	deltas, from, err := p.chain(at)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	for i, h := range slices.Backward(deltas) {
		if from.body, err = p.cache.applyDelta(p.file, h, from.body); err != nil {
			return plumbing.InvalidObject, nil, err
		}
		if i > 0 {
			p.cache.put(place{p, h.at}, from)
		}
	}
	return from.kind, from.body, nil
}

// chain gives the deltas that an object is made by, the last one first, and what the first one is applied to.
func (p *pack) chain(at int64) (deltas []header, from made, err error) {
	for {
		if known, ok := p.cache.get(place{p, at}); ok && len(deltas) > 0 {
			return deltas, known, nil
		}
		h, err := readHeader(p.file, at)
		if err != nil {
			return nil, from, err
		}
		if !isDelta(h.kind) {
			from.kind = h.kind
			if from.body, err = p.cache.inflate(p.file, h); err == nil && len(deltas) > 0 {
				p.cache.put(place{p, at}, from)
			}
			return deltas, from, err
		}
		if deltas = append(deltas, h); len(deltas) > maxChain {
			return nil, from, fmt.Errorf("%w: too many deltas at offset %d", errMalformed, at)
		}
		if at = h.base; h.kind == plumbing.REFDeltaObject {
			var ok bool
			if at, ok = p.index.find(h.ref); !ok {
				return nil, from, fmt.Errorf("%w: a delta's base at offset %d", errMalformed, h.at)
			}
		}
	}
}
