package act

import (
	"bytes"
	"context"

	tea "charm.land/bubbletea/v2"
)

// maxForwards bounds how many ports are forwarded at once.
const maxForwards = 20

// opened says that a port is open at an address of this machine or, when over is set, that it is no more.
type opened struct {
	entry  *Entry
	at     string
	over   bool
	result Result
}

// forward begins a command that goes on beside everything else, until a person ends it, or the console ends.
func (d *Desk) forward(p *plan) tea.Cmd {
	going := 0
	for _, e := range d.log.background() {
		if e.Ending == Running {
			going++
		}
	}
	if going >= maxForwards {
		return told(true, "%d ports are forwarded: end one of them first, in :pf", going)
	}
	args := p.commands[0]
	ctx, cancel := context.WithCancel(d.ctx)
	e := &Entry{Began: d.world.Now(), Action: p.action.Name, Line: p.runner.Line(args), stop: cancel}
	d.log.add(e)
	runner, addresses := p.runner, make(ear, 1)
	runner.Hears = addresses
	over := later(d, func() opened {
		defer cancel()
		return opened{entry: e, over: true, result: runner.Run(ctx, args)}
	})
	open := func() tea.Msg {
		select {
		case at := <-addresses:
			return opened{entry: e, at: at}
		case <-ctx.Done():
			return nil
		}
	}
	return tea.Batch(over, open, told(false, "forwarding a port to %s; :pf lists what is forwarded, and ends it", p.targets))
}

// opened writes down what became of a forwarded port.
func (d *Desk) opened(m opened) tea.Cmd {
	if !m.over {
		m.entry.Told = m.at
		return told(false, "%s leads to it now; :pf ends that", m.at)
	}
	stopped := m.entry.Ending == Stopped
	m.entry.end(m.result, d.world.Now().Sub(m.entry.Began), "", stopped)
	if stopped {
		m.entry.Told = "ended by hand"
	}
	if m.entry.Ending != Failed {
		return nil
	}
	return told(true, "%s: %s", m.entry.Line, m.entry.Told)
}

// ear hears at which address of this machine kubectl listens, once.
type ear chan string

func (e ear) Write(said []byte) (int, error) {
	if _, rest, found := bytes.Cut(said, []byte("Forwarding from ")); found {
		at, _, _ := bytes.Cut(rest, []byte(" "))
		select {
		case e <- string(at):
		default: // it was heard
		}
	}
	return len(said), nil
}
