package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/pluralsh/plural/agent/render"
	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/workspace/resolve"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// Bounds of what one render is given.
const (
	maxFile     = 16 << 20
	maxFiles    = 200_000
	maxDepth    = 64
	maxUniverse = 512 << 20
)

// universe is what a render can see, and a hash over it.
type universe struct {
	files fs.FS
	hash  string
}

// take is all of a repository, but for what no manifest refers to: program text in Go, files over 16 MiB. What symbolic links
// lead to is seen in their places, as in a work tree.
func take(ctx context.Context, snap *snapshot.Snapshot) (*universe, error) {
	t := &taking{snap: snap, contents: map[string][]byte{}}
	if err := t.folder(ctx, ".", "."); err != nil {
		return nil, fmt.Errorf("read repository: %w", err)
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t.contents)) {
		fmt.Fprintf(sum, "%d %s %x\n", len(name), name, sha256.Sum256(t.contents[name]))
	}
	files, err := bundle.NewFiles(t.contents)
	if err != nil {
		return nil, fmt.Errorf("read repository: %w", err)
	}
	return &universe{files, hex.EncodeToString(sum.Sum(nil))}, nil
}

// taking is a walk through a repository under way. Open are the folders that it is in.
type taking struct {
	snap     *snapshot.Snapshot
	contents map[string][]byte
	open     []string
	// entries and bytes are what was seen so far, again in each place where a link shows it.
	entries int
	bytes   int64
}

// folder takes what lies at a place, to be seen under a name.
func (t *taking) folder(ctx context.Context, place, name string) error {
	if slices.Contains(t.open, place) {
		return nil
	}
	if len(t.open) > maxDepth {
		return fmt.Errorf("%q is nested more than %d folders deep", name, maxDepth)
	}
	t.open = append(t.open, place)
	defer func() { t.open = t.open[:len(t.open)-1] }()
	entries, err := fs.ReadDir(t.snap.FS(), place)
	if err != nil {
		return err
	}
	if t.entries += 1 + len(entries); t.entries > maxFiles {
		return fmt.Errorf("more than %d files and folders, counted at %q", maxFiles, name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range entries {
		at, seen := path.Join(place, e.Name()), path.Join(name, e.Name())
		mode := e.Type()
		if mode == fs.ModeSymlink {
			found, err := t.snap.Follow(at)
			if err != nil {
				continue // it leads nowhere
			}
			at, mode = found.Path, found.Mode.Type()
		}
		switch {
		case mode.IsDir():
			err = t.folder(ctx, at, seen)
		case mode.IsRegular():
			err = t.file(at, seen)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *taking) file(place, name string) error {
	info, err := fs.Stat(t.snap.FS(), place)
	if err != nil || info.Size() > maxFile || path.Ext(name) == ".go" {
		return err
	}
	if t.bytes += info.Size(); t.bytes > maxUniverse {
		return fmt.Errorf("more than %d MiB, counted at %q", maxUniverse>>20, name)
	}
	t.contents[name], err = fs.ReadFile(t.snap.FS(), place)
	return err
}

// inputs is what a deployment's bundles hold.
func inputs(d *resolve.Deployment) (*universe, error) {
	contents, roots := map[string][]byte{}, d.Inputs
	for _, m := range d.Mounts { // of this repository too: what lies in another is held
		roots = slices.Concat(roots, m.Inputs)
	}
	for _, root := range roots {
		err := boundwalk.Dir(d.Snapshot.FS(), root, maxFiles, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			contents[name], err = fs.ReadFile(d.Snapshot.FS(), name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read inputs of %s: %w", d.Service, err)
		}
	}
	files, err := bundle.NewFiles(contents)
	if err != nil {
		return nil, fmt.Errorf("read inputs of %s: %w", d.Service, err)
	}
	return &universe{files: files}, nil
}

// settings is what a render sees of a deployment besides files.
func settings(d *resolve.Deployment) string {
	text, err := json.Marshal(input(d, nil)) // strings, maps and bytes: it always can
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func input(d *resolve.Deployment, files fs.FS) render.Input {
	in := render.Input{
		Renderer: d.Renderer, Path: d.Path, Namespace: d.Namespace, Service: d.Service, Parameters: d.Parameters, Files: files,
		ThirdParty: !d.OwnRepository, Tenant: render.Tenant(d.Cluster, d.ServiceAccount, d.AllowedNamespaces),
	}
	if d.Helm != nil {
		in.Helm = &render.Helm{
			Release: d.Helm.Release, ValuesJSON: d.Helm.ValuesJSON, ValuesFiles: d.Helm.ValuesFiles, SkipCRDs: d.Helm.SkipCRDs,
		}
	}
	for _, m := range d.Mounts {
		in.Mounts = append(in.Mounts, render.Mount{At: m.At, Path: m.Inputs[0], Files: files, ThirdParty: !m.OwnRepository})
	}
	return in
}

// render fills in a state's output, or the reason why there is none.
func (w *walk) render(ctx context.Context, s *state, see *universe) error {
	d := s.deployment
	s.output, s.reason = "", ""
	switch {
	case d.Hold != nil:
		s.reason = d.Hold.Message
		return nil
	case len(d.Secrets) > 0:
		s.reason = "has secrets, which are not opened here"
		return nil
	}
	w.rendering()
	out, err := w.renderer.Render(ctx, input(d, see.files))
	var refused *render.Error
	if errors.As(err, &refused) {
		s.reason = refused.Message
		return nil
	}
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := render.WriteYAML(sum, out.Objects); err != nil {
		return err
	}
	s.output = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// rendering counts.
func (w *walk) rendering() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.Renders++
}

// conclude sums up what never was rendered.
func (w *walk) conclude() {
	seen := map[string]bool{}
	for name := range w.rendered {
		seen[name] = true
	}
	w.result.Reasons = map[string]int{}
	for name, reason := range w.reasons {
		if !w.rendered[name] {
			w.result.Unrendered++
			w.result.Reasons[reason]++
		}
		seen[name] = true
	}
	w.result.Services = len(seen)
	for name := range w.fickle {
		w.result.Unrepeatable = append(w.result.Unrepeatable, name)
	}
}
