package gitsetup

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// hooks are those that git is made to run, in the order in which they are written.
func hooks() []string { return []string{"pre-commit", "pre-push", "post-checkout", "post-merge"} }

// guards says whether a hook can refuse what git is about to do.
func guards(hook string) bool { return hook == "pre-commit" || hook == "pre-push" }

// The commands that git runs; git and the shell append their own arguments.
const (
	filterCommand   = "crypto filter"
	textconvCommand = "crypto textconv"
	mergeCommand    = "crypto merge %O %A %B %L %P"
	hookCommand     = "crypto hook"
)

// hookBody is what a hook runs of ours, in the language of every Bourne shell. It stands above the rest of the script,
// so it leaves the rest its standard input. A hook that guards fails with the program, one that only follows does not.
func hookBody(hook, program string) []byte {
	var b strings.Builder
	b.WriteString("plural=" + quote(program) + "\n")
	b.WriteString(`command -v "$plural" >/dev/null 2>&1 || plural=plural` + "\n")
	if guards(hook) {
		b.WriteString(`command -v "$plural" >/dev/null 2>&1 || { echo "hook ` + hook + `: plural is not installed, and nothing is let past unchecked" >&2; exit 1; }` + "\n")
	}
	call := `"$plural" ` + hookCommand + " " + hook + ` "$@"`
	switch hook {
	case "pre-push":
		b.WriteString("plural_refs=$(cat)\n")
		b.WriteString(`printf '%s\n' "$plural_refs" | ` + call + " || exit $?\n")
		b.WriteString("exec <<PLURAL_REFS\n$plural_refs\nPLURAL_REFS\n")
		b.WriteString(`[ -n "$plural_refs" ] || exec </dev/null` + "\n")
	case "pre-commit":
		b.WriteString(call + " || exit $?\n")
	default:
		b.WriteString(call + " || :\n")
	}
	return []byte(b.String())
}

// hookLine is what somebody adds to a hook that is no shell script.
func hookLine(hook, program string) string {
	return quote(program) + " " + hookCommand + " " + hook + ` "$@"`
}

// isShell says whether a shell runs the script. Without a #! line git gives a script to sh.
func isShell(script []byte) bool {
	if bytes.IndexByte(script, 0) >= 0 {
		return false
	}
	first, _, _ := bytes.Cut(script, []byte("\n"))
	command, ok := bytes.CutPrefix(first, []byte("#!"))
	if !ok {
		return true
	}
	for _, word := range strings.Fields(string(command)) {
		name := path.Base(word)
		if name == "env" || strings.HasPrefix(name, "-") || strings.Contains(name, "=") {
			continue
		}
		return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh", "busybox"}, name)
	}
	return false
}

// quote makes one word of the shell's language of text.
func quote(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
