package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// maxFollowed bounds the links that one service's files may hold: each costs a walk through the repository.
const maxFollowed = 1_000

// maxMet bounds the files and folders of one service's folders that are met, read or left out, over and over where one of them
// lies at several paths.
func maxMet() int { return 10 * bundle.DefaultLimits().Entries }

// picked is what the bundle of a service or of a mount holds.
type picked struct {
	bundle string
	// graft is nil when the inputs are folders and files of the repository as they are.
	graft *snapshot.Graft
	// links are the paths of the repository that symbolic links lead to, sorted.
	links []string
	// warnings name the links that are left out, sorted.
	warnings []string
}

// picker makes the folders that a render is to see out of the repository's: without what nobody reads, and with what symbolic
// links lead to in the links' places. A folder that is already so is taken as it is, by its id, and costs no look inside.
type picker struct {
	r       *Resolver
	snap    *snapshot.Snapshot
	reading reading

	graft   snapshot.Graft
	out     picked
	entries int
	met     int
	// open are the folders under way, so that none is put inside itself. Those after the first `linked` ones are seen by way
	// of links, followed of which there were so many, with so many bytes.
	open     []string
	linked   bool
	followed int
	bytes    int64
}

// pick finds the key of the bundle that holds what is selected at the inputs.
func (r *Resolver) pick(snap *snapshot.Snapshot, inputs []string, selected *selection, reads reading) (picked, *fault) {
	p := &picker{r: r, snap: snap, reading: reads}
	list, made := make([]bundle.Input, len(inputs)), make([]placed, len(inputs))
	changed := false
	for i, name := range inputs {
		entry, f := p.input(name, selected.at(name))
		if f != nil {
			return picked{}, f
		}
		made[i] = placed{strings.Split(name, "/"), entry}
		list[i] = bundle.Input{Path: name, Hash: string(entry.Hash), Dir: entry.Mode.IsDir()}
		id, _, err := snap.Hash(name)
		changed = changed || err != nil || id != entry.Hash
	}
	p.out.bundle = bundle.Key(list)
	if changed {
		var err error
		if p.graft.Root, err = p.root(made); err != nil {
			return picked{}, unreadable(err)
		}
		p.out.graft = &p.graft
	}
	for _, list := range []*[]string{&p.out.links, &p.out.warnings} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return p.out, nil
}

// placed is a file or a folder with its path, element by element.
type placed struct {
	at    []string
	entry snapshot.Entry
}

// root makes the folder that holds the inputs and nothing else.
func (p *picker) root(list []placed) (snapshot.Hash, error) {
	if len(list) == 1 && slices.Equal(list[0].at, []string{"."}) {
		return list[0].entry.Hash, nil
	}
	var entries []snapshot.Entry
	for len(list) > 0 {
		name := list[0].at[0]
		var below []placed
		rest := list[:0:0]
		for _, each := range list {
			switch {
			case each.at[0] != name:
				rest = append(rest, each)
			case len(each.at) == 1:
				each.entry.Name = name
				entries = append(entries, each.entry)
			default:
				below = append(below, placed{each.at[1:], each.entry})
			}
		}
		if len(below) > 0 {
			id, err := p.root(below)
			if err != nil {
				return "", err
			}
			entries = append(entries, snapshot.Entry{Name: name, Mode: fs.ModeDir | 0o755, Hash: id})
		}
		list = rest
	}
	return p.graft.Add(entries)
}

// input picks one declared file or folder.
func (p *picker) input(name string, selected *selection) (snapshot.Entry, *fault) {
	at, err := p.snap.Follow(name)
	var link *snapshot.LinkError
	switch {
	case errors.As(err, &link):
		return snapshot.Entry{}, badLink(link)
	case err != nil:
		return snapshot.Entry{}, unreadable(err)
	}
	filtered, err := p.r.filteredAbove(p.snap, at.Path)
	if err != nil {
		return snapshot.Entry{}, unreadable(err)
	}
	if p.linked = at.Path != name; p.linked {
		p.out.links = append(p.out.links, at.Path)
	}
	entry, f := p.remembered(name, at, selected, filtered)
	switch {
	case f != nil || entry.Hash != "":
		return entry, f
	case p.reading.whole(name):
	case len(p.reading.patterns) > 0:
		return entry, &fault{
			field: "spec.exclude", message: fmt.Sprintf("nothing of %q is left to render", name),
			fix: "exclude less, or remove the service if it is meant to go",
		}
	default: // a folder of which nothing is read is still there, and not empty
		p.reading = reading{}
		return p.input(name, &selection{all: true})
	}
	if entry.Hash, err = p.graft.Add(nil); err != nil {
		return entry, unreadable(err)
	}
	return entry, nil
}

