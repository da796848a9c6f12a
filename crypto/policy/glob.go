package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPattern bounds one pattern, in bytes. Git ignores lines of .gitattributes that are longer than 2,048.
const MaxPattern = 512

// glob is a compiled pattern. It matches bytes, as git does: ? is one byte, not one letter of another alphabet.
type glob struct {
	segments []string
	// literalSegments have no wildcard, and literals counts the bytes outside wildcards.
	literalSegments, literals int
	// crosses says that there is a **; wild that there is any wildcard.
	crosses, wild bool
}

const anySegments = "**"

// newGlob compiles a pattern that checkPattern accepts.
func newGlob(pattern string) glob {
	g := glob{segments: strings.Split(pattern, "/")}
	for _, s := range g.segments {
		switch {
		case s == anySegments:
			g.crosses, g.wild = true, true
		case strings.ContainsAny(s, "*?["):
			g.wild = true
			g.literals += countLiterals(s)
		default:
			g.literalSegments++
			g.literals += len(s)
		}
	}
	return g
}

func countLiterals(segment string) int {
	n := 0
	for segment != "" {
		one, rest := nextToken(segment)
		if len(one) == 1 && one != "*" && one != "?" {
			n++
		}
		segment = rest
	}
	return n
}

// nextToken splits off one byte or one [class].
func nextToken(segment string) (token, rest string) {
	if segment[0] != '[' {
		return segment[:1], segment[1:]
	}
	start := 1
	if len(segment) > 1 && (segment[1] == '!' || segment[1] == '^') {
		start = 2
	}
	end := start + 1 + strings.IndexByte(segment[start+1:], ']') // a ] that comes first stands for itself
	return segment[:end+1], segment[end+1:]
}

// match takes the path apart. Only the last ** that was passed is ever tried again, so the work is bounded by the number
// of the path's segments times that of the pattern's.
func (g glob) match(path string) bool {
	path += "/"
	at, retry := 0, -1
	var retryPath string
	for path != "" {
		segment, rest, _ := strings.Cut(path, "/")
		switch {
		case at < len(g.segments) && g.segments[at] == anySegments:
			if at == len(g.segments)-1 {
				return true // something is left for it
			}
			at++
			retry, retryPath = at, path
			continue
		case at < len(g.segments) && matchSegment(g.segments[at], segment):
			at++
			path = rest
			continue
		case retry < 0:
			return false
		}
		_, retryPath, _ = strings.Cut(retryPath, "/")
		at, path = retry, retryPath
	}
	return at == len(g.segments)
}

// matchSegment is the same within a segment, where * plays the part of **.
func matchSegment(pattern, s string) bool {
	retry, retryAt, i := "", -1, 0
	for {
		switch {
		case pattern != "" && pattern[0] == '*':
			pattern = pattern[1:]
			retry, retryAt = pattern, i
			continue
		case i == len(s) && pattern == "":
			return true
		case i < len(s) && pattern != "":
			if token, rest := nextToken(pattern); matchByte(token, s[i]) {
				pattern = rest
				i++
				continue
			}
		}
		if retryAt < 0 || retryAt >= len(s) {
			return false
		}
		retryAt++
		pattern, i = retry, retryAt
	}
}

func matchByte(token string, b byte) bool {
	switch {
	case token == "?":
		return true
	case len(token) == 1:
		return token[0] == b
	}
	set := token[1 : len(token)-1]
	negated := set[0] == '!' || set[0] == '^'
	if negated {
		set = set[1:]
	}
	return inSet(set, b) != negated
}

// inSet knows single bytes and ranges; a dash at either end stands for itself.
func inSet(set string, b byte) bool {
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' {
			if set[i] <= b && b <= set[i+2] {
				return true
			}
			i += 2
			continue
		}
		if set[i] == b {
			return true
		}
	}
	return false
}

// checkPattern says what is wrong with a pattern that somebody wrote.
func checkPattern(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("a pattern is empty")
	case len(pattern) > MaxPattern:
		return fmt.Errorf("the pattern %.40q... is longer than %d bytes", pattern, MaxPattern)
	case !utf8.ValidString(pattern) || strings.ContainsFunc(pattern, unicode.IsControl):
		return fmt.Errorf("the pattern %q holds a character that no path should hold: use ? for it", pattern)
	case strings.Contains(pattern, `\`):
		return fmt.Errorf(`the pattern %q holds a backslash: separate folders with /, and write [*] for a * that is no wildcard`, pattern)
	case strings.HasPrefix(pattern, "/"):
		return fmt.Errorf("the pattern %q begins with /: patterns begin at the repository's root anyway, remove it", pattern)
	case strings.HasSuffix(pattern, "/"):
		return fmt.Errorf("the pattern %q ends with /: write %q for everything in the folder", pattern, pattern+anySegments)
	case neverSealed(pattern):
		return fmt.Errorf("%q is never sealed: it is read before there is any key", pattern)
	}
	previous := ""
	for segment := range strings.SplitSeq(pattern, "/") {
		if err := checkSegment(segment, previous); err != nil {
			return fmt.Errorf("the pattern %q %w", pattern, err)
		}
		previous = segment
	}
	return nil
}

func checkSegment(segment, previous string) error {
	switch {
	case segment == "", segment == ".", segment == "..":
		return fmt.Errorf("holds the segment %q, which no path of a repository has", segment)
	case segment == anySegments && previous == anySegments:
		return errors.New("holds ** twice in a row: one is enough")
	case segment != anySegments && strings.Contains(segment, anySegments):
		return fmt.Errorf("holds ** inside the segment %q: ** stands alone between slashes, * matches within a segment", segment)
	}
	for rest := segment; rest != ""; {
		if rest[0] == '[' {
			if err := checkClass(rest); err != nil {
				return err
			}
		}
		_, rest = nextToken(rest)
	}
	return nil
}

// checkClass looks at the [class] at the beginning of s. Classes mean to git what they mean here only as long as they
// are plain.
func checkClass(s string) error {
	inside := strings.TrimPrefix(strings.TrimPrefix(s[1:], "!"), "^")
	end := -1
	if inside != "" {
		end = strings.IndexByte(inside[1:], ']') + 1
	}
	if end <= 0 {
		return fmt.Errorf("opens a [ that is not closed in %q: write [[] for a [ that is no class", s)
	}
	set := inside[:end]
	for i := range len(set) {
		switch {
		case set[i] >= utf8.RuneSelf:
			return fmt.Errorf("has a letter that is not ASCII in the class %q: write one pattern for each", s)
		case set[i] == '[' && i+1 < len(set) && set[i+1] == ':':
			return fmt.Errorf("has a named class in %q: write the range out, like [a-z0-9]", s)
		case set[i] == '-' && i > 0 && i+1 < len(set) && set[i-1] > set[i+1]:
			return fmt.Errorf("has an empty range in the class %q", s)
		}
	}
	return nil
}

// checkPath refuses what would match no pattern for the way it is written, and so pass as a path that is not sealed.
func checkPath(path string) error {
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("the path %q is not relative to the repository's root", path)
		}
	}
	return nil
}
