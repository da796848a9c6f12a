package ui

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Paged gives write a place for a long text: Out, by way of the person's pager where Out is a terminal and the text is higher than
// it. A pager that is left before the text's end ends write's writing, and is no error; without one the text is printed.
func (s *Streams) Paged(write func(w io.Writer) error) error {
	width, height := s.Size()
	command := strings.Fields(s.Pager)
	if !s.OutTTY || s.Plain || height == 0 || len(command) == 0 || command[0] == "cat" {
		return write(s.Out)
	}
	p := &pager{out: s.Out, errOut: s.ErrOut, command: command, width: max(width, 1), room: height - 1}
	err := write(p)
	if closed := p.close(); err == nil {
		err = closed
	}
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// errLeft is why nothing can be written any more.
var errLeft = errors.New("the pager was left")

// pager keeps what fits on the screen, and starts a program once there is more.
type pager struct {
	out, errOut io.Writer
	command     []string
	width, room int
	kept        bytes.Buffer
	// to is where everything goes once there is more than fits; cmd is the program behind it, if there is one.
	to  io.WriteCloser
	cmd *exec.Cmd
}

func (p *pager) Write(text []byte) (int, error) {
	if p.to == nil {
		p.kept.Write(text)
		if p.fits() {
			return len(text), nil
		}
		p.start()
		if _, err := p.to.Write(p.kept.Bytes()); err != nil {
			return 0, errors.Join(errLeft, err)
		}
		return len(text), nil
	}
	n, err := p.to.Write(text)
	if err != nil && p.cmd != nil {
		err = errors.Join(errLeft, err)
	}
	return n, err
}

// fits says whether what is kept leaves a line for the prompt.
func (p *pager) fits() bool {
	lines := 0
	for line := range strings.Lines(p.kept.String()) {
		lines += 1 + max(0, ansi.StringWidth(strings.TrimRight(line, "\n"))-1)/p.width
		if lines > p.room {
			return false
		}
	}
	return true
}

// start has a program show the text, or nothing but the terminal where there is no such program.
func (p *pager) start() {
	p.to = unclosed{p.out}
	path, err := exec.LookPath(p.command[0])
	if err != nil {
		return
	}
	cmd := exec.Command(path, p.command[1:]...) //nolint:noctx // it ends when the person leaves it
	cmd.Stdout, cmd.Stderr = p.out, p.errOut
	cmd.Env = append(os.Environ(), defaults(os.LookupEnv)...)
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	p.to, p.cmd = in, cmd
}

// defaults are what git gives pagers too: colors, and no screen of their own for what fits on one.
func defaults(lookup func(string) (string, bool)) []string {
	var env []string
	for name, value := range map[string]string{"LESS": "FRX", "LV": "-c"} {
		if _, set := lookup(name); !set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// close waits until the person has left the program.
func (p *pager) close() error {
	if p.to == nil {
		_, err := p.out.Write(p.kept.Bytes())
		return err
	}
	if p.cmd == nil {
		return nil
	}
	_ = p.to.Close()
	_ = p.cmd.Wait() // how it ended is between it and the person
	return nil
}

// unclosed is a writer that others go on writing to.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
