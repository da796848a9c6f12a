package values

import (
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// piece is a stretch of a merged text: agreed text, or what each side wants in its place.
type piece struct {
	text         string
	conflict     bool
	ours, theirs string
}

func agreed(text string) []piece {
	if text == "" {
		return nil
	}
	return []piece{{text: text}}
}

// disputed is a conflict between two texts, without the lines that they begin or end with alike.
func disputed(ours, theirs string) []piece {
	o, t := splitLines(ours), splitLines(theirs)
	head := 0
	for head < min(len(o), len(t)) && o[head] == t[head] {
		head++
	}
	tail := 0
	for tail < min(len(o), len(t))-head && o[len(o)-1-tail] == t[len(t)-1-tail] {
		tail++
	}
	var pieces []piece
	pieces = append(pieces, agreed(strings.Join(o[:head], ""))...)
	if len(o)+len(t) > 2*(head+tail) {
		pieces = append(pieces, piece{
			conflict: true,
			ours:     strings.Join(o[head:len(o)-tail], ""), theirs: strings.Join(t[head:len(t)-tail], ""),
		})
	}
	return append(pieces, agreed(strings.Join(o[len(o)-tail:], ""))...)
}

// splitLines cuts text behind each end of a line.
func splitLines(text string) []string {
	lines := strings.SplitAfter(text, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// hunk is a run of lines that one side put in the place of base's lines from start to end.
type hunk struct {
	start, end int
	lines      []string
	theirs     bool
}

// hunks is what changed from base to a side.
func hunks(base, side []string, theirs bool) []hunk {
	var list []hunk
	for _, d := range lcs.DiffLines(base, side) {
		list = append(list, hunk{d.Start, d.End, side[d.ReplStart:d.ReplEnd], theirs})
	}
	return list
}

// mergeLines merges by line. Changes to lines that lie side by side do not hurt each other; only changes to the same
// line, and different lines put in at the same place, do.
func mergeLines(base, ours, theirs string) []piece {
	switch {
	case ours == theirs || base == theirs:
		return agreed(ours)
	case base == ours:
		return agreed(theirs)
	}
	b := splitLines(base)
	all := append(hunks(b, splitLines(ours), false), hunks(b, splitLines(theirs), true)...)
	slices.SortStableFunc(all, func(x, y hunk) int {
		if x.start != y.start {
			return x.start - y.start
		}
		return x.end - y.end
	})
	var pieces []piece
	at := 0
	for len(all) > 0 {
		group, end := 1, all[0].end
		for group < len(all) && (all[group].start < end || bothInsert(all[group-1], all[group])) {
			end = max(end, all[group].end)
			group++
		}
		start := all[0].start
		pieces = append(pieces, agreed(strings.Join(b[at:start], ""))...)
		pieces = append(pieces, settle(b, start, end, all[:group])...)
		at, all = end, all[group:]
	}
	return append(pieces, agreed(strings.Join(b[at:], ""))...)
}

// bothInsert says whether two hunks put lines in at the same place.
func bothInsert(x, y hunk) bool { return x.start == x.end && y.start == y.end && x.start == y.start }

// settle merges hunks that touch each other, over base's lines from start to end.
func settle(base []string, start, end int, group []hunk) []piece {
	side := func(theirs bool) string {
		var b strings.Builder
		at := start
		for _, h := range group {
			if h.theirs == theirs {
				b.WriteString(strings.Join(base[at:h.start], "") + strings.Join(h.lines, ""))
				at = h.end
			}
		}
		return b.String() + strings.Join(base[at:end], "")
	}
	if len(group) == 1 {
		return agreed(side(group[0].theirs))
	}
	return disputed(side(false), side(true))
}
