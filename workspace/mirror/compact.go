package mirror

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxPacks is how many packs, one a fetch, may gather before they are made into one.
const maxPacks = 32

// splitPack is how large a pack that is made here grows before the next is begun: each must be small enough to be
// received by a follower.
const splitPack = 256 << 20

// keptUnasked is how long a ref that nobody asks for any more survives: whoever asked may be about to do so again.
const keptUnasked = 24 * time.Hour

// compactIfNeeded makes one pack of all that the refs stand on, and with that drops what no ref holds any more.
func (m *Mirror) compactIfNeeded(ctx context.Context) error {
	if len(*m.store.packs.Load()) <= maxPacks || m.damaged.Load() {
		return nil
	}
	if err := m.compact(ctx); err != nil {
		return fmt.Errorf("compact mirror: %w", err)
	}
	return nil
}

func (m *Mirror) compact(ctx context.Context) error {
	r, err := m.freshReceiver(ctx)
	if err != nil {
		return err
	}
	defer r.discard()
	next := r.known.clone()
	maps.DeleteFunc(next.Refs, func(_ string, tip refTip) bool { return time.Since(tip.Asked) > keptUnasked })
	w := newPackWriter(r.store, splitPack)
	defer w.discard()
	seen := snapshot.Seen{}
	for _, commit := range next.commits() {
		if err := w.copyTree(ctx, m.objects, commit, seen); err != nil {
			return err
		}
	}
	if err := w.finish(); err != nil {
		return err
	}
	return m.commit(next, r)
}
