package pkgupgrade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// Past finds the files of a package as they were in an installation before people changed them, by their digest, in an older
// state of the repository. The error is fs.ErrNotExist where there is none.
type Past func(ctx context.Context, installation, digest string) (fs.FS, error)

// Plan takes changes into the repository of a world. What people have changed in a package's files is kept; the version that
// they changed is found in the catalogs or, when past is not nil, there. Errors are those of the catalogs, of compose and of
// fleet.Load, and *BaseError.
func Plan(ctx context.Context, w *compose.World, set *catalog.Set, want []Change, past Past) (*Result, error) {
	p := &planning{
		world: w, set: set, past: past, lock: &lockfile.Lock{Packages: slices.Clone(w.Lock.Packages)},
		result: &Result{Changes: map[string][]byte{}},
	}
	touched := map[string]bool{}
	for _, c := range want {
		if err := p.take(ctx, c); err != nil {
			return nil, err
		}
		touched[c.Installation] = true
	}
	if err := p.writeLock(); err != nil {
		return nil, err
	}
	slices.Sort(p.result.Conflicts)
	p.result.Message = message(p.moves)
	if len(p.result.Conflicts) > 0 {
		return p.result, nil
	}
	if err := generate(w, p.lock, touched, p.result.Changes); err != nil {
		return nil, err
	}
	return p.result, nil
}

// Generate adds to changes of a world's repository what follows from them for installations, and for those that depend on them:
// they are composed anew. None named means every one. The lock is the one that goes with the changes.
func Generate(w *compose.World, lock *lockfile.Lock, changes map[string][]byte, installations ...string) error {
	touched := map[string]bool{}
	for _, name := range installations {
		touched[name] = true
	}
	if len(touched) == 0 {
		for i := range w.Fleet.Installations {
			touched[w.Fleet.Installations[i].Metadata.Name] = true
		}
	}
	return generate(w, lock, touched, changes)
}

// planning is one Plan under way.
type planning struct {
	world  *compose.World
	set    *catalog.Set
	past   Past
	lock   *lockfile.Lock
	result *Result
	moves  []move
}

// move is a change, as it is told.
type move struct {
	name, from, to string
	breaking       []packages.Breaking
}

// take takes one change in.
func (p *planning) take(ctx context.Context, c Change) error {
	if _, ok := p.world.Fleet.Installation(c.Installation); !ok {
		return fmt.Errorf("plan %q: the fleet has no installation of that name", c.Installation)
	}
	old, installed := p.lock.Entry(c.Installation)
	entry := lockfile.Entry{Name: c.Installation, Package: c.Package, Catalog: c.Catalog, Version: c.Version, Requires: c.Requires}
	if installed {
		entry.Package, entry.Catalog = cmp.Or(c.Package, old.Package), cmp.Or(c.Catalog, old.Catalog)
		if c.Requires == nil {
			entry.Requires = old.Requires
		}
	}
	entry.Package = cmp.Or(entry.Package, c.Installation)
	if installed && entry.Package == old.Package && entry.Catalog == old.Catalog && entry.Version == old.Version {
		entry.Digest = old.Digest
		p.lock.Set(entry)
		return nil // another installation stands for one of its dependencies
	}
	next, err := p.set.Open(ctx, entry.Catalog, entry.Package, entry.Version, "")
	if err != nil {
		return err
	}
	entry.Digest = next.Digest
	if !installed {
		err = p.add(c.Installation, next)
	} else {
		err = p.upgrade(ctx, *old, next)
	}
	if err != nil {
		return err
	}
	p.lock.Set(entry)
	return nil
}

func (p *planning) add(name string, next *catalog.Payload) error {
	files, err := compose.Vendor(next.Files, name)
	if err != nil {
		return err
	}
	maps.Copy(p.result.Changes, files)
	p.moves = append(p.moves, move{name: name, to: next.Package.Spec.Version})
	return nil
}

func (p *planning) upgrade(ctx context.Context, old lockfile.Entry, next *catalog.Payload) error {
	base, err := p.base(ctx, old)
	if err != nil {
		return err
	}
	changes, conflicts, err := compose.Upgrade(p.world.Repo, old.Name, base, next.Files)
	if err != nil {
		return err
	}
	maps.Copy(p.result.Changes, changes)
	p.result.Conflicts = append(p.result.Conflicts, conflicts...)
	crossed := next.Package.BreakingFrom(old.Version)
	for _, b := range crossed {
		p.result.Notes = append(p.result.Notes, fmt.Sprintf("%s breaks since %s: %s", old.Name, b.Since, strings.TrimSpace(b.Note)))
	}
	p.moves = append(p.moves, move{old.Name, old.Version, next.Package.Spec.Version, crossed})
	return nil
}

// base is the version that people's changes were made to: what lies in the repository when they have made none.
func (p *planning) base(ctx context.Context, old lockfile.Entry) (fs.FS, error) {
	ours, err := fs.Sub(p.world.Repo, compose.Payload(old.Name))
	if err != nil {
		return nil, err
	}
	if digest, err := packages.Digest(ours); err == nil && digest == old.Digest {
		return ours, nil
	}
	payload, err := p.set.Open(ctx, old.Catalog, old.Package, old.Version, old.Digest)
	if err == nil {
		return payload.Files, nil
	}
	if p.past != nil {
		before, pastErr := p.past(ctx, old.Name, old.Digest)
		if pastErr == nil || !errors.Is(pastErr, fs.ErrNotExist) {
			return before, pastErr
		}
	}
	return nil, &BaseError{old.Name, old.Package, old.Version, err}
}

