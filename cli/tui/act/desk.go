// Package act owns what can be done to the subjects of the console.
//
// It refuses to know how anything is done: an action is a command of this program with its arguments, which a person could type.
//
// A key comes to the Desk with the subjects under the cursor. The Desk finds the action, says why it is not offered, or asks as much
// as the action wants to be asked. What is agreed to becomes a job: the Runner runs its commands one after the other as child
// processes, the Log remembers each with what it said, and a line tells how it ended. What the child processes say comes back
// as messages, so that all of it changes on the console's one goroutine.
package act

import (
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
)

// Desk is where actions are agreed to, carried out and remembered. A console has one.
type Desk struct {
	world  *pane.World
	runner Runner
	log    Log
}

// Runner runs commands of this program.
type Runner struct {
	// Program is the path of this program.
	Program string
	// Globals are the flags that go before every command, as they were given to the console: -C DIR, --hub URL.
	Globals []string
	// Env is the commands' environment; nil: that of this process.
	Env []string
	// Grace is how long a command has to end by itself when it is stopped; 0: ten seconds.
	Grace time.Duration
}

// Log is what was done, the newest last, bounded.
type Log struct{}

// New is the desk of a console.
func New(w *pane.World, r Runner) *Desk { return &Desk{world: w, runner: r} }

// Actions are all that there are.
func (d *Desk) Actions() []Action { return nil }

// Offered are the keys of the actions that can be done to these subjects by this person, for the footer and the help.
func (d *Desk) Offered(subjects []pane.Subject) []key.Binding { return nil }

// Key does what a key asks for, to what on points to; on may be nil. It says false when the key is no action's.
func (d *Desk) Key(msg tea.KeyPressMsg, on pane.Pointing) (tea.Cmd, bool) { return nil, false }

// Update takes in a message about what is under way. It says false when the message is none of those.
func (d *Desk) Update(msg tea.Msg) (tea.Cmd, bool) { return nil, false }

// Busy says in a few words what is under way; empty: nothing is.
func (d *Desk) Busy() string { return "" }

// Stop stops what is under way: commands that have not begun do not, and the one at work is asked to end. It says false when
// nothing was.
func (d *Desk) Stop() bool { return false }

// Close stops everything, and waits until it has ended.
func (d *Desk) Close() {}

// Panes are "commands", the log.
func (d *Desk) Panes() map[string]pane.Maker { return nil }
