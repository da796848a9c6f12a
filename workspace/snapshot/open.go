package snapshot

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
)

// Open takes a snapshot of a revision (HEAD, a branch, a tag, a commit's hash) of a local repository. The folder is a
// work tree or a bare repository. The repository is only read.
func Open(dir, revision string) (*Snapshot, error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", dir, err)
	}
	id, err := repo.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return nil, fmt.Errorf("open repository %q: find revision %q: %w", dir, revision, err)
	}
	return (&objects{store: repo.Storer}).snapshot(*id)
}

func sortByName(list []fs.DirEntry) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}