// partDependencies is all that a part of a folder depends on which is told by the names in it.
type partDependencies struct {
	id                 snapshot.Hash
	dir, name, reading string
	filtered           bool
}

// remembered is entry for an input. What of a folder without links is read depends on the folder alone, and is looked for once.
func (p *picker) remembered(name string, at snapshot.Target, selected *selection, filtered bool) (snapshot.Entry, *fault) {
	if p.linked || !at.Mode.IsDir() || !selected.all || p.reading.whole(name) || p.r.scan(p.snap, at.Path, at.Hash, at.Mode).links {
		return p.entry(name, at, selected, filtered)
	}
	reading := fmt.Sprintf("%s%q%t%q", p.reading.renderer, p.reading.patterns, p.reading.bare, p.reading.named)
	key := partDependencies{at.Hash, p.reading.dir, name, reading, filtered}
	known, ok := p.r.picks.get(key)
	if !ok {
		alone := &picker{r: p.r, snap: p.snap, reading: p.reading}
		var f *fault
		if known.entry, f = alone.entry(name, at, selected, filtered); f != nil {
			return known.entry, f
		}
		known.trees, known.entries = alone.graft.Trees, alone.entries
		p.r.picks.set(key, known)
	}
	p.graft.Take(known.trees)
	return known.entry, p.count(name, known.entries)
}

// partOf is what a pickOf leads to.
type partOf struct {
	entry   snapshot.Entry
	trees   map[snapshot.Hash][]snapshot.Entry
	entries int
}

// entry picks what is selected at a place of the repository, to be seen under a name. The hash is empty for a folder of which
// nothing is read. Filtered says that attributes above it put files into Git LFS.
func (p *picker) entry(name string, at snapshot.Target, selected *selection, filtered bool) (snapshot.Entry, *fault) {
	entry := snapshot.Entry{Name: path.Base(name), Mode: at.Mode, Hash: at.Hash}
	switch {
	case at.Mode.IsDir():
		var f *fault
		entry.Hash, f = p.folder(name, at, selected, filtered)
		return entry, f
	case !at.Mode.IsRegular():
		f := notPlain("spec.source.path", name, at.Mode, "")
		f.file = name
		return entry, f
	}
	if large := p.r.scan(p.snap, at.Path, at.Hash, at.Mode).large; large != nil {
		return entry, large.under(at.Path)
	}
	if filtered {
		if f := p.r.checkPointer(p.snap, at.Path); f != nil {
			return entry, f
		}
	}
	if p.linked {
		info, err := fs.Stat(p.snap.FS(), at.Path)
		if err != nil {
			return entry, unreadable(err)
		}
		if f := p.weigh(name, info.Size()); f != nil {
			return entry, f
		}
	}
	return entry, p.count(name, 1)
}

// folder gives the id of a folder as it is to be seen; empty when nothing in it is read.
func (p *picker) folder(name string, at snapshot.Target, selected *selection, filtered bool) (snapshot.Hash, *fault) {
	if selected.all && p.reading.whole(name) {
		scan := p.r.scan(p.snap, at.Path, at.Hash, at.Mode)
		if bad := cmp.Or(scan.fault, scan.large); bad != nil {
			return "", bad.under(at.Path)
		}
		if !scan.links {
			return at.Hash, p.whole(name, at, scan)
		}
	}
	if strings.Count(name, "/") >= bundle.DefaultLimits().PathDepth {
		return "", unreadable(fmt.Errorf("%q is nested more than %d folders deep", name, bundle.DefaultLimits().PathDepth))
	}
	if !filtered {
		var err error
		if filtered, err = p.r.filteredIn(p.snap, at.Path); err != nil {
			return "", unreadable(err)
		}
	}
	if f := p.count(name, 1); f != nil {
		return "", f
	}
	p.open = append(p.open, at.Path)
	defer func() { p.open = p.open[:len(p.open)-1] }()
	found, f := p.inFolder(name, at, selected, filtered)
	if f != nil || len(found) == 0 {
		return "", f
	}
	id, err := p.graft.Add(found)
	if err != nil {
		return "", unreadable(err)
	}
	return id, nil
}

// whole takes a folder as it is.
func (p *picker) whole(name string, at snapshot.Target, scan treeScan) *fault {
	if f := p.r.checkPointers(p.snap, at.Path, at.Hash, at.Mode, scan); f != nil {
		return f
	}
	if p.linked {
		size, err := p.r.size(p.snap, at)
		if err != nil {
			return unreadable(err)
		}
		if f := p.weigh(name, size); f != nil {
			return f
		}
	}
	return p.count(name, scan.entries)
}

