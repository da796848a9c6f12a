// Package gitexec owns the start of the git program, with settings that no repository can override.
//
// It refuses to know what git is asked, and reads none of its answers.
//
// Git runs programs that a repository's settings name, and a folder of an ordinary clone can pass for a repository: its files
// are whatever somebody committed. So every git of this program is started here, with settings that outrank those of any
// repository: a bare repository counts only where somebody names it, there is no file system monitor, no hook runs, and no
// address is a command. None of this program's commands means to run a person's hooks: commits are made without the git
// program. What a hook, a shell or a CI had in the environment for another git is left out; who works below git itself, as a
// hook or a filter, gives it back by name.
//
// The settings of a person's own clone still count for the rest, as for their own git: core.sshCommand, credential.helper and
// filters are commands, and a clone without its own is not the one that the person set up. A .git folder that came from
// somebody else is beyond what settings can mend.
package gitexec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/internal/plaintext"
)

const (
	// Patience is how long one question may take. The longest are those that a remote answers.
	Patience = 10 * time.Minute
	// grace is how long a git that was asked to end has for it.
	grace = 5 * time.Second
	// MaxAnswer bounds what git may answer to one question, in bytes. Objects of a kilobyte can be a file under more paths than fit
	// into any memory.
	MaxAnswer = 256 << 20
	// maxStderr bounds what is kept of what git complains about, in bytes.
	maxStderr = 1000
)

// Command is git with args, one of its commands and what that takes, in the folder dir, or the working directory where dir is
// empty. It is interrupted when ctx ends, so that it takes its lock files along, and killed when that does not help.
func Command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	settings := []string{
		"-c", "safe.bareRepository=explicit",
		"-c", "core.fsmonitor=false",
		"-c", "protocol.ext.allow=never",
	}
	if command(args) != "rev-parse" { // that runs no hook, and says where they are
		settings = append(settings, "-c", "core.hooksPath="+os.DevNull)
	}
	cmd := exec.CommandContext(ctx, "git", append(settings, args...)...)
	cmd.Dir, cmd.Env = dir, environment()
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	return cmd
}

// environment is this process's without what makes git answer about something else than the folder it runs in, or otherwise.
func environment() []string {
	others := []string{
		"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
		"GIT_QUARANTINE_PATH", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE",
		"GIT_CONFIG", "GIT_ATTR_SOURCE", "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS",
		"GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
	}
	env := slices.DeleteFunc(os.Environ(), func(each string) bool {
		name, _, _ := strings.Cut(each, "=")
		return slices.Contains(others, name)
	})
	return append(env, "LC_ALL=C")
}

// Call is one question to git.
type Call struct {
	// Dir is where git runs; empty means the working directory.
	Dir string
	// Args are one of git's commands and what that takes.
	Args []string
	// Env is what git has in its environment besides.
	Env []string
	// Input is what git reads; nil is nothing.
	Input io.Reader
	// Most bounds the answer, in bytes; zero means MaxAnswer.
	Most int
}

// Run asks, and gives what git printed, with an error too: an *Error.
func (c Call) Run(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Patience, fmt.Errorf("it took longer than %s", Patience))
	defer cancel()
	cmd := Command(ctx, c.Dir, c.Args...)
	cmd.Env = append(cmd.Env, c.Env...)
	stdout, stderr := &answer{most: cmp.Or(c.Most, MaxAnswer)}, &Complaint{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Input, stdout, stderr
	err := cmd.Run() // which git itself ends with, once nobody listens
	switch {
	case stdout.text.Len() > stdout.most:
		return nil, &Error{Command: command(c.Args), Code: -1, Err: &TooLongError{Max: stdout.most}}
	case err == nil:
		return stdout.text.Bytes(), nil
	}
	failed := &Error{Command: command(c.Args), Stderr: stderr.String(), Code: -1, Err: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		failed.Code = exit.ExitCode()
	}
	if ctx.Err() != nil {
		failed.Err = context.Cause(ctx)
	}
	return stdout.text.Bytes(), failed
}

// command is the first word that is no option.
func command(args []string) string {
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		if args = args[1:]; len(args) > 1 && !strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "=") {
			args = args[1:] // what -c sets
		}
	}
	return args[0]
}

// Error is a run of git that failed.
type Error struct {
	// Command is git's: "ls-tree".
	Command string
	// Stderr is what git said.
	Stderr string
	// Code is git's exit code, -1 when it was killed or not even started.
	Code int
	Err  error
}

// Error quotes git.
func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("git %s: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("git %s: %s", e.Command, e.Stderr)
}

func (e *Error) Unwrap() error { return e.Err }

// TooLongError means that git had more to say than is listened to: a repository with more files than fit into memory.
type TooLongError struct{ Max int }

// Error says how much would have been heard.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("the answer is longer than %d MiB: the repository has too many files, or one folder at too many places", e.Max>>20)
}

// Fix says what to do about it.
func (e *TooLongError) Fix() string {
	return "find the folder by git ls-tree, level by level, and take out what does not belong into the repository"
}

// answer is what git writes, up to a bound. git is not heard any more after that.
type answer struct {
	text bytes.Buffer // not embedded: it would be filled past Write
	most int
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) {
	n, err := a.text.Write(p)
	if err == nil && a.text.Len() > a.most {
		err = io.ErrShortWrite
	}
	return n, err
}

// Complaint keeps the first part of what a git complains about, for its Stderr.
type Complaint struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write takes everything, and keeps what there is room for.
func (c *Complaint) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := maxStderr - c.text.Len(); room > 0 {
		c.text.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// String is what was kept, without what is no text: git quotes damaged files as they are.
func (c *Complaint) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.TrimSpace(plaintext.Of(c.text.String()))
}
