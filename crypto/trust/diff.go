package trust

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/keys"
)

// Change is one line of a statement that came or went.
type Change struct {
	Added bool
	Line  string
}

// Diff is what changed from old to new, sorted by line; what went comes before what came.
func Diff(old, new groups.Statement) []Change {
	before, after := old.Lines(), new.Lines()
	slices.Sort(before)
	slices.Sort(after)
	var changes []Change
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(after) == 0 || len(before) > 0 && before[0] < after[0]:
			changes = append(changes, Change{false, before[0]})
			before = before[1:]
		case len(before) == 0 || after[0] < before[0]:
			changes = append(changes, Change{true, after[0]})
			after = after[1:]
		default:
			before, after = before[1:], after[1:]
		}
	}
	return changes
}

// String is the change in words.
func (c Change) String() string {
	switch words := strings.SplitN(c.Line, " ", 4); {
	case len(words) >= 3 && words[0] == "person":
		return pick(c.Added, "%s has the key %s", "%s no longer has the key %s", words[1], shortKey(strings.Join(words[2:], " ")))
	case len(words) == 3 && words[0] == "cluster":
		return pick(c.Added, "the cluster %s has the key %s", "the cluster %s no longer has the key %s", words[1], shortKey(words[2]))
	case len(words) == 4 && words[0] == "group" && words[2] == "recipient":
		return pick(c.Added, "the group %s has the key %s", "the group %s no longer has the key %s", words[1], recipientOf(words[3]))
	case len(words) == 4 && words[0] == "group" && words[2] == "member":
		return pick(c.Added, "%s is a member of the group %s", "%s is no longer a member of the group %s", words[3], words[1])
	case len(words) == 4 && words[0] == "group" && words[2] == "clusters":
		return pick(c.Added, "new clusters join the group %s when they are picked by: %s", "new clusters no longer join the group %s when they are picked by: %s", words[1], words[3])
	case strings.HasPrefix(c.Line, "path ") && strings.LastIndexByte(c.Line, ' ') > len("path"):
		at := strings.LastIndexByte(c.Line, ' ')
		return pick(c.Added, "%s is sealed for %s", "%s is no longer sealed for %s", c.Line[len("path "):at], c.Line[at+1:])
	}
	return pick(c.Added, "added: %s", "removed: %s", c.Line)
}

// recipientOf takes "KEY epoch N".
func recipientOf(text string) string {
	key, epoch, _ := strings.Cut(text, " epoch ")
	return shortKey(key) + " of epoch " + epoch
}

// shortKey is the key itself where it fits on a line, and otherwise how it begins with its fingerprint.
func shortKey(key string) string {
	const fits, begin = 100, 20
	if len(key) <= fits {
		return key
	}
	return key[:begin] + "... (" + keys.Fingerprint(key) + ")"
}

func pick(added bool, came, went string, args ...any) string {
	if added {
		return fmt.Sprintf(came, args...)
	}
	return fmt.Sprintf(went, args...)
}

// UnconfirmedError means that who can open what is not as the person has confirmed it.
type UnconfirmedError struct {
	// Changes are against what was confirmed.
	Changes []Change
	// First says that the person has never confirmed anything for this repository.
	First bool
}

// Error names the first changes.
func (e *UnconfirmedError) Error() string {
	const most = 3
	text := "who can open what has changed since you confirmed it: "
	if e.First {
		text = "you have not confirmed yet who can open what here: "
	}
	var words []string
	for _, c := range e.Changes[:min(most, len(e.Changes))] {
		words = append(words, c.String())
	}
	text += strings.Join(words, "; ")
	if more := len(e.Changes) - most; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// Fix is the command that shows all of it, and confirms it.
func (e *UnconfirmedError) Fix() string {
	return "look at it, and confirm it: plural crypto groups confirm"
}

// Check is nil when the statement is the confirmed one, and an *UnconfirmedError otherwise.
func Check(confirmed, now groups.Statement) error {
	changes := Diff(confirmed, now)
	if len(changes) == 0 {
		return nil
	}
	return &UnconfirmedError{Changes: changes, First: confirmed == ""}
}
