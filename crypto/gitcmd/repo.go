// Package gitcmd owns queries of the git program.
//
// It refuses to know what the answers are for: keys, policies and hooks are other rooms'. It never decides by git's
// words, only by exit codes and by formats made for programs, and a path never reaches git or comes back from it with
// anything but NUL around it.
//
// Find asks git once where a work tree has its parts. Each question is then one run of git in the root of that work tree.
// Inside a hook or a filter the environment of this process names the index and the object store that count, and git is told
// them. Blobs is the exception, a process that lives and answers many times.
package gitcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pluralsh/plural/internal/gitexec"
)

// ErrNoRepository means that there is no git repository around a folder. A bare one counts only where GIT_DIR names it: files of
// a clone can look like one.
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
	env  []string // what git has in its environment besides
	most int      // bytes of one answer
}

// Find looks for the repository around dir. What more is given git has in its environment besides. The error is ErrNoRepository
// when git finds none.
func Find(ctx context.Context, dir string, more ...string) (*Repo, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find git repository: %w", err)
	}
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("find git repository: %w", err)
	}
	r := &Repo{dir: dir, env: append(env, more...), most: gitexec.MaxAnswer}
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
	if r.Bare {
		r.env = append(r.env, "GIT_DIR="+r.GitDir)
	}
	return r, nil
}

// notFound tells the absence of a repository from everything else that keeps git from answering, which only git's words do.
func (r *Repo) notFound(err error) error {
	var failed *gitexec.Error
	switch {
	case !errors.As(err, &failed):
	case strings.Contains(failed.Stderr, "not a git repository"):
		return fmt.Errorf("%q: %w", r.dir, ErrNoRepository)
	case strings.Contains(failed.Stderr, "safe.bareRepository"):
		return fmt.Errorf("%q: %w: it looks like a bare one, which files of a clone can too: set GIT_DIR to it if you mean it",
			r.dir, ErrNoRepository)
	}
	return fmt.Errorf("find git repository: %w", err)
}

// environment is what a hook or a filter was told by the git that runs it, with paths that stay right in any folder.
func environment() ([]string, error) {
	env := []string{"GIT_NO_REPLACE_OBJECTS=1"} // a replaced commit would hide what is pushed
	for _, name := range []string{"GIT_INDEX_FILE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_PREFIX"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"} {
		value := os.Getenv(name)
		if value == "" {
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

func (r *Repo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := gitexec.Command(ctx, r.dir, args...)
	cmd.Env = append(cmd.Env, r.env...)
	return cmd
}

// Call is one question to this repository, for who asks what this package does not.
func (r *Repo) Call(args ...string) gitexec.Call {
	return gitexec.Call{Dir: r.dir, Env: r.env[:len(r.env):len(r.env)], Args: args}
}

// run asks git one question. What git had answered before it failed is returned with the error, a *gitexec.Error.
func (r *Repo) run(ctx context.Context, input io.Reader, args ...string) ([]byte, error) {
	call := r.Call(args...)
	call.Input, call.Most = input, r.most
	return call.Run(ctx)
}

// exited says whether git answered with an exit code instead of an accident.
func exited(err error, code int) bool {
	var failed *gitexec.Error
	return errors.As(err, &failed) && failed.Code == code
}
