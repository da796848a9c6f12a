// Package act owns the actions on subjects of the console.
//
// It refuses to know how anything is done: an action is a command of this program with its arguments, which a person could type.
//
// A key comes to the Desk with the subjects under the cursor. The Desk finds the action, says why it is not offered, or asks as
// much as the action wants to be asked. What is agreed to becomes a job: the Runner runs its commands one after the other as
// child processes, the Log remembers each with what it said, and a line tells how it ended. What the child processes say comes
// back as messages, so that all of it changes on the console's one goroutine.
package act

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/usercommands"
)

// Desk is where actions are agreed to, carried out and remembered. A console has one.
type Desk struct {
	world  *pane.World
	runner Runner
	// own are the commands that the person added.
	own []usercommands.Command
	log Log
	// jobs are what is under way, the oldest first. Of those that write commits only the first is at work: a work tree is for one.
	jobs []*job
	// work are the goroutines that wait for child processes.
	work sync.WaitGroup
	ctx  context.Context //nolint:containedctx // ends with the desk, as the processes do
	end  context.CancelFunc
	away atomic.Bool
}

// New is the desk of a console.
func New(w *pane.World, r Runner) *Desk {
	d := &Desk{world: w, runner: r}
	d.ctx, d.end = context.WithCancel(w.Context)
	return d
}

// Offered are the keys of the actions that can be done to these subjects by this person, for the footer and the help.
func (d *Desk) Offered(subjects []pane.Subject) []key.Binding {
	var out []key.Binding
	all := d.Actions()
	for i := range all {
		if all[i].Applies(subjects) && d.refusal(&all[i], subjects) == "" {
			out = append(out, all[i].Binding)
		}
	}
	return out
}

// refusal says why an action that applies is not offered; empty: it is.
func (d *Desk) refusal(a *Action, subjects []pane.Subject) string {
	w := d.world
	switch {
	case w.ReadOnly && a.Writes:
		return "this console only reads (--read-only)"
	case a.Asks && w.Hub == nil:
		return "there is no hub to ask"
	case a.Verb == verbEdit && w.Repo == nil:
		return "the installation repo is not here: start the console in its folder, or with -C"
	case a.LogsIn && !w.Fleet.State.LoggedOut:
		return "the hub knows you"
	case a.LogsIn && w.TokenFrom != "":
		return w.LogIn("")
	case a.LogsIn:
		return ""
	case a.Terminal && len(subjects) > 1:
		return "one at a time"
	}
	me := w.Fleet.Me
	if a.Verb == "" || w.Hub == nil || me == nil || me.Operator || slices.Contains(me.Verbs, a.Verb) {
		return ""
	}
	return fmt.Sprintf("%s may not %s the fleet", cmp.Or(me.Name, "you"), a.Verb)
}

// Key does what a key asks for, to what on points to; on may be nil. It says false when the key is no action's.
func (d *Desk) Key(msg tea.KeyPressMsg, on pane.Pointing) (tea.Cmd, bool) {
	var subjects []pane.Subject
	if on != nil {
		subjects = on.Subjects()
	}
	var none *Action
	for _, a := range d.Actions() {
		if !key.Matches(msg, a.Binding) {
			continue
		}
		if a.Applies(subjects) {
			return d.begin(&a, subjects, on), true
		}
		none = &a
	}
	if none == nil || len(subjects) == 0 {
		return nil, false
	}
	return told(true, "%s: not for %s", none.Binding.Help().Desc, about(subjects)), true
}

