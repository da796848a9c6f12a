package sync

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pluralsh/plural/api"
)

// What an agent holds was verified when it came, and nothing tells it that a disk has rotted or that it missed a change. So
// about every two hours it asks its hub for everything, whatever it knows (poll.go), and computes the key of every bundle
// that it keeps.

// defaultVerify is the time between two such looks, before jitter.
const defaultVerify = 2 * time.Hour

// archives are a deployment's bundles.
func archives(d *api.Deployment) []archive {
	list := []archive{{d.GetBundle(), d.GetInputs()}, {d.GetSecretsBundle(), d.GetSecretsInputs()}}
	for _, m := range d.GetMounts() {
		list = append(list, archive{m.GetBundle(), m.GetInputs()})
	}
	return slices.DeleteFunc(list, func(a archive) bool { return a.key == "" })
}

// kept are the bundles that a desired or a last good deployment names, by key.
func (state *loopState) kept() map[string]archive {
	keys := make(map[string]archive)
	for _, svc := range state.services {
		for _, d := range []*api.Deployment{svc.desired, svc.good} {
			for _, a := range archives(d) {
				keys[a.key] = a
			}
		}
	}
	return keys
}

// verify begins, beside the loop, a look at every bundle that is kept.
func (s *Syncer) verify(ctx context.Context, state *loopState) {
	if state.verifying || time.Now().Before(state.verify) {
		return
	}
	state.verifying = true
	kept := state.kept()
	go func() { // awaited by the loop: every look ends with a word
		s.check(ctx, kept)
		s.verified <- struct{}{}
	}()
}

// check computes the key of each bundle on disk, one after the other. One that is damaged or gone is fetched again; one that
// the hub does not give any more is left alone, since what it is good for may be healed from memory.
func (s *Syncer) check(ctx context.Context, kept map[string]archive) {
	for _, key := range slices.Sorted(maps.Keys(kept)) {
		if ctx.Err() != nil {
			return
		}
		if _, err := s.files(ctx, kept[key]); err != nil && ctx.Err() == nil {
			s.Log.Warn("bundle that is in use is not on disk, and not to be had", "bundle", key, "error", err)
		}
	}
}
