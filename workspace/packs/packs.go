// Package packs owns the commits that add, change, upgrade and remove packages.
//
// It refuses to know terminals and commits: what it plans is a list of files, with what to tell people first.
//
// A Shelf is one state of a repo with the catalogs that are asked. Add and Upgrade answer with a Proposal: which versions fit
// together, who asked for each, what needs somebody's agreement, and which questions are open. When those are answered, Plan
// gives the files. Set and Remove have nothing to propose: they give the files at once.
package packs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/catalog"
	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/schema"
	"github.com/pluralsh/plural/workspace/solve"
	"github.com/pluralsh/plural/workspace/versions"
)

// Snapshot is one state of an installation repo, with the catalogs that are asked.
type Snapshot struct {
	World    *compose.World
	Catalogs *catalog.Set
	// Past finds older states of packages' files; may be nil.
	Past pkgupgrade.Past
}

// Error is something that cannot be done.
type Error struct {
	// Message says what is wrong, Instead what to do.
	Message, Instead string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Fix says what to do instead.
func (e *Error) Fix() string { return e.Instead }

// Wanted is a package that somebody wants to have.
type Wanted struct {
	// Name is the package's, or one that packages provide. Range is one of versions; empty is any stable one.
	Name, Range string
	// As is the installation's name; empty is the package's.
	As string
	// Catalog is the one that it must come from; empty is the first that has it.
	Catalog string
	// Clusters are where its services run; empty is the management cluster.
	Clusters fleet.Selector
}

// ParseWanted reads NAME, or NAME@RANGE.
func ParseWanted(text string) Wanted {
	name, versions, _ := strings.Cut(text, "@")
	return Wanted{Name: name, Range: versions}
}

// Pick is one installation as it is proposed.
type Pick struct {
	solve.Pick
	// From is the version that is there; empty when none is.
	From string
	// Package is that of a version that is not there yet; nil otherwise.
	Package *packages.Package
	// Agreement is what somebody has to agree to first; nil when nothing.
	Agreement *pkgupgrade.Agreement
}

// Changed says whether the version is not there yet.
func (p *Pick) Changed() bool { return p.Package != nil }

// HeldBack is a newer version that an installation does not get unasked.
type HeldBack struct {
	Installation, Version string
	// Why is a sentence, Instead what to do to get it.
	Why, Instead string
}

// Proposal is what a repo could have.
type Proposal struct {
	// Picks are what was asked for with all that it needs, each after what it needs.
	Picks []Pick
	// Asked are the installations that were asked for, in the picks' order.
	Asked []string
	// Held are newer versions that were left out.
	Held []HeldBack

	shelf *Snapshot
	// files are those that people would have written.
	files map[string][]byte
	// world is the shelf's with them.
	world   *compose.World
	changes []pkgupgrade.Change
}

// Changed are the picks whose versions are not there yet.
func (p *Proposal) Changed() []*Pick {
	var changed []*Pick
	for i := range p.Picks {
		if p.Picks[i].Changed() {
			changed = append(changed, &p.Picks[i])
		}
	}
	return changed
}

// Idle says that there is nothing to change.
func (p *Proposal) Idle() bool { return len(p.changes) == 0 && len(p.files) == 0 }

// Add proposes packages that are not there yet.
func (s *Snapshot) Add(ctx context.Context, wanted ...Wanted) (*Proposal, error) {
	wants := pkgupgrade.Wants(s.World.Fleet, s.World.Lock)
	for _, w := range wanted {
		as := cmp.Or(w.As, w.Name)
		if in, ok := s.World.Fleet.Installation(as); ok {
			return nil, &Error{
				fmt.Sprintf("%s is there already, at %s", as, in.Position.File),
				fmt.Sprintf("plural package upgrade %s; for another of it: --as NAME", as),
			}
		}
		wants = append(wants, solve.Want{
			Name: w.Name, As: w.As, Range: w.Range, Catalog: w.Catalog,
			By: "plural package add " + spell(w),
		})
	}
	solution, err := s.solve(ctx, wants)
	if err != nil {
		return nil, err
	}
	p := &Proposal{shelf: s, files: map[string][]byte{}}
	if p.Asked, err = p.describe(solution, wanted); err != nil {
		return nil, err
	}
	return p, p.take(ctx, solution)
}

func spell(w Wanted) string {
	if w.Range == "" {
		return w.Name
	}
	return w.Name + "@" + w.Range
}

// solve answers wants with what is locked where that fits.
func (s *Snapshot) solve(ctx context.Context, wants []solve.Want) (*solve.Solution, error) {
	universe, err := pkgupgrade.Known(s.World, s.Catalogs.Universe(ctx))
	if err != nil {
		return nil, err
	}
	locked := map[string]string{}
	for _, w := range wants {
		if w.Locked != "" {
			locked[w.As] = w.Locked
		}
	}
	return solve.Solve(wants, universe, locked)
}

// describe writes the documents of new installations, and says which installations stand for what was asked.
func (p *Proposal) describe(solution *solve.Solution, wanted []Wanted) ([]string, error) {
	var asked []string
	for i := range solution.Picks {
		pick := &solution.Picks[i]
		var want *Wanted
		for n := range wanted {
			if by := "plural package add " + spell(wanted[n]); slices.Contains(pick.For, by) {
				want = &wanted[n]
				asked = append(asked, pick.As)
			}
		}
		if _, there := p.shelf.World.Fleet.Installation(pick.As); there {
			continue
		}
		in := fleet.Installation{TypeMeta: fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: "Installation"}}
		in.Metadata.Name = pick.As
		if pick.Name != pick.As {
			in.Spec.Package = pick.Name
		}
		if want != nil {
			in.Spec.Catalog, in.Spec.Clusters = want.Catalog, want.Clusters
			if want.Name == pick.Name {
				in.Spec.Version = want.Range
			}
		}
		text, err := encode(in)
		if err != nil {
			return nil, err
		}
		file := document(pick.As)
		p.files[file] = append(schema.Line(p.shelf.World.Repo, file, schema.Installation), text...)
	}
	return asked, nil
}

