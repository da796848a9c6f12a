package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"
)

// Bounds of one lookup that follows links.
const (
	maxLinks  = 40   // links on the way to one path, as Linux has it
	maxTarget = 1024 // bytes of one link's target
	maxSteps  = 256  // folders on the way, there and back again
)

// Target is what a path leads to once its symbolic links are followed.
type Target struct {
	// Path has no link in it.
	Path string
	Hash Hash
	Mode fs.FileMode
}

// LinkError says that a symbolic link leads to no file and no folder of the repository.
type LinkError struct {
	// Link is where the link is.
	Link string
	// To is what it says, as written and cut to 200 characters.
	To string
	// Reason is the end of a sentence that begins with "which".
	Reason string
	// Outside says that it leads out of the repository.
	Outside bool
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("%q is a symbolic link to %q, which %s", e.Link, e.To, e.Reason)
}

// Follow finds what is at a slash-separated path as a file system does that has the repository's root for its own: symbolic
// links are followed, those on the way and the last one. It reads no file but the links. A missing path wraps fs.ErrNotExist;
// a link that is absolute, leads outside of the repository, to nothing, or round in a circle is a *LinkError.
func (s *Snapshot) Follow(name string) (Target, error) {
	if !fs.ValidPath(name) {
		return Target{}, &fs.PathError{Op: "follow", Path: name, Err: fs.ErrInvalid}
	}
	w := linkWalk{src: s.src}
	at, err := w.follow([]Entry{{Name: ".", Mode: fs.ModeDir | 0o755, Hash: s.root}}, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = &fs.PathError{Op: "follow", Path: name, Err: err}
		}
		return Target{}, err
	}
	last := at[len(at)-1]
	return Target{Path: pathOf(at), Hash: last.Hash, Mode: last.Mode}, nil
}

// linkWalk is one lookup under way.
type linkWalk struct {
	src          source
	links, steps int
}

// follow walks on from a place, which is given as the entries that lead to it from the root.
func (w *linkWalk) follow(at []Entry, name string) ([]Entry, error) {
	for elem := range strings.SplitSeq(name, "/") {
		switch {
		case elem == "" || elem == ".":
			continue
		case !at[len(at)-1].Mode.IsDir():
			return nil, fs.ErrNotExist
		case elem == ".." && len(at) == 1:
			return nil, errOutside
		case elem == "..":
			at = at[:len(at)-1]
			continue
		}
		if w.steps++; w.steps > maxSteps {
			return nil, errTooFar
		}
		entries, err := w.src.Tree(at[len(at)-1].Hash)
		if err != nil {
			return nil, fmt.Errorf("read folder %q: %w", pathOf(at), err)
		}
		next, ok := lookup(entries, elem)
		if !ok {
			return nil, fs.ErrNotExist
		}
		at = append(at[:len(at):len(at)], next)
		if next.Mode.Type() == fs.ModeSymlink {
			if at, err = w.target(at); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

var (
	errOutside = errors.New("leads out of the repository")
	errTooFar  = fmt.Errorf("leads round in a circle, or over more than %d links or %d folders", maxLinks, maxSteps)
)

// target is what the link at a place leads to.
func (w *linkWalk) target(link []Entry) ([]Entry, error) {
	said := &LinkError{Link: pathOf(link)}
	id := link[len(link)-1].Hash
	size, err := w.src.blobSize(id)
	switch {
	case err != nil:
		return nil, err
	case size > maxTarget:
		said.Reason = "is too long for a path"
		return nil, said
	}
	text, err := w.src.blob(id)
	if err != nil {
		return nil, err
	}
	said.To = clip(string(text))
	if path.IsAbs(string(text)) || len(text) == 0 {
		said.Reason = "is no path inside the repository"
		return nil, said
	}
	if w.links++; w.links > maxLinks {
		said.Reason = errTooFar.Error()
		return nil, said
	}
	at, err := w.follow(link[:len(link)-1], string(text))
	switch {
	case errors.Is(err, errOutside), errors.Is(err, errTooFar):
		said.Reason, said.Outside = err.Error(), errors.Is(err, errOutside)
		return nil, said
	case errors.Is(err, fs.ErrNotExist):
		said.Reason = "leads to nothing"
		return nil, said
	}
	return at, err
}

func pathOf(at []Entry) string {
	names := make([]string, len(at))
	for i, e := range at {
		names[i] = e.Name
	}
	return path.Join(names...)
}

// Tree gives the entries of one of the snapshot's folders in git's order, by its id. The caller must not change them.
func (s *Snapshot) Tree(id Hash) ([]Entry, error) { return s.src.Tree(id) }

// Graft is a root folder that no commit has, with those of its folders that none has either. Its files, and all other folders,
// are those of a snapshot.
type Graft struct {
	Root  Hash
	Trees map[Hash][]Entry
}

// Add puts a folder into the graft, and gives its id.
func (g *Graft) Add(entries []Entry) (Hash, error) {
	id, err := treeID(entries)
	if err != nil {
		return "", err
	}
	g.Take(map[Hash][]Entry{id: entries})
	return id, nil
}

// Take puts folders of another graft into this one.
func (g *Graft) Take(trees map[Hash][]Entry) {
	if g.Trees == nil {
		g.Trees = map[Hash][]Entry{}
	}
	maps.Copy(g.Trees, trees)
}

// Grafted is the snapshot with another root.
func (s *Snapshot) Grafted(g *Graft) *Snapshot {
	return &Snapshot{commit: s.commit, root: g.Root, src: grafted{s.src, g.Trees}, whole: s}
}

// Whole is the snapshot that a grafted one was made of, and any other itself.
func (s *Snapshot) Whole() *Snapshot {
	if s.whole != nil {
		return s.whole
	}
	return s
}

type grafted struct {
	source
	trees map[Hash][]Entry
}

func (g grafted) Tree(id Hash) ([]Entry, error) {
	if entries, ok := g.trees[id]; ok {
		return entries, nil
	}
	return g.source.Tree(id)
}
