// Package gitcmd owns questions put to the git program.
//
// It refuses to know what the answers are for: keys, policies and hooks are other rooms'. It never decides by git's
// words, only by exit codes and by formats made for programs, and a path never reaches git or comes back from it with
// anything but NUL around it.
//
// Find asks git once where a work tree has its parts. Each question is then one run of git in the root of that work tree,
// with the environment that this process was given: inside a hook or a filter it names the index and the object store
// that count. Blobs is the exception, a process that lives and answers many times.
package gitcmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoRepository means that there is no git repository around a folder.
var ErrNoRepository = errors.New("not in a git repository")

// Repo is a repository as one of its work trees sees it. Its paths are absolute.
type Repo struct {
	// Top is the root of the work tree; empty for a bare repository.
	Top string
	// GitDir is the work tree's own git folder, CommonDir that of the clone; they differ in linked work trees.
	GitDir, CommonDir string
	// IndexFile is the index that counts here, which may be a temporary one. It need not exist.
	IndexFile string
	// Bare says that the repository has no work tree.
	Bare bool

	dir  string   // where git runs
	env  []string // what git runs with
	most int      // bytes of one answer
}

// maxAnswer bounds what git may answer to one question, in bytes. Objects of a kilobyte can be a file under more paths than fit
// into any memory.
const maxAnswer = 256 << 20

// Find looks for the repository around dir. The error is ErrNoRepository when git finds none.
func Find(ctx context.Context, dir string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find git repository: %w", err)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("find git repository: %w", err)
	}
	r := &Repo{dir: dir, env: env, most: maxAnswer}
	// In a bare repository git answers everything and then fails at the last question.
	out, err := r.run(ctx, nil, "rev-parse", "--path-format=absolute", "--is-bare-repository", "--git-dir", "--git-common-dir",
		"--git-path", "index", "--show-toplevel")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	switch {
	case len(lines) == 4 && lines[0] == "true":
		r.Bare = true
	case err != nil && len(lines) < 4:
		return nil, r.notFound(err)
	case err != nil:
		return nil, fmt.Errorf("find work tree: %w", err)
	case len(lines) != 5:
		return nil, fmt.Errorf("find git repository: the path of %q contains a line break", dir)
	default:
		r.Top = filepath.FromSlash(lines[4])
	}
	r.GitDir, r.CommonDir, r.IndexFile = filepath.FromSlash(lines[1]), filepath.FromSlash(lines[2]), filepath.FromSlash(lines[3])
	r.dir = r.Top
	if r.Bare {
		r.dir = r.GitDir
	}
	r.env = append(r.env, "GIT_INDEX_FILE="+r.IndexFile)
	return r, nil
}

// notFound tells the absence of a repository from everything else that keeps git from answering, which only git's words do.
func (r *Repo) notFound(err error) error {
	var failed *Error
	if errors.As(err, &failed) && strings.Contains(failed.Stderr, "not a git repository") {
		return fmt.Errorf("%q: %w", r.dir, ErrNoRepository)
	}
	return fmt.Errorf("find git repository: %w", err)
}

// environment is this process's, with paths that stay right in any folder, and git's words in one language.
func environment() ([]string, error) {
	env := append(os.Environ(), "LC_ALL=C", "GIT_NO_REPLACE_OBJECTS=1") // a replaced commit would hide what is pushed
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"} {
		value := os.Getenv(name)
		if value == "" || filepath.IsAbs(value) {
			continue
		}
		value, err := filepath.Abs(value)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+value)
	}
	return env, nil
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

func (r *Repo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = r.dir, r.env
	return cmd
}

// run asks git one question. What git had answered before it failed is returned with the error, an *Error.
func (r *Repo) run(ctx context.Context, input io.Reader, args ...string) ([]byte, error) {
	cmd := r.command(ctx, args...)
	var stderr bytes.Buffer
	stdout := &answer{most: r.most}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, stdout, &stderr
	err := cmd.Run() // which git itself ends with, once nobody listens
	switch {
	case stdout.text.Len() > r.most:
		return nil, &Error{Command: args[0], Code: -1, Err: &TooLongError{Max: r.most}}
	case err != nil:
		return stdout.text.Bytes(), failure(ctx, args[0], stderr.String(), err)
	}
	return stdout.text.Bytes(), nil
}

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

func failure(ctx context.Context, command, stderr string, err error) error {
	const most = 1000
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	e := &Error{Command: command, Stderr: fmt.Sprintf("%.*s", most, strings.TrimSpace(stderr)), Code: -1, Err: err}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		e.Code = exit.ExitCode()
	}
	return e
}

// exited says whether git answered with an exit code instead of an accident.
func exited(err error, code int) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == code
}