func (p *planning) writeLock() error {
	text, err := p.lock.Encode()
	if err != nil {
		return err
	}
	before, err := fs.ReadFile(p.world.Repo, lockfile.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", lockfile.File, err)
	}
	if !bytes.Equal(before, text) {
		p.result.Changes[lockfile.File] = text
	}
	return nil
}

func generate(w *compose.World, lock *lockfile.Lock, touched map[string]bool, changes map[string][]byte) error {
	spread(lock, touched)
	during := maps.Clone(changes)
	for name := range touched {
		if err := loosen(w.Repo, name, during); err != nil {
			return err
		}
	}
	repo := overlay.New(w.Repo, during)
	loaded, err := fleet.Load(repo)
	if err != nil {
		return err
	}
	next := &compose.World{Fleet: loaded, Repo: repo, Lock: lock, Blind: w.Blind}
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		composed, err := compose.Installation(next, name, nil)
		if err != nil {
			return err
		}
		for path, text := range composed.Files {
			if err := settle(w.Repo, changes, path, text); err != nil {
				return err
			}
		}
	}
	_, err = fleet.Load(overlay.New(w.Repo, changes))
	return err
}

// settle makes a file a change where the repository has it otherwise.
func settle(repo fs.FS, changes map[string][]byte, path string, text []byte) error {
	before, err := fs.ReadFile(repo, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		before = nil
	case err != nil:
		return fmt.Errorf("read %s: %w", path, err)
	}
	if (before == nil) == (text == nil) && bytes.Equal(before, text) {
		delete(changes, path)
		return nil
	}
	changes[path] = text
	return nil
}

// loosen lets the Services that an installation had wait for nobody until they are composed anew: those that they wait for may be
// there no longer.
func loosen(repo fs.FS, name string, during map[string][]byte) error {
	file := "packages/" + name + "/services.yaml"
	text, err := fs.ReadFile(repo, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document map[string]any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil // somebody changed it by hand: who reads the fleet says where
		}
		if spec, ok := document["spec"].(map[string]any); ok {
			delete(spec, "dependsOn")
		}
		if err := encoder.Encode(document); err != nil {
			return fmt.Errorf("write %s: %w", file, err)
		}
	}
	during[file] = out.Bytes()
	return nil
}

// spread touches whatever depends on what is touched.
func spread(lock *lockfile.Lock, touched map[string]bool) {
	for grown := true; grown; {
		grown = false
		for i := range lock.Packages {
			e := &lock.Packages[i]
			if touched[e.Name] {
				continue
			}
			for _, by := range e.Requires {
				if touched[by] {
					touched[e.Name], grown = true, true
				}
			}
		}
	}
}

// Trailer begins the lines of a commit's message that name what it upgrades: "Plural-Upgrade: web 1.2.0 -> 1.3.0".
const Trailer = "Plural-Upgrade: "

// message is the commit's: what moves, what breaks, and a trailer for programs.
func message(moves []move) string {
	if len(moves) == 0 {
		return "Resolve packages anew"
	}
	var b strings.Builder
	b.WriteString(title(moves))
	b.WriteString("\n")
	if len(moves) > 1 {
		b.WriteString("\n")
		for _, m := range moves {
			fmt.Fprintf(&b, "- %s\n", m)
		}
	}
	for _, m := range moves {
		for _, note := range m.breaking {
			// Further lines are set in, so that none can pass for a trailer.
			text := strings.ReplaceAll(strings.TrimSpace(note.Note), "\n", "\n  ")
			fmt.Fprintf(&b, "\n%s breaks since %s: %s\n", m.name, note.Since, text)
		}
	}
	first := true
	for _, m := range moves {
		if m.from == "" {
			continue
		}
		if first {
			b.WriteString("\n")
			first = false
		}
		fmt.Fprintf(&b, "%s%s %s -> %s\n", Trailer, m.name, m.from, m.to)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (m move) String() string {
	if m.from == "" {
		return "add " + m.name + " " + m.to
	}
	return m.name + " " + m.from + " -> " + m.to
}

func title(moves []move) string {
	added := 0
	for _, m := range moves {
		if m.from == "" {
			added++
		}
	}
	last := moves[len(moves)-1] // what was asked for comes after what it needs
	switch {
	case len(moves) == 1 && added == 1:
		return "Add package " + last.name + " " + last.to
	case len(moves) == 1:
		return "Upgrade package " + last.name + " to " + last.to
	case added == len(moves):
		return fmt.Sprintf("Add package %s %s, with %d that it needs", last.name, last.to, len(moves)-1)
	case added == 0:
		return fmt.Sprintf("Upgrade %d packages", len(moves))
	}
	return fmt.Sprintf("Add %d packages, upgrade %d", added, len(moves)-added)
}
