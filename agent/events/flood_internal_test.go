package events

import (
	"fmt"
	"strings"
	"testing"
)

// Whoever may write Events in a namespace may write very many; masking each costs, and the loop that applies waits for it.
func TestFewOfManyWarningsAreMasked(t *testing.T) {
	masked := 0
	mask := func(text string) string {
		masked++
		before, _, _ := strings.Cut(text, "secret")
		return before
	}
	about := Object{UID: "u"}
	about.ID.Kind = "Pod"
	for name, text := range map[string]func(i int) string{
		"all the same":              func(int) string { return "back-off" },
		"the same but for a secret": func(i int) string { return fmt.Sprint("back-off secret", i) },
	} {
		var list []warning
		for i := range maxPages * pageSize {
			list = append(list, warning{about: about, reason: "BackOff", text: text(i)})
		}
		list = append(list, warning{about: about, reason: "Failed", text: "to pull"})
		masked = 0
		got := newest(list, "u", mask)
		if masked > 100 || len(got) == 0 || got[0] != "BackOff: back-off" {
			t.Errorf("%s: %d texts are masked for %q", name, masked, got)
		}
	}
}
