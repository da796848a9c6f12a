package gitsource

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/workspace/mirror"
)

// lookout is what one fetch looks for at the remote: full names of refs, and commits.
type lookout struct{ names, ids map[string]bool }

var (
	errNoRef = errors.New("the remote has no such branch or tag")
	errEmpty = errors.New("the remote has no such branch or tag, and its default branch has no commit: the repository is empty")
	errName  = errors.New("not the name of a branch, a tag or a commit")
)

// candidates are the full names that a ref may mean, in git's own order: a tag, a branch. A full name means nothing else: whoever
// may push branches would else put one in the place of a tag that is not there. Where refs are branches no tag takes the place of one.
func candidates(ref string, branches bool) []string {
	switch {
	case ref == "" || ref == "HEAD":
		return []string{"HEAD"}
	case strings.HasPrefix(ref, "refs/"):
		return []string{ref}
	case branches:
		return []string{"refs/heads/" + ref}
	}
	return []string{"refs/tags/" + ref, "refs/heads/" + ref}
}

// lookFor leaves out, as problems, names that no ref can have: they never reach the server.
func lookFor(refs []string, branches bool) (lookout, []error) {
	look := lookout{names: map[string]bool{}, ids: map[string]bool{}}
	var problems []error
	for _, ref := range refs {
		switch {
		case isID(ref):
			look.ids[ref] = true
		case !validName(ref):
			problems = append(problems, &mirror.RefError{Ref: ref, Err: errName})
		default:
			for _, name := range candidates(ref, branches) {
				look.names[name] = true
			}
		}
	}
	return look, problems
}

// validName follows git check-ref-format where it keeps harm away.
func validName(ref string) bool {
	const longest = 255
	if len(ref) > longest || strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") {
		return false
	}
	for _, bad := range []string{"..", "@{", "//", "/.", ".lock/"} {
		if strings.Contains(ref, bad) {
			return false
		}
	}
	return !strings.ContainsFunc(ref, func(r rune) bool { return r <= 0x20 || r == 0x7f || strings.ContainsRune(`~^:?*[\`, r) })
}

// prefixes are what version 2's ls-refs is asked for. A fetch of commits alone asks for HEAD, to hear the server at all.
func (l lookout) prefixes() []string {
	if len(l.names) == 0 {
		return []string{"HEAD"}
	}
	return slices.Sorted(maps.Keys(l.names))
}

// resolve finds the object that each ref names, and the full name by which it does; a commit has none. What it leaves out, it
// gives as problems.
func resolve(refs []string, branches bool, at map[string]string, empty bool) (found, names map[string]string, problems []error) {
	found, names = make(map[string]string, len(refs)), make(map[string]string, len(refs))
	for _, ref := range refs {
		switch {
		case isID(ref):
			found[ref] = ref
		case validName(ref):
			if name := firstOf(at, candidates(ref, branches)); name != "" {
				found[ref], names[ref] = at[name], name
				continue
			}
			problem := errNoRef
			if empty {
				problem = errEmpty
			}
			problems = append(problems, &mirror.RefError{Ref: ref, Err: problem})
		}
	}
	return found, names, problems
}

func firstOf(at map[string]string, names []string) string {
	for _, name := range names {
		if at[name] != "" {
			return name
		}
	}
	return ""
}