// take makes a solution the proposal: of its picks, those that are among the asked, or needed by them, or changed.
func (p *Proposal) take(ctx context.Context, solution *solve.Solution) error {
	var err error
	if p.world, err = p.shelf.with(p.files); err != nil {
		return err
	}
	p.changes = pkgupgrade.Changes(p.shelf.World.Lock, solution)
	closure := closureOf(solution, p.Asked)
	for i := range solution.Picks {
		pick := Pick{Pick: solution.Picks[i]}
		e, installed := p.shelf.World.Lock.Entry(pick.As)
		if installed {
			pick.From = e.Version
		}
		if !installed || e.Package != pick.Name || e.Catalog != pick.Catalog || e.Version != pick.Version {
			if pick.Package, err = p.shelf.open(ctx, pick.Catalog, pick.Name, pick.Version); err != nil {
				return err
			}
			in, _ := p.world.Fleet.Installation(pick.As)
			pick.Agreement = pkgupgrade.NeedsAgreement(pick.Package, pick.As, pick.From, in.Spec.Approved)
		}
		if closure[pick.As] || pick.Changed() {
			p.Picks = append(p.Picks, pick)
		}
	}
	return nil
}

func closureOf(solution *solve.Solution, asked []string) map[string]bool {
	closure := map[string]bool{}
	for _, name := range asked {
		closure[name] = true
	}
	for i := range slices.Backward(solution.Picks) { // those that need something come after it
		if pick := &solution.Picks[i]; closure[pick.As] {
			for _, by := range pick.Satisfies {
				closure[by] = true
			}
		}
	}
	return closure
}

// open is what the catalog's author says of one version.
func (s *Snapshot) open(ctx context.Context, catalogName, name, version string) (*packages.Package, error) {
	entries, _, err := s.Catalogs.Versions(ctx, catalogName, name)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if entries[i].Version == version {
			return entries[i].Package, entries[i].Problem
		}
	}
	return nil, &Error{fmt.Sprintf("catalog %s has no %s %s", catalogName, name, version), "plural package show " + name}
}

// with is the shelf's world with files laid over it.
func (s *Snapshot) with(files map[string][]byte) (*compose.World, error) {
	if len(files) == 0 {
		return s.World, nil
	}
	repo := overlay.New(s.World.Repo, files)
	loaded, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	return &compose.World{Fleet: loaded, Repo: repo, Lock: s.World.Lock, Blind: s.World.Blind}, nil
}

// Agree has somebody agree to what a pick needs agreement for: it is written down with the version.
func (p *Proposal) Agree(pick *Pick) error {
	if pick.Agreement == nil {
		return nil
	}
	file := document(pick.As)
	text, err := fs.ReadFile(p.world.Repo, file)
	if err != nil {
		return err
	}
	in, _ := p.world.Fleet.Installation(pick.As)
	text, err = put(text, []string{"spec", "approved"}, append(slices.Clone(in.Spec.Approved), pick.Version))
	if err != nil {
		return fmt.Errorf("write the agreement into %s: %w", file, err)
	}
	p.files[file] = text
	pick.Agreement = nil
	p.world, err = p.shelf.with(p.files)
	return err
}

// Plan gives the files of the proposal, with those that people would have written.
func (p *Proposal) Plan(ctx context.Context) (*pkgupgrade.Result, error) {
	for i := range p.Picks {
		if pick := &p.Picks[i]; pick.Agreement != nil {
			return nil, &AgreementError{pick.Agreement}
		}
	}
	result, err := pkgupgrade.Plan(ctx, p.world, p.shelf.Catalogs, p.changes, p.shelf.Past)
	if err != nil {
		return nil, err
	}
	for path, text := range p.files {
		if _, generated := result.Changes[path]; !generated {
			result.Changes[path] = text
		}
	}
	return result, nil
}

// AgreementError says that an upgrade waits until somebody agrees to it.
type AgreementError struct{ *pkgupgrade.Agreement }

// Error says to what.
func (e *AgreementError) Error() string {
	text := fmt.Sprintf("%s %s -> %s needs somebody's agreement", e.Installation, e.From, e.To)
	for _, b := range e.Breaking {
		text += fmt.Sprintf("; since %s: %s", b.Since, strings.Join(strings.Fields(b.Note), " "))
	}
	return text
}

