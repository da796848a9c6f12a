package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Reach is what a policy's patterns can still match below one folder. Whoever walks a repository keeps one for each folder on
// the way: where nothing can match there is no need to look, and a folder that was found at two places under one Key holds at
// both the same files that a pattern matches.
type Reach struct {
	policy *Policy
	at     []position // sorted, each once
}

// position is how far into a pattern the way to a folder has come: the segment that is to match next.
type position struct{ pattern, segment int }

// Reach is that of the repository's root.
func (p *Policy) Reach() Reach {
	r := Reach{policy: p}
	for i := range p.ranked {
		r.at = r.follow(r.at, position{i, 0})
	}
	return r
}

// Empty says that no pattern matches anything below the folder.
func (r Reach) Empty() bool { return len(r.at) == 0 }

// Key is the same for two folders exactly if the same patterns can match the same paths below both.
func (r Reach) Key() [sha256.Size]byte {
	text := make([]byte, 0, 4*len(r.at))
	for _, at := range r.at {
		text = binary.BigEndian.AppendUint16(text, uint16(at.pattern)) // at most MaxPatterns, and MaxPattern
		text = binary.BigEndian.AppendUint16(text, uint16(at.segment))
	}
	return sha256.Sum256(text) // of one length, however many patterns there are
}

// Into is the reach of a folder in this one.
func (r Reach) Into(folder string) Reach {
	into := Reach{policy: r.policy}
	for _, at := range r.at {
		segments := r.segments(at)
		switch last := at.segment == len(segments)-1; {
		case segments[at.segment] == anySegments:
			into.at = r.follow(into.at, at)
		case !last && matchSegment(segments[at.segment], folder):
			into.at = r.follow(into.at, position{at.pattern, at.segment + 1})
		}
	}
	slices.SortFunc(into.at, func(a, b position) int {
		return cmp.Or(cmp.Compare(a.pattern, b.pattern), cmp.Compare(a.segment, b.segment))
	})
	into.at = slices.Compact(into.at)
	return into
}

// Matches says whether some pattern matches a file in the folder. Match says what follows from that: there are paths that are
// never sealed.
func (r Reach) Matches(file string) bool {
	return slices.ContainsFunc(r.at, func(at position) bool {
		segments := r.segments(at)
		return at.segment == len(segments)-1 && (segments[at.segment] == anySegments || matchSegment(segments[at.segment], file))
	})
}

// follow adds a position, and what comes after a ** that need not match anything.
func (r Reach) follow(all []position, at position) []position {
	all = append(all, at)
	if segments := r.segments(at); segments[at.segment] == anySegments && at.segment < len(segments)-1 {
		all = append(all, position{at.pattern, at.segment + 1}) // never another **: one in a row is all there is
	}
	return all
}

func (r Reach) segments(at position) []string { return r.policy.ranked[at.pattern].glob.segments }
