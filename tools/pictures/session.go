package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
)

const (
	patience = 2 * time.Minute       // the longest that a program is waited for
	quiet    = 40 * time.Millisecond // what a program writes in one go arrives closer together
	between  = 120 * time.Millisecond
	gap      = 900 * time.Millisecond // pauses are cut to this, unless the script asks for one
	perKey   = 55 * time.Millisecond
)

// session is a person at a terminal: what is typed goes to real programs, what they write onto the screen, and from there into
// frames.
type session struct {
	*screen
	stop     <-chan struct{}
	home     string
	dir      string // below home
	frames   []frame
	taken    time.Time     // when the newest frame was
	lapse    time.Duration // how many times faster than it was it is shown
	terminal *os.File
	output   chan []byte
	ended    chan error
}

func newSession(ctx context.Context, cols, rows int, home, dir string) *session {
	return &session{screen: newScreen(cols, rows), stop: ctx.Done(), home: home, dir: dir, lapse: 1}
}

// take makes a frame of the screen as it is, unless it is the one before still.
func (s *session) take() {
	now := time.Now()
	if n := len(s.frames); n > 0 {
		s.frames[n-1].shown += min(now.Sub(s.taken), gap) / s.lapse
		s.taken = now
		if slices.EqualFunc(s.frames[n-1].lines, s.cells, slices.Equal) {
			return
		}
	}
	s.taken = now
	s.frames = append(s.frames, s.now())
}

// now is the screen as it is.
func (s *session) now() frame {
	lines := make([][]cell, len(s.cells))
	for i, line := range s.cells {
		lines[i] = slices.Clone(line)
	}
	return frame{lines: lines}
}

// hold shows the newest frame for longer.
func (s *session) hold(d time.Duration) {
	s.take()
	s.frames[len(s.frames)-1].shown += d
	s.taken = time.Now()
}

// shell types a command line, and runs it to its end.
func (s *session) shell(args ...string) error {
	s.begin(args...)
	if err := s.start(args...); err != nil {
		return err
	}
	return s.end()
}

// enter goes into a folder, as cd does.
func (s *session) enter(dir string) {
	s.begin("cd", dir)
	s.dir = filepath.Join(s.dir, dir)
}

// begin shows the command line as it is typed.
func (s *session) begin(args ...string) {
	fmt.Fprintf(s, "\x1b[1;36m%s\x1b[m \x1b[1m$\x1b[m ", filepath.Join("~", s.dir))
	s.hold(400 * time.Millisecond)
	for _, r := range strings.Join(args, " ") {
		fmt.Fprint(s, string(r))
		s.hold(perKey)
	}
	s.hold(300 * time.Millisecond)
	fmt.Fprint(s, "\r\n")
}

func (s *session) start(args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = filepath.Join(s.home, s.dir)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(s.rows), Cols: uint16(s.cols)})
	if err != nil {
		return fmt.Errorf("start %s: %w", strings.Join(args, " "), err)
	}
	s.terminal, s.output, s.ended = terminal, make(chan []byte), make(chan error, 1)
	go func() {
		defer close(s.output)
		for {
			buffer := make([]byte, 64<<10)
			n, err := terminal.Read(buffer)
			if n > 0 {
				s.output <- buffer[:n]
			}
			if err != nil { // the program closed its side
				return
			}
		}
	}()
	go func() { s.ended <- cmd.Wait() }()
	return nil
}

// await shows what the program writes until it is done, or ended.
func (s *session) await(what string, done func() bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	tick := time.NewTicker(quiet / 2)
	defer tick.Stop()
	heard, fresh := time.Now(), false
	for {
		select {
		case data, open := <-s.output:
			if !open {
				s.take()
				if done != nil {
					return fmt.Errorf("wait for %s: the program ended:\n%s", what, s.text())
				}
				return nil
			}
			if _, err := s.Write(data); err != nil {
				return err
			}
			heard, fresh = time.Now(), true
		case <-tick.C:
			if time.Since(heard) < quiet {
				continue
			}
			if fresh && time.Since(s.taken) >= between*s.lapse {
				s.take()
				fresh = false
			}
			if done != nil && done() {
				s.take()
				return nil
			}
		case <-s.stop:
			return errors.Join(context.Canceled, s.terminal.Close())
		case <-late.C:
			return fmt.Errorf("wait for %s: it does not come:\n%s", what, s.text())
		}
	}
}

// end waits until the program ends by itself.
func (s *session) end() error {
	if err := s.await("the end", nil); err != nil {
		return err
	}
	err := errors.Join(<-s.ended, s.terminal.Close())
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, s.text())
	}
	return nil
}

// sees waits until all of it stands on the screen.
func (s *session) sees(all ...string) error {
	return s.await(fmt.Sprintf("%q", all), func() bool {
		text := s.text()
		for _, want := range all {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return true
	})
}

// keys types, and waits until that shows.
func (s *session) keys(typed string, shows ...string) error {
	if _, err := s.terminal.WriteString(typed); err != nil {
		return fmt.Errorf("type %q: %w", typed, err)
	}
	return s.sees(shows...)
}