// Fix says how it is given.
func (e *AgreementError) Fix() string {
	return fmt.Sprintf("plural package upgrade %s --to %s", e.Installation, e.To)
}

// Upgrade proposes the newest versions that fit for installations; none named means all. With a version, which one
// installation alone can be given, it is that one, and whoever names it agrees to it. Without, versions that need agreement are
// left out, and told as Held.
func (s *Snapshot) Upgrade(ctx context.Context, names []string, to string) (*Proposal, error) {
	if err := s.known(names); err != nil {
		return nil, err
	}
	if to != "" && len(names) != 1 {
		return nil, &Error{"a version is for one package", "plural package upgrade NAME --to " + to}
	}
	if to != "" && !versions.Is(to) {
		return nil, &Error{fmt.Sprintf("%q is no version", to), "write one in full: --to 1.4.2"}
	}
	meant := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	wants := pkgupgrade.Wants(s.World.Fleet, s.World.Lock)
	for i := range wants {
		in, _ := s.World.Fleet.Installation(wants[i].As)
		if !meant(wants[i].As) {
			continue
		}
		wants[i].Locked = ""
		if in.Spec.Catalog == "" && !s.has(wants[i].Catalog) {
			wants[i].Catalog = "" // the one that it came from is gone; as long as that is there, no other one stands in for it
		}
		if to != "" {
			if err := inRange(in, to); err != nil {
				return nil, err
			}
			wants[i].Range, wants[i].By = "="+to, fmt.Sprintf("plural package upgrade %s --to %s", names[0], to)
		}
	}
	if to != "" {
		p, err := s.proposal(ctx, wants, names)
		if err != nil {
			return nil, err
		}
		for _, pick := range p.Changed() {
			if pick.As == names[0] {
				if err := p.Agree(pick); err != nil {
					return nil, err
				}
			}
		}
		return p, nil
	}
	return s.gently(ctx, wants, names)
}

// inRange checks a version against what the installation's document asks for.
func inRange(in *fleet.Installation, version string) error {
	r, err := versions.ParseRange(in.Spec.Version)
	if err != nil {
		return err
	}
	if in.Spec.Version != "" && !r.Has(versions.Parse(version), true) {
		return &Error{
			fmt.Sprintf("%s asks for %s, which %s is not", in.Place("spec.version"), in.Spec.Version, version),
			"change spec.version there, and commit that",
		}
	}
	return nil
}

func (s *Snapshot) proposal(ctx context.Context, wants []solve.Want, asked []string) (*Proposal, error) {
	solution, err := s.solve(ctx, wants)
	if err != nil {
		return nil, err
	}
	p := &Proposal{Asked: asked, shelf: s, files: map[string][]byte{}}
	if _, err := p.describe(solution, nil); err != nil {
		return nil, err
	}
	return p, p.take(ctx, solution)
}

// gently goes as far as nobody has to agree. Each turn takes the versions away that somebody would have to agree to.
func (s *Snapshot) gently(ctx context.Context, wants []solve.Want, asked []string) (*Proposal, error) {
	held := map[string]HeldBack{}
	const turns = 20
	for range turns {
		p, err := s.proposal(ctx, wants, asked)
		if err != nil {
			return nil, err
		}
		again := false
		for _, pick := range p.Changed() {
			if pick.Agreement == nil {
				continue
			}
			again = true
			why := &AgreementError{pick.Agreement}
			if _, told := held[pick.As]; !told {
				held[pick.As] = HeldBack{pick.As, pick.Version, why.Error(), why.Fix()}
			}
			for i := range wants {
				if wants[i].As == pick.As {
					wants[i].Range = without(wants[i].Range, pick.Agreement)
				}
			}
		}
		if !again {
			for _, name := range slices.Sorted(maps.Keys(held)) {
				p.Held = append(p.Held, held[name])
			}
			return p, nil
		}
	}
	return nil, errors.New("no end was found of versions that need somebody's agreement")
}

// without is a range without what needs the agreement: what is at or above the first version that breaks, or the one version.
func without(text string, a *pkgupgrade.Agreement) string {
	cut := "!=" + a.To
	if len(a.Breaking) > 0 {
		cut = "<" + a.Breaking[0].Since
	}
	if strings.TrimSpace(text) == "" {
		return cut
	}
	parts := strings.Split(text, "||")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i]) + ", " + cut
	}
	return strings.Join(parts, " || ")
}

// has says whether a catalog is asked.
func (s *Snapshot) has(name string) bool {
	return slices.ContainsFunc(s.Catalogs.Catalogs(), func(c catalog.Catalog) bool { return c.Name() == name })
}

// known checks that installations are there.
func (s *Snapshot) known(names []string) error {
	for _, name := range names {
		if _, ok := s.World.Fleet.Installation(name); !ok {
			return &compose.UnknownError{Installation: name}
		}
	}
	return nil
}

// document is the file in which an installation is written.
func document(name string) string { return "packages/" + name + "/" + packages.File }
