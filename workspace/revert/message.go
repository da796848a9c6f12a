package revert

import (
	"strings"

	"github.com/pluralsh/plural/workspace/history"
)

// Title is what git calls the opposite of a commit.
func Title(subject string) string {
	if undone, ok := strings.CutPrefix(subject, `Revert "`); ok {
		return `Reapply "` + undone
	}
	return `Revert "` + subject + `"`
}

// Trailer is what git writes, by which anybody knows what was undone.
func Trailer(r *history.Revision) string {
	text := "This reverts commit " + r.ID
	if r.Merge {
		text += ", reversing\nchanges made to " + r.Parent
	}
	return text + "."
}