// begin does an action, or asks first.
func (d *Desk) begin(a *Action, subjects []pane.Subject, on pane.Pointing) tea.Cmd {
	if why := d.refusal(a, subjects); why != "" {
		return told(true, "%s: %s", a.Binding.Help().Desc, why)
	}
	if a.Copies != nil {
		text := a.Copies(subjects)
		return tea.Batch(tea.SetClipboard(text), told(false, "copied %s", strings.ReplaceAll(text, "\n", ", ")))
	}
	if name, found := misnamed(subjects); found && !a.LogsIn {
		return told(true, "%s: %q is no name of anything in a fleet", a.Binding.Help().Desc, name)
	}
	if a.Needs != nil {
		return d.inspect(a, subjects[0])
	}
	commands, err := a.Commands(subjects)
	if err != nil {
		return told(true, "%s: %v", a.Binding.Help().Desc, err)
	}
	p := d.plan(a, subjects, commands)
	if a.Heals {
		p.notes = madeAgain(subjects)
	}
	return d.propose(p, on)
}

// plan is what an action would do to subjects.
func (d *Desk) plan(a *Action, subjects []pane.Subject, commands [][]string) *plan {
	p := &plan{action: a, targets: a.About(subjects), commands: commands, runner: d.runner}
	p.runner.Outside = a.Outside
	p.care = a.care(len(p.targets.Names))
	inProduction := slices.ContainsFunc(subjects, d.world.Production)
	if inProduction && (a.Deletes || a.InCluster && a.Care > None) {
		p.care = Typed
	}
	return p
}

// propose carries a plan out, or asks first. on is where the marks are that go when it is agreed to; nil: there are none.
func (d *Desk) propose(p *plan, on pane.Pointing) tea.Cmd {
	switch {
	case p.action.Terminal:
		return d.handOver(p)
	case p.action.Background:
		return d.forward(p)
	case p.care == None:
		if on != nil {
			on.Unmark()
		}
		return d.start(p)
	}
	return pane.Ask(pane.Push{Pane: newAgreement(d, p, on)})
}

// Update takes in a message about what is under way. It says false when the message is none of those.
func (d *Desk) Update(msg tea.Msg) (tea.Cmd, bool) {
	switch msg := msg.(type) {
	case inspected:
		return d.inspected(msg), true
	case opened:
		return d.opened(msg), true
	case looked:
		return msg.by.took(msg.result), true
	case ended:
		return d.ended(msg), true
	case hinted:
		msg.end(msg.result, d.world.Now().Sub(msg.Began), "", d.ctx.Err() != nil)
		return nil, true
	case handedBack:
		return d.handedBack(msg), true
	}
	return nil, false
}

// Busy says in a few words what is under way; empty: nothing is.
func (d *Desk) Busy() string {
	if len(d.jobs) == 0 {
		return ""
	}
	text := d.jobs[0].progress()
	if rest := len(d.jobs) - 1; rest > 0 {
		text += fmt.Sprintf(", and %d more", rest)
	}
	return text
}

// Stop has nothing begin any more that has not. Said again, it has what is at work end. It says false when there was nothing to
// stop.
func (d *Desk) Stop() (told string, stopped bool) {
	for _, j := range slices.Clone(d.jobs) {
		if d.stop(j) {
			told, stopped = j.remains(), true
		}
	}
	return told, stopped
}

// Close ends everything, and waits until it has ended.
func (d *Desk) Close() {
	d.end()
	d.work.Wait()
}

// Log is what was done so far.
func (d *Desk) Log() *Log { return &d.log }

// Panes are "commands", the log, and "forwards", what of it goes on in the background.
func (d *Desk) Panes() map[string]pane.Maker {
	return map[string]pane.Maker{
		"commands": func(*pane.World, pane.Subject, string) (pane.Pane, error) { return newCommands(d, false), nil },
		"forwards": func(*pane.World, pane.Subject, string) (pane.Pane, error) { return newCommands(d, true), nil },
	}
}

// later runs what takes time. Its message comes back unless the console is gone by then.
func later[T tea.Msg](d *Desk, do func() T) tea.Cmd {
	done := make(chan T, 1)
	d.work.Go(func() { done <- do() })
	return func() tea.Msg { return <-done }
}

func told(bad bool, format string, args ...any) tea.Cmd {
	return pane.Ask(pane.Told{Text: fmt.Sprintf(format, args...), Bad: bad})
}
