package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// maxLastWords is what is kept of a child's stderr, in bytes: the Go runtime tells its fatal errors to it alone.
const maxLastWords = 16 << 10

// Child is a process that is not trusted, seen from its parent.
type Child struct {
	*exec.Cmd
	words head
}

// Command is a child that has not started: without environment, at the root folder, in a process group of its own so that
// the kill when ctx ends reaches all of it. Its stderr is kept for Autopsy, up to 16 KiB. The caller pipes and starts it as
// any exec.Cmd, and must Wait for it.
func Command(ctx context.Context, command []string) (*Child, error) {
	if len(command) == 0 {
		return nil, errors.New("no command")
	}
	c := &Child{Cmd: exec.CommandContext(ctx, command[0], command[1:]...), words: head{max: maxLastWords}}
	c.Env = []string{}
	c.Dir = "/"
	c.Stderr = &c.words
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error {
		err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		if errors.Is(err, syscall.ESRCH) {
			return os.ErrProcessDone
		}
		return err
	}
	c.WaitDelay = 2 * time.Second
	return c, nil
}

// Death is why a child ended without having answered.
type Death string

const (
	// Recursion means that a stack grew without end.
	Recursion Death = "recursion"
	// Memory means that it wanted more than its limit.
	Memory Death = "memory"
	// Killed means that the system killed it, for memory or processor time.
	Killed Death = "killed"
	// Unknown is any other end.
	Unknown Death = "unknown"
)

// Autopsy names why a child died whose Wait returned exit.
func (c *Child) Autopsy(exit error) Death {
	words := c.words.String()
	switch {
	case containsAny(words, "stack overflow", "stack exceeds"):
		return Recursion
	case containsAny(words, "out of memory", "cannot allocate memory", "failed to allocate", "failed to reserve", "address space",
		"pthread_create failed", "failed to create new OS thread", // whose stack found no room
		"runtime.(*spanQueue)."): // where the garbage collector steps on the list that found none
		return Memory
	case signalled(exit, syscall.SIGKILL):
		return Killed
	}
	return Unknown
}

// LastWords is the beginning of what the child wrote to stderr. It is complete after Wait.
func (c *Child) LastWords() string { return c.words.String() }

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
