package tui

import (
	"fmt"
	"strings"

	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/console"
	"github.com/pluralsh/plural/cli/tui/tables"
)

// Keys is what the console's keys do, as a page of help.
func Keys() string {
	own, open := console.Keys()
	var b strings.Builder
	b.WriteString("Keys of the console. ? shows those that work where you are, and enter there presses the key.\n")
	section(&b, "Everywhere", own)
	section(&b, "In lists", tables.Keys())
	section(&b, "About what the cursor is on", open)
	section(&b, "Done to what is marked, or what the cursor is on", act.Keys())
	return strings.TrimRight(b.String(), "\n")
}

func section(b *strings.Builder, title string, keys []key.Binding) {
	fmt.Fprintf(b, "\n%s:\n\n", title)
	for _, k := range keys {
		fmt.Fprintf(b, "  %-12s %s\n", k.Help().Key, k.Help().Desc)
	}
}
