// Package workspace owns the installation repo on disk: its scaffold, its commits, its pushes.
//
// It refuses to know what the files mean: reading them is fleet's, what follows from them resolve's.
//
// A change passes through as a set of edits. Each edit is a function from old bytes to new ones, and is applied three
// times: to the file on disk, to the commit at HEAD, and to the index. So a commit holds what the edits did and nothing
// else: what people have changed or staged beside it stays as it was, and uncommitted. Commits are made from git objects,
// no hook and no filter runs; so what must be sealed is sealed here (form.go), and everything this program ever commits
// goes through Repo.commit, which writes no blob that ought to be sealed and is not.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5"
)

// Manifest is the file that makes a folder an installation repo.
const Manifest = "plural.yaml"

// ErrNotFound means that there is no installation repo where one was looked for.
var ErrNotFound = errors.New("no installation repo")

// Error is a refusal that a person can do something about.
type Error struct {
	// Message says what is wrong, Fix what to do: a command, or an instruction.
	Message, Fix string
	// Err is the class of the refusal, such as ErrConflict, or nil.
	Err error
}

// Error is the message with the fix behind it.
func (e *Error) Error() string { return e.Message + "; " + e.Fix }

// Unwrap is the class.
func (e *Error) Unwrap() error { return e.Err }

func refuse(fix, format string, args ...any) error {
	return &Error{Message: fmt.Sprintf(format, args...), Fix: fix}
}

// Repo is an installation repo. It holds nothing open.
type Repo struct {
	root string
	keys Keys
}

// Find looks for the installation repo that dir lies in: the nearest folder upward with a plural.yaml. Without one the
// error is ErrNotFound.
func Find(dir string) (*Repo, error) {
	start, err := resolve(dir)
	if err != nil {
		return nil, fmt.Errorf("find installation repo: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		info, err := os.Stat(filepath.Join(at, Manifest))
		if err == nil && info.Mode().IsRegular() {
			return &Repo{root: at}, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("find installation repo: %w", err)
		}
		if at == filepath.Dir(at) {
			return nil, fmt.Errorf("find %s in %q or above: %w", Manifest, start, ErrNotFound)
		}
	}
}

// Root is the repo's folder, absolute and without symbolic links.
func (r *Repo) Root() string { return r.root }

// resolve is dir, absolute and without symbolic links.
func resolve(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// open opens the git repository at the repo's folder.
func (r *Repo) open() (*git.Repository, error) {
	g, err := git.PlainOpenWithOptions(r.root, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, refuse("git init "+r.root, "%q is no git repository", r.root)
	}
	if err != nil {
		return nil, fmt.Errorf("open git repository %q: %w", r.root, err)
	}
	return lasting(g)
}
