package resolve

import (
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// exclusion is what a service leaves out of its own folder: patterns as in a .gitignore that lay there. The zero value leaves
// nothing out.
type exclusion struct {
	dir   string
	rules gitignore.Matcher
}

func newExclusion(dir string, patterns []string) exclusion {
	if len(patterns) == 0 {
		return exclusion{}
	}
	list := make([]gitignore.Pattern, len(patterns))
	for i, p := range patterns {
		list[i] = gitignore.ParsePattern(p, nil)
	}
	return exclusion{dir, gitignore.NewMatcher(list)}
}

// has says whether a path of the repository is left out, or a folder that it lies in.
func (e exclusion) has(name string, folder bool) bool {
	inner, ok := inside(name, e.dir)
	if e.rules == nil || !ok || inner == "." {
		return false
	}
	elems := strings.Split(inner, "/")
	for i := 1; i < len(elems); i++ {
		if e.rules.Match(elems[:i], true) {
			return true
		}
	}
	return e.rules.Match(elems, folder)
}

// inside is name seen from dir, if it lies in it or is it.
func inside(name, dir string) (string, bool) {
	if dir == "." {
		return path.Clean(name), true
	}
	return below(name, dir)
}
