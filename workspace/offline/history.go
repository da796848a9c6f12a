package offline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/history"
)

// Commit is a commit as people recognize it. Its texts may hold control characters.
type Commit struct {
	ID      string    `json:"id"`
	Subject string    `json:"subject"`
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	// Oldest says that the clone's history ends there, so that an older commit may be meant.
	Oldest bool `json:"oldest,omitempty"`
}

// LastChange is the newest commit at or before HEAD that changed one of the paths, which are relative to repo's root; nil when
// no commit has any of them. Of a merge, the side is followed that has what the merge has.
func LastChange(ctx context.Context, repo *workspace.Repo, paths []string) (*Commit, error) {
	g, at, err := head(repo)
	if err != nil || at == nil {
		return nil, err
	}
	state, err := stateOf(at, paths)
	if err != nil || strings.Trim(state, "-") == "" {
		return nil, err
	}
	at, cut, err := follow(ctx, g, at, paths, state)
	if err != nil {
		return nil, err
	}
	return told(at, cut), nil
}

// Deletion is the newest commit at or before HEAD that took a file away, which lies at a path relative to repo's root; nil when
// the file is there, or never was, or the clone's history does not reach back to it.
func Deletion(ctx context.Context, repo *workspace.Repo, path string) (*Commit, error) {
	g, at, err := head(repo)
	if err != nil || at == nil {
		return nil, err
	}
	state, err := stateOf(at, []string{path})
	if err != nil || state != none {
		return nil, err
	}
	at, cut, err := follow(ctx, g, at, []string{path}, state)
	if err != nil || cut || at.NumParents() == 0 {
		return nil, err
	}
	return told(at, false), nil
}

// Reverts is the commit that another one takes back, as its message says; empty where it takes back none, or is not in this clone.
func Reverts(repo *workspace.Repo, commit string) string {
	g, at, err := head(repo)
	if err != nil || at == nil {
		return ""
	}
	c, err := g.CommitObject(plumbing.NewHash(commit))
	if err != nil {
		return ""
	}
	return history.Reverts(c.Message)
}

// Makes says whether a commit brings a file, at a path relative to repo's root, that none of its parents has.
func Makes(repo *workspace.Repo, commit, file string) bool {
	g, at, err := head(repo)
	if err != nil || at == nil {
		return false
	}
	c, err := g.CommitObject(plumbing.NewHash(commit))
	if err != nil {
		return false
	}
	for _, hash := range c.ParentHashes {
		parent, err := g.CommitObject(hash)
		if err != nil { // it is not in this clone
			return false
		}
		if _, err := parent.File(file); err == nil {
			return false
		}
	}
	return true
}

// Fresh says whether a service of a state is as the commit made it that brought its file: there is nothing before that to go back to.
// It is false where that cannot be known.
func Fresh(ctx context.Context, repo *workspace.Repo, state *State, service string) bool {
	s, ok := state.Fleet.Service(service)
	if !ok {
		return false
	}
	c, err := LastChange(ctx, repo, history.Reads(state.Fleet, s, state))
	return err == nil && c != nil && !c.Oldest && Makes(repo, c.ID, s.Position.File)
}

// head is the newest commit, nil where there is none.
func head(repo *workspace.Repo) (*git.Repository, *object.Commit, error) {
	g, err := git.PlainOpenWithOptions(repo.Root(), &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	ref, err := g.Head()
	if errors.Is(err, plumbing.ErrReferenceNotFound) {
		return g, nil, nil // there is no commit yet
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	at, err := g.CommitObject(ref.Hash())
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	return g, at, nil
}

// follow goes back to the commit that made the paths what they are. Cut says that a parent of it is not in this clone.
func follow(ctx context.Context, g *git.Repository, at *object.Commit, paths []string, state string) (*object.Commit, bool, error) {
	for {
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		before, cut, err := sameParent(g, at, paths, state)
		if err != nil || before == nil {
			return at, cut, err
		}
		at = before
	}
}

func told(c *object.Commit, oldest bool) *Commit {
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	return &Commit{ID: c.Hash.String(), Subject: subject, Author: c.Author.Name, Time: c.Committer.When.UTC(), Oldest: oldest}
}

// sameParent is a parent that has the same at the paths, nil when none has. Cut says that a parent is not in this clone.
func sameParent(g *git.Repository, c *object.Commit, paths []string, state string) (same *object.Commit, cut bool, err error) {
	for _, hash := range c.ParentHashes {
		parent, err := g.CommitObject(hash)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			cut = true
			continue
		}
		if err != nil {
			return nil, false, fmt.Errorf("read history: %w", err)
		}
		before, err := stateOf(parent, paths)
		if err != nil {
			return nil, false, err
		}
		if before == state {
			return parent, false, nil
		}
	}
	return nil, cut, nil
}

// none is what a commit has at a path where there is nothing.
const none = "-"

// stateOf names what a commit has at the paths.
func stateOf(c *object.Commit, paths []string) (string, error) {
	tree, err := c.Tree()
	if err != nil {
		return "", fmt.Errorf("read history: commit %s: %w", c.Hash, err)
	}
	ids := make([]string, len(paths))
	for i, path := range paths {
		if path == "." || path == "" {
			ids[i] = tree.Hash.String()
			continue
		}
		entry, err := tree.FindEntry(path)
		switch {
		case err == nil:
			ids[i] = entry.Hash.String()
		case errors.Is(err, object.ErrEntryNotFound), errors.Is(err, object.ErrDirectoryNotFound):
			ids[i] = none
		default:
			return "", fmt.Errorf("read history: commit %s: %q: %w", c.Hash, path, err)
		}
	}
	return strings.Join(ids, "-"), nil
}
