package act

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"

	tea "charm.land/bubbletea/v2"
)

// terminal is a command that has the console's terminal while it runs.
type terminal struct {
	child *exec.Cmd
	in    io.Reader
	out   io.Writer
}

// Run runs the command. What it said of an error stays on the screen until the person has seen it.
func (t *terminal) Run() error {
	err := t.child.Run()
	if err != nil {
		fmt.Fprintf(t.out, "\n%v. Press enter to go back to the console.", err)
		_, _ = bufio.NewReader(t.in).ReadString('\n') // whatever ends the wait
	}
	return err
}

func (t *terminal) SetStdin(r io.Reader)  { t.in, t.child.Stdin = r, r }
func (t *terminal) SetStdout(w io.Writer) { t.out, t.child.Stdout = w, w }
func (t *terminal) SetStderr(w io.Writer) { t.child.Stderr = w }

// handedBack says that a command has given the terminal back.
type handedBack struct {
	plan   *plan
	entry  *Entry
	before string
	err    error
}

// handOver gives the terminal to the command of a plan.
func (d *Desk) handOver(p *plan) tea.Cmd {
	args := p.commands[0]
	e := &Entry{Began: d.world.Now(), Action: p.action.Name, Line: p.runner.Line(args)}
	d.log.add(e)
	name, args := p.runner.program(args)
	//nolint:noctx // it ends when the person ends it
	child := exec.Command(name, args...)
	child.Env = p.runner.environment()
	before := d.head(&job{plan: p})
	d.away.Store(true)
	return tea.Exec(&terminal{child: child}, func(err error) tea.Msg {
		d.away.Store(false)
		return handedBack{p, e, before, err}
	})
}

// handedBack writes down how it ended.
func (d *Desk) handedBack(m handedBack) tea.Cmd {
	var r Result
	if m.err != nil {
		r = Result{Code: 1, Err: fmt.Sprintf("error: %v\n", m.err)}
	}
	commit := d.head(&job{plan: m.plan})
	if commit == m.before {
		commit = ""
	}
	m.entry.end(r, d.world.Now().Sub(m.entry.Began), commit, false)
	switch {
	case m.err != nil:
		return told(true, "%s: %v", m.plan, m.err)
	case commit != "":
		return tea.Batch(d.hint(), told(false, "%s: committed as %.7s", m.plan, commit))
	}
	return nil
}

// Away says that a command has the terminal: an interrupt that is typed there is for it. Any goroutine may ask.
func (d *Desk) Away() bool { return d.away.Load() }
