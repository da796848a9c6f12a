package rekey

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
)

// journal is a plan under way, as it lies in git's folder. It holds nothing that the commit will not.
type journal struct {
	Message    string            `json:"message"`
	Repository string            `json:"repository"`
	After      groups.Statement  `json:"after"`
	Changes    map[string][]byte `json:"changes"`
	// Resealed are the files that are sealed again.
	Resealed []string `json:"resealed,omitempty"`
	// Head is the commit that Changes were made for, empty on a branch without one.
	Head string `json:"head"`
}

// Errors about a journal that is there already.
var (
	// ErrUnderWay means that an earlier change did not come to its end: Resume it first.
	ErrUnderWay = errors.New("an earlier change of who can open what has not come to its end")
	// ErrBusy means that another run is at it.
	ErrBusy = errors.New("another run is changing who can open what: wait for it")
)

// Apply makes the plan one commit, with message or else the plan's own, and returns its id; empty when there was nothing
// to do. Whoever calls it has shown the plan's Differences, and confirms them by calling. When it fails, nobody else can
// open anything; when it is killed, Resume takes up where it ended. A branch that has moved since the plan was made is
// workspace.ErrMoved: what others have changed meanwhile, this would take back.
func (p *Plan) Apply(ctx context.Context, message string) (string, error) {
	j := &journal{
		Message: cmp.Or(message, p.Message), Repository: p.repository, After: p.After, Changes: p.Changes, Resealed: p.Resealed, Head: p.head,
	}
	name, err := journalPath(p.repo)
	if err != nil {
		return "", err
	}
	held, err := j.save(name)
	if errors.Is(err, fs.ErrExist) {
		return "", ErrUnderWay
	}
	if err != nil {
		return "", err
	}
	defer held.Close()
	commit, err := j.carryOut(ctx, p.repo, p.confirmed)
	return commit, errors.Join(err, os.Remove(name))
}

// carryOut may be done any number of times: a second run finds done what the first one did.
func (j *journal) carryOut(ctx context.Context, repo *workspace.Repo, confirmed trust.Store) (string, error) {
	commit, err := repo.CommitOn(ctx, j.Head, j.Message, j.Changes)
	if err != nil {
		return "", err
	}
	return commit, confirmed.Confirm(j.Repository, j.After)
}

// Resumed is a plan that was brought to its end.
type Resumed struct {
	// Message is the commit's, Resealed are the files that it sealed again.
	Message  string
	Resealed []string
}

// Resume carries out what an earlier Apply was killed at; nil when there is nothing. The repo must have its keys.
func Resume(ctx context.Context, repo *workspace.Repo, confirmed trust.Store) (*Resumed, error) {
	name, err := journalPath(repo)
	if err != nil {
		return nil, err
	}
	held, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer held.Close()
	if flock(held) != nil {
		return nil, ErrBusy
	}
	var j journal
	if err := json.NewDecoder(held).Decode(&j); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", name, err)
	}
	_, err = j.carryOut(ctx, repo, confirmed)
	if errors.Is(err, workspace.ErrMoved) {
		return nil, &StaleError{j.Message, name, err}
	}
	if err != nil {
		return nil, fmt.Errorf("resume %q: %w", j.Message, err)
	}
	return &Resumed{j.Message, j.Resealed}, os.Remove(name)
}

// StaleError means that a change that was stopped half-way can no longer come to its end.
type StaleError struct {
	// Message is the change's, Journal the file that holds it.
	Message, Journal string
	Err              error
}

// Error says what stands in the way.
func (e *StaleError) Error() string { return fmt.Sprintf("resume %q: %v", e.Message, e.Err) }

// Fix says how to give it up.
func (e *StaleError) Fix() string {
	return "restore the files of it that git status shows, if there are any; remove " + e.Journal + "; make the change again"
}

// Unwrap is workspace.ErrMoved.
func (e *StaleError) Unwrap() error { return e.Err }

// UnderWay says whether a journal is there, and what it is about.
func UnderWay(repo *workspace.Repo) (string, bool) {
	name, err := journalPath(repo)
	if err != nil {
		return "", false
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return "", false
	}
	var j journal
	if json.Unmarshal(text, &j) != nil {
		return name + " is damaged", true
	}
	return j.Message, true
}

func journalPath(repo *workspace.Repo) (string, error) {
	dir, err := repo.GitDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "plural", "journal.json"), nil
}

// save writes the journal to disk for good before anything follows it, and holds it: while the file that is returned is
// open, nobody resumes. One that is there already is fs.ErrExist.
func (j *journal) save(name string) (held *os.File, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(name), "journal-*")
	if err != nil {
		return nil, fmt.Errorf("write journal: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // it has its own name by then, or none
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), flock(file)); err == nil {
		err = os.Link(file.Name(), name)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write journal: %w", err)
	}
	return file, nil
}

// flock holds a file until it is closed, or the process ends in whatever way.
func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
