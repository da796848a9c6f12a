package sharing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/trust"
	"github.com/pluralsh/plural/workspace"
)

// journal is a plan under way, as it lies in git's folder. It holds nothing that the commit will not.
type journal struct {
	Message    string            `json:"message"`
	Repository string            `json:"repository"`
	Before     groups.Statement  `json:"before"`
	After      groups.Statement  `json:"after"`
	Changes    map[string][]byte `json:"changes"`
}

// ErrUnderWay means that an earlier change did not come to its end: Resume it first.
var ErrUnderWay = errors.New("an earlier change of who can open what has not come to its end")

// Apply makes the plan one commit, with message or else the plan's own, and returns its id; empty when there was nothing
// to do. Whoever calls it has shown the plan's Differences, and confirms them by calling. When it fails, nothing has
// changed; when it is killed, Resume takes up where it ended.
func (p *Plan) Apply(ctx context.Context, message string) (string, error) {
	j := &journal{cmp.Or(message, p.Message), p.repository, p.Before, p.After, p.Changes}
	name, err := journalPath(p.repo)
	if err != nil {
		return "", err
	}
	if err := j.save(name); errors.Is(err, fs.ErrExist) {
		return "", ErrUnderWay
	} else if err != nil {
		return "", err
	}
	commit, err := j.carryOut(ctx, p.repo, p.confirmed)
	if err != nil {
		return "", errors.Join(err, p.confirmed.Confirm(j.Repository, j.Before), os.Remove(name))
	}
	return commit, os.Remove(name)
}

// carryOut may be done any number of times: a second run finds done what the first one did.
func (j *journal) carryOut(ctx context.Context, repo *workspace.Repo, confirmed trust.Store) (string, error) {
	if err := confirmed.Confirm(j.Repository, j.After); err != nil {
		return "", err
	}
	return repo.Commit(ctx, j.Message, j.Changes)
}

// Resume carries out what an earlier Apply was killed at, and says whether there was something. The repo must have its
// keys.
func Resume(ctx context.Context, repo *workspace.Repo, confirmed trust.Store) (bool, error) {
	name, err := journalPath(repo)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read journal: %w", err)
	}
	var j journal
	if err := json.Unmarshal(text, &j); err != nil {
		return false, fmt.Errorf("read journal %s: %w", name, err)
	}
	if _, err := j.carryOut(ctx, repo, confirmed); err != nil {
		return false, fmt.Errorf("resume %q: %w", j.Message, err)
	}
	return true, os.Remove(name)
}

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

// save writes the journal to disk for good before anything follows it. One that is there already is fs.ErrExist.
func (j *journal) save(name string) (err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(name), "journal-*")
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return os.Link(file.Name(), name)
}