func (p *picker) inFolder(name string, at snapshot.Target, selected *selection, filtered bool) ([]snapshot.Entry, *fault) {
	entries, err := p.snap.Tree(at.Hash)
	if err != nil {
		return nil, unreadable(err)
	}
	if p.met += len(entries); p.met > maxMet() {
		return nil, tooMany(name)
	}
	var found []snapshot.Entry
	for _, e := range entries {
		inner := selected
		if !selected.all {
			if inner = selected.within[e.Name]; inner == nil {
				continue
			}
		}
		entry, f := p.child(path.Join(name, e.Name), path.Join(at.Path, e.Name), e, inner, filtered)
		if f != nil {
			return nil, f
		}
		if entry.Hash != "" {
			found = append(found, entry)
		}
	}
	return found, nil
}

// child picks one entry of a folder, which lies at a place of the repository and is to be seen under a name. The hash is empty
// when it is left out.
func (p *picker) child(name, place string, e snapshot.Entry, selected *selection, filtered bool) (snapshot.Entry, *fault) {
	nothing := snapshot.Entry{}
	if e.Mode.Type() != fs.ModeSymlink {
		if !p.reading.keeps(name, e.Mode.IsDir()) {
			return nothing, nil
		}
		return p.entry(name, snapshot.Target{Path: place, Hash: e.Hash, Mode: e.Mode}, selected, filtered)
	}
	if !p.reading.keeps(name, false) && !p.reading.keeps(name, true) {
		return nothing, nil
	}
	if p.followed++; p.followed > maxFollowed {
		return nothing, &fault{
			field: "spec.source.path", file: name, message: fmt.Sprintf("more than %d symbolic links, counted at %q", maxFollowed, name),
			fix: "split the service or narrow its inputs",
		}
	}
	at, err := p.snap.Follow(place)
	if err == nil && slices.ContainsFunc(p.open, func(open string) bool { _, in := inside(open, at.Path); return in }) {
		err = &snapshot.LinkError{Link: place, To: at.Path, Reason: "is a folder that the link itself is in"}
	}
	var link *snapshot.LinkError
	switch {
	case errors.As(err, &link):
		return nothing, p.leaveOut(name, link)
	case err != nil:
		return nothing, unreadable(err)
	case !p.reading.keeps(name, at.Mode.IsDir()):
		return nothing, nil
	}
	if filtered, err = p.r.filteredAbove(p.snap, at.Path); err != nil {
		return nothing, unreadable(err)
	}
	p.out.links = append(p.out.links, at.Path)
	before := p.linked
	p.linked = true
	defer func() { p.linked = before }()
	return p.entry(name, at, selected, filtered)
}

// leaveOut warns of a link that leads to nothing good, or refuses it where it would be missed.
func (p *picker) leaveOut(name string, link *snapshot.LinkError) *fault {
	if !p.reading.needs(name) {
		p.out.warnings = append(p.out.warnings, fmt.Sprintf("%q is left out: %v", name, link))
		return nil
	}
	f := badLink(link)
	if inner, ok := inside(name, p.reading.dir); ok {
		f.fix += fmt.Sprintf(", or leave it out: exclude: [%q]", "/"+inner)
	}
	return f
}

// badLink is the fault of a link that is needed.
func badLink(link *snapshot.LinkError) *fault {
	return &fault{
		field: "spec.source.path", file: link.Link, message: link.Error(), fix: "put what it should lead to in its place", outside: link.Outside,
	}
}

func (p *picker) count(name string, entries int) *fault {
	if p.entries += entries; p.entries > bundle.DefaultLimits().Entries {
		return tooMany(name)
	}
	return nil
}

func (p *picker) weigh(name string, size int64) *fault {
	if p.bytes += size; p.bytes > bundle.DefaultLimits().Unpacked {
		return &fault{
			field: "spec.source.path", fix: "split the service or narrow its inputs", file: name,
			message: fmt.Sprintf("what symbolic links lead to has more than %d MiB, counted at %q", bundle.DefaultLimits().Unpacked>>20, name),
		}
	}
	return nil
}

// size is what all files in a folder measure together, up to somewhat more than a bundle can hold. The folder has no links.
func (r *Resolver) size(snap *snapshot.Snapshot, at snapshot.Target) (int64, error) {
	if at.Mode.IsRegular() {
		info, err := fs.Stat(snap.FS(), at.Path)
		if err != nil {
			return 0, err
		}
		return info.Size(), nil
	}
	if known, ok := r.sizes.get(at.Hash); ok {
		return known, nil
	}
	entries, err := snap.Tree(at.Hash)
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, e := range entries {
		size, err := r.size(snap, snapshot.Target{Path: path.Join(at.Path, e.Name), Hash: e.Hash, Mode: e.Mode})
		if err != nil {
			return 0, err
		}
		if total += size; total > bundle.DefaultLimits().Unpacked {
			break
		}
	}
	r.sizes.set(at.Hash, total)
	return total, nil
}
