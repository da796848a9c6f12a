package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errWall is why a context ended that a render outlived.
var errWall = errors.New("render took too long")

// progressRoom is what a child may say beside its result.
const progressRoom = 8 << 20

// converse starts a child, asks it, and returns its last answer. The child is gone when it returns.
func converse(ctx context.Context, command []string, limits Limits, r request, in Input) (*answer, error) {
	if len(command) == 0 {
		return nil, errors.New("start child: no command")
	}
	timed, cancel := context.WithTimeoutCause(ctx, limits.Wall, errWall)
	defer cancel()
	child := bounded(timed, command)
	stdin, err := child.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to child: %w", err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe from child: %w", err)
	}
	words := &head{max: maxStderr}
	child.Stderr = words
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start child: %w", err)
	}

	sent := make(chan error, 1)
	go func() {
		err := send(stdin, limits, r, in)
		if err != nil {
			cancel()
		}
		sent <- err
	}()
	mouth := &io.LimitedReader{R: stdout, N: limits.Output + progressRoom}
	last, at, heard := receive(mouth)
	dying := heard != nil && ended(heard, mouth)
	if !dying {
		cancel() // it has answered, or will never
	}
	_ = stdin.Close()
	unsent := <-sent
	exit := child.Wait()

	switch {
	case last != nil:
		return last, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unsent != nil && !broken(unsent):
		return nil, unsent
	case mouth.N <= 0:
		return nil, place{file: at}.limit("renders to more than %d MiB", limits.Output>>20)
	case !dying:
		return nil, &Error{Reason: Crash, File: at, Message: fmt.Sprintf("the render process talks nonsense: %v", heard)}
	}
	slow := errors.Is(context.Cause(timed), errWall)
	return nil, verdict(limits, place{file: at}, slow, exit, words.String())
}

// bounded is a child without environment, in a process group of its own so that a kill reaches all of it.
func bounded(ctx context.Context, command []string) *exec.Cmd {
	child := exec.CommandContext(ctx, command[0], command[1:]...)
	child.Env = []string{}
	child.Dir = "/"
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Cancel = func() error {
		err := syscall.Kill(-child.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	child.WaitDelay = 2 * time.Second
	return child
}

// broken tells a pipe that ended because the child did from a file that could not be read.
func broken(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, fs.ErrClosed)
}

// ended tells a child that stopped talking from one that talks nonsense, or too much.
func ended(heard error, mouth *io.LimitedReader) bool {
	return mouth.N > 0 && (errors.Is(heard, io.EOF) || errors.Is(heard, io.ErrUnexpectedEOF))
}

// verdict names why a child died without an answer. The Go runtime tells its fatal errors to stderr alone.
func verdict(limits Limits, at place, slow bool, exit error, words string) *Error {
	switch {
	case slow:
		return at.limit("rendering takes longer than %v", limits.Wall)
	case containsAny(words, "stack overflow", "stack exceeds"):
		return at.limit("rendering recurses without end")
	case containsAny(words, "out of memory", "cannot allocate memory", "address space", "pthread_create failed"):
		return at.tooMuchMemory(limits)
	case signalled(exit, syscall.SIGKILL):
		return at.limit("rendering was killed by the system: it takes too much memory or processor time")
	}
	return &Error{Reason: Crash, File: at.file, Message: fmt.Sprintf("the render process died: %v", exit)}
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

func signalled(exit error, signal syscall.Signal) bool {
	var died *exec.ExitError
	if !errors.As(exit, &died) {
		return false
	}
	status, ok := died.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == signal
}

// head keeps the first max bytes written to it.
type head struct {
	bytes.Buffer
	max int
}

func (h *head) Write(p []byte) (int, error) {
	if room := h.max - h.Len(); room > 0 {
		_, _ = h.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
