package terraform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// grace is how long terraform may take to stop: what is in the middle of being made in a cloud may take minutes.
	grace = 5 * time.Minute
	// longest bounds one line of what terraform says; the rest of a longer one is taken for another.
	longest = 1 << 20
)

// run runs terraform in the module's folder and calls line with each line that it says, as it says it. The error is
// an *exec.ExitError when terraform has ended with one, and a *StoppedError when ctx has ended it.
//
// Terraform writes to a file that has no name any more, and not to a pipe: were this process killed, a pipe would kill
// terraform at its next word, between what it has made and what it has written down of it. It is in a group of its own,
// so that Ctrl-C in a terminal reaches it by this process alone, which may let it finish.
func (w *Work) run(ctx context.Context, during string, args []string, line func([]byte)) error {
	if ctx.Err() != nil {
		return &StoppedError{During: during, Cause: context.Cause(ctx)}
	}
	said, err := unnamed(w.dir)
	if err != nil {
		return fmt.Errorf("terraform %s: %w", during, err)
	}
	defer func() { _ = said.Close() }()
	command := exec.Command(w.tool.Path, args...) //nolint:noctx // the program that was found; ctx asks before it kills
	command.Dir = w.module()
	command.Env = environment(w.env)
	command.Stdout, command.Stderr = said, said
	command.ExtraFiles = []*os.File{w.hold.file} // the lock on the folder goes with it
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := w.hold.note(0); err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("terraform %s: %w", during, err)
	}
	noted := w.hold.note(command.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }() // ends with the process, which is waited for below

	lines := &reader{file: said, line: line}
	killed, err := w.watch(ctx, command.Process.Pid, ended, lines)
	lines.rest()
	switch {
	case err != nil && ctx.Err() != nil:
		return &StoppedError{During: during, Killed: killed, Cause: context.Cause(ctx)}
	case err != nil:
		return err
	}
	return errors.Join(noted, w.hold.note(0))
}

// watch reads on until the process has ended. When ctx ends it asks it to stop, and kills it when that takes too long.
func (w *Work) watch(ctx context.Context, pid int, ended <-chan error, lines *reader) (killed bool, err error) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	asked := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return killed, err
		case <-ticker.C:
			lines.more()
		case <-asked:
			asked = nil
			w.log.say("asking terraform to stop")
			_ = syscall.Kill(pid, syscall.SIGINT) // it may just have ended
			timer := time.NewTimer(w.grace)
			defer timer.Stop()
			late = timer.C
		case <-late:
			w.log.say(fmt.Sprintf("killing terraform, which did not stop within %s", w.grace))
			_ = syscall.Kill(-pid, syscall.SIGKILL) // with its providers
			killed = true
		}
	}
}

// unnamed is a file to write and read that goes with the last process that has it.
func unnamed(dir string) (*os.File, error) {
	name := filepath.Join(dir, "said")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(name); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// reader cuts a growing file into lines.
type reader struct {
	file *os.File
	line func([]byte)
	at   int64
	kept []byte
}

// more reads what has come, and keeps a line that has no end yet.
func (r *reader) more() {
	buffer := make([]byte, 64<<10)
	for {
		n, _ := r.file.ReadAt(buffer, r.at) // its end is no error to us, and another one shows in what is missing
		if n == 0 {
			return
		}
		r.at += int64(n)
		r.kept = append(r.kept, buffer[:n]...)
		for {
			line, after, ok := bytes.Cut(r.kept, []byte("\n"))
			if !ok && len(r.kept) < longest {
				break
			}
			r.line(line)
			r.kept = after
		}
	}
}

// rest reads to the end.
func (r *reader) rest() {
	r.more()
	if len(r.kept) > 0 {
		r.line(r.kept)
		r.kept = nil
	}
}
