package act

import (
	"charm.land/bubbles/v2/key"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Care is what a person has to say before an action is carried out. Several subjects at once are never acted on without Ask, and
// more than many of them never without Typed.
type Care uint8

// How much care there is.
const (
	// None carries it out at once.
	None Care = iota
	// Ask shows the commands, and asks y/N.
	Ask
	// Look shows what --dry-run says besides.
	Look
	// Typed wants the subject's name typed, or how many there are.
	Typed
)

// Action is something that can be done to subjects, by commands of this program.
type Action struct {
	Binding key.Binding
	// Name says what is done, as a verb: "sync", "take away".
	Name string
	// Verb is the one of v1.Me that it takes; empty: anybody may.
	Verb string
	// Writes says that it changes something: a console that only reads does not offer it.
	Writes bool
	// Terminal says that its command talks to the person, on the console's terminal.
	Terminal bool
	// Alone says that it is not done to several subjects at once.
	Alone bool
	// Care is what is asked first.
	Care Care
	// Applies says whether it can be done to these, of which there may be none.
	Applies func([]pane.Subject) bool
	// Commands are plural's arguments, one command each. The error says why there are none.
	Commands func([]pane.Subject) ([][]string, error)
	// Copies is what goes to the clipboard, in place of commands.
	Copies func([]pane.Subject) string
}
