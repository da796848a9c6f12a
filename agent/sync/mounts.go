package sync

import (
	"context"
	"fmt"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/agent/unseal"
	"github.com/pluralsh/plural/api"
	"github.com/pluralsh/plural/api/bundle"
)

// openMounts fetches what is mounted beside a deployment's own files, and adds it to them with what is sealed in it opened. All of
// it together is held to the bounds of one bundle: it lies in memory at the same time.
func (s *Syncer) openMounts(ctx context.Context, d *api.Deployment, keys unseal.Keys, own *bundle.Files, to *opened) error {
	room := newRoom(own)
	for _, m := range d.GetMounts() {
		if len(m.GetInputs()) != 1 {
			return fmt.Errorf("mount at %q: the hub names %d inputs instead of one", m.GetAt(), len(m.GetInputs()))
		}
		files, err := s.files(ctx, archive{m.GetBundle(), m.GetInputs()})
		if err == nil {
			err = room.take(files)
		}
		if err != nil {
			return fmt.Errorf("mount at %q: %w", m.GetAt(), err)
		}
		plain, err := unseal.Files(files, keys, m.GetOwnRepository())
		if err != nil {
			return fmt.Errorf("mount at %q: %w", m.GetAt(), err)
		}
		mount := render.Mount{At: m.GetAt(), Path: m.GetInputs()[0], Files: plain.FS, ThirdParty: !m.GetOwnRepository()}
		to.mounts, to.secrets = append(to.mounts, mount), append(to.secrets, plain.Values...)
		to.sealed = to.sealed || plain.Sealed
	}
	return nil
}

// mountBudget is what one deployment's files may still take.
type mountBudget struct {
	bytes   int64
	entries int
}

func newRoom(own *bundle.Files) *mountBudget {
	limits := bundle.DefaultLimits()
	r := &mountBudget{limits.Unpacked, limits.Entries}
	_ = r.take(own) // a bundle alone never exceeds them
	return r
}

func (r *mountBudget) take(files *bundle.Files) error {
	entries := files.Entries()
	r.entries -= len(entries)
	for _, e := range entries {
		r.bytes -= e.Size
	}
	if r.bytes < 0 || r.entries < 0 {
		limits := bundle.DefaultLimits()
		return fmt.Errorf("the service with its mounts has more than %d files or %d MiB", limits.Entries, limits.Unpacked>>20)
	}
	return nil
}
