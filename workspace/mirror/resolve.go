package mirror

import (
	"context"
	"errors"
	"fmt"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of the work on a pack's deltas, in bytes.
const (
	// maxHeld is how much of objects that others are built on is kept in memory; what is let go is made again.
	maxHeld = 64 << 20
	// maxChained bounds what has to be made before one object can be read.
	maxChained = 2 << 30
	// maxGrown bounds all that is made.
	maxGrown = 32 << 30
)

// resolver names the objects that a pack holds as deltas: depth first from each whole object, so that what a delta is
// applied to was just made.
type resolver struct {
	*inspection
	ctx context.Context //nolint:containedctx // lives for one call
	// path leads from a whole object to the one whose deltas are being applied.
	path        []link
	held, grown int64
}

// link is one object that deltas are applied to.
type link struct {
	i uint32
	// body is nil when it was let go.
	body []byte
	// chained is what has been made from the whole object down to this one, in bytes.
	chained int64
	// rest are the deltas on it that are still to be applied.
	rest []uint32
}

func resolve(ctx context.Context, in *inspection) error {
	r := &resolver{inspection: in, ctx: ctx}
	if len(in.byPlace)+len(in.byID) == 0 {
		return nil
	}
	for i := range in.entries {
		if isDelta(in.kinds[i]) || in.kinds[i] == leftOut {
			continue
		}
		if err := r.from(uint32(i)); err != nil {
			return err
		}
	}
	for i, kind := range in.kinds {
		if isDelta(kind) {
			return fmt.Errorf("object at offset %d of the pack is a delta of one that the pack does not hold", in.entries[i].at)
		}
	}
	return nil
}

// from resolves all deltas that stand on one object.
func (r *resolver) from(root uint32) error {
	r.path = append(r.path[:0], link{i: root, rest: r.on(root)})
	for len(r.path) > 0 {
		top := &r.path[len(r.path)-1]
		if len(top.rest) == 0 {
			r.letGo(top)
			r.path = r.path[:len(r.path)-1]
			continue
		}
		next := top.rest[0]
		top.rest = top.rest[1:]
		if err := r.step(next); err != nil {
			return err
		}
	}
	return nil
}

// step applies one delta to the object at the end of the path, which then goes on to the result.
func (r *resolver) step(i uint32) error {
	if len(r.path) > maxChain {
		return &snapshot.LimitError{What: "number of deltas on each other in the pack", Size: int64(len(r.path)), Max: maxChain}
	}
	base, err := r.body(len(r.path) - 1)
	if err != nil {
		return err
	}
	body, err := r.apply(i, base)
	if err != nil {
		return err
	}
	kind := r.kinds[r.path[0].i]
	r.entries[i].id, r.kinds[i] = r.name(kind, body), kind
	top := &r.path[len(r.path)-1]
	chained := top.chained + int64(len(body))
	if chained > maxChained {
		what := fmt.Sprintf("what is to be made before the object at offset %d of the pack", r.entries[i].at)
		return &snapshot.LimitError{What: what, Size: chained, Max: maxChained}
	}
	if len(top.rest) == 0 {
		r.letGo(top)
	}
	if rest := r.on(i); len(rest) > 0 {
		r.path = append(r.path, link{i: i, chained: chained, rest: rest})
		r.keep(len(r.path)-1, body)
	}
	return nil
}

// apply makes the object of a delta.
func (r *resolver) apply(i uint32, base []byte) ([]byte, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	h, err := readHeader(r.pack, int64(r.entries[i].at))
	if err != nil {
		return nil, err
	}
	body, err := r.cache.applyDelta(r.pack, h, base)
	if err != nil {
		return nil, err
	}
	if r.grown += h.size + int64(len(body)); r.grown > maxGrown {
		return nil, &snapshot.LimitError{What: "pack, with all deltas applied,", Size: r.grown, Max: maxGrown}
	}
	return body, nil
}

// body gives the content of a link of the path, making it again if it was let go.
func (r *resolver) body(k int) ([]byte, error) {
	if body := r.path[k].body; body != nil {
		return body, nil
	}
	from := k
	for from > 0 && r.path[from].body == nil {
		from--
	}
	body := r.path[from].body
	if body == nil {
		h, err := readHeader(r.pack, int64(r.entries[r.path[0].i].at))
		if err != nil {
			return nil, err
		}
		if isDelta(h.kind) {
			return nil, errors.New("malformed pack: one object appears twice, and deltas stand on both")
		}
		if body, err = r.cache.inflate(r.pack, h); err != nil {
			return nil, err
		}
	}
	for from++; from <= k; from++ {
		var err error
		if body, err = r.apply(r.path[from].i, body); err != nil {
			return nil, err
		}
	}
	r.keep(k, body)
	return body, nil
}

// keep remembers a body and lets go of others, the farthest first, while they are too much.
func (r *resolver) keep(k int, body []byte) {
	r.path[k].body, r.held = body, r.held+int64(len(body))
	for i := 0; i < k && r.held > maxHeld; i++ {
		r.letGo(&r.path[i])
	}
}

func (r *resolver) letGo(l *link) {
	r.held -= int64(len(l.body))
	l.body = nil
}
