package leakcheck

import (
	"fmt"
	"strings"
	"unicode"
)

// rotate is what a person has to know of a secret that others may have seen.
const rotate = "whoever could fetch the old commit has the old value: replace it where it is used"

// treeFix is for whoever looks at a commit that is everybody's already.
func treeFix(f Finding) string {
	switch {
	case unsealable(f.Path):
		return renameFix
	case f.Kind == Plaintext:
		return "plural crypto unlock && git add --renormalize " + word(f.Path) + ", then commit; " + rotate
	case f.Kind == Damaged:
		return restoreFix(f.Path)
	case f.Kind == Moved:
		return look + encrypt(f.Path) + ", then commit"
	}
	return encrypt(f.Path) + ", then commit"
}

// workTreeFix is for whoever looks around.
func workTreeFix(f Finding) string {
	switch {
	case unsealable(f.Path):
		return renameFix
	case f.Kind == Plaintext:
		return "the work tree is locked, and git would store the file as it is: plural crypto unlock, or remove it"
	case f.Kind == Damaged:
		return restoreFix(f.Path)
	case f.Kind == Moved:
		return look + encrypt(f.Path)
	}
	return encrypt(f.Path)
}

// indexFix is for whoever is about to commit.
func indexFix(f Finding) string {
	switch {
	case unsealable(f.Path):
		return renameFix
	case f.Kind == Plaintext:
		return "plural crypto unlock && git add --renormalize " + word(f.Path)
	case f.Kind == Moved:
		return look + encrypt(f.Path)
	case f.Kind == Damaged:
		return restoreFix(f.Path)
	}
	return encrypt(f.Path)
}

// historyFix is for whoever has plaintext in a commit that nobody else has. A commit that did not know yet that the path
// must be sealed cannot seal it either.
func historyFix(f Finding, commit string, last, knew bool) string {
	again := "git add --renormalize " + word(f.Path) + " && git commit --amend --no-edit"
	pushed := "; if the commit was ever pushed elsewhere, " + rotate
	switch {
	case unsealable(f.Path):
		return renameFix
	case !knew:
		return fmt.Sprintf("git reset --soft %s^ && git add --renormalize %s && git commit, which makes one commit of all since", commit, word(f.Path)) + pushed
	case last:
		return "plural crypto unlock && " + again + pushed
	}
	return fmt.Sprintf("git rebase -i %s^, change \"pick %s\" to \"edit\", then %s && git rebase --continue", commit, commit, again) + pushed
}

// tipFix is for whoever has a commit that nobody else has. The hook does not seal anew by itself what was moved to where
// others can read it.
func tipFix(f Finding, widened bool) string {
	switch {
	case unsealable(f.Path):
		return renameFix
	case f.Kind == Plaintext:
		return treeFix(f)
	case f.Kind == Damaged:
		return restoreFix(f.Path)
	case f.Kind == Moved && !widened:
		return "plural crypto unlock && git commit --amend --no-edit: the pre-commit hook seals it for its new place"
	}
	return encrypt(f.Path) + " && git commit --amend --no-edit"
}

// encrypt seals a file anew for where it lies, whatever it was sealed for.
func encrypt(path string) string {
	return "plural crypto encrypt " + word(path) + " && git add " + word(path)
}

// look comes before sealing anew what may be another's file, put here to be read.
const look = "look at what is in it, then "

const renameFix = "rename it: a path with control characters cannot be sealed"

func restoreFix(path string) string {
	return "git log -- " + word(path) + " names the commits; take the file from a good one: git checkout COMMIT -- " + word(path)
}

// unsealable says whether no file at the path can be sealed.
func unsealable(path string) bool { return strings.ContainsFunc(path, unicode.IsControl) }

// word is a path as one word of a shell.
func word(path string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@,=", r)
	}
	if path != "" && path[0] != '-' && strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
