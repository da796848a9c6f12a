package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// Open takes a snapshot of a revision (HEAD, a branch, a tag, a commit's hash) of a local repository. The folder is a
// work tree or a bare repository. The repository is only read.
func Open(dir, revision string) (*Snapshot, error) {
	repo, err := openRepository(dir)
	if err != nil {
		return nil, err
	}
	id, err := Resolve(repo, revision)
	if err != nil {
		return nil, fmt.Errorf("open repository %q: find revision %q: %w", dir, revision, err)
	}
	return Of(repo.Storer, Hash(id.String()))
}

// AmbiguousError says that a short name is a tag's, and that of a branch too. Git takes the tag, which others may be allowed to
// push.
type AmbiguousError struct {
	Name   string
	Branch plumbing.ReferenceName
}

// Error names both.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q is both a tag and the branch %s", e.Name, e.Branch)
}

// Fix says how each of them is written.
func (e *AmbiguousError) Fix() string {
	return fmt.Sprintf("write %s, or refs/tags/%s", e.Branch, e.Name)
}

// Names are the references that the short name in a revision may stand for: a tag, which git takes first, then branches.
// There are none where nothing is named.
func Names(revision string) []plumbing.ReferenceName {
	name, _, _ := strings.Cut(revision, "@{")           // main@{1}; a single @ may be in a name
	if end := strings.IndexAny(name, "~^:"); end >= 0 { // main~2
		name = name[:end]
	}
	if name == "" {
		return nil
	}
	return []plumbing.ReferenceName{
		plumbing.NewTagReferenceName(name), plumbing.NewBranchReferenceName(name),
		plumbing.ReferenceName("refs/remotes/" + name), plumbing.NewRemoteHEADReferenceName(name),
	}
}

// Unambiguous is an *AmbiguousError when the short name in a revision is a tag's and a branch's, by what says whether a
// reference is there.
func Unambiguous(revision string, there func(plumbing.ReferenceName) bool) error {
	names := Names(revision)
	if len(names) == 0 || !there(names[0]) {
		return nil
	}
	if i := slices.IndexFunc(names[1:], there); i >= 0 {
		return &AmbiguousError{strings.TrimPrefix(names[0].String(), "refs/tags/"), names[1+i]}
	}
	return nil
}

// Resolve is the id of the commit that a revision names, as git has it. A name that is ambiguous is an *AmbiguousError.
func Resolve(repo *git.Repository, revision string) (plumbing.Hash, error) {
	err := Unambiguous(revision, func(name plumbing.ReferenceName) bool {
		_, err := repo.Storer.Reference(name)
		return err == nil
	})
	if err != nil {
		return plumbing.ZeroHash, err
	}
	id, err := repo.ResolveRevision(plumbing.Revision(revision))
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return *id, nil
}

// At takes a snapshot of a commit by its id, whatever branches and tags the repository has.
func At(dir string, commit Hash) (*Snapshot, error) {
	repo, err := openRepository(dir)
	if err != nil {
		return nil, err
	}
	return Of(repo.Storer, commit)
}

func openRepository(dir string) (*git.Repository, error) {
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) { // a folder in a work tree; asked for first, it would hide a bare repository
		repo, err = git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	}
	if err != nil {
		return nil, fmt.Errorf("open repository %q: %w", dir, err)
	}
	return repo, nil
}

// Of takes a snapshot of a commit that is among the objects. They are only read.
func Of(objects storer.EncodedObjectStorer, commit Hash) (*Snapshot, error) {
	return NewObjects(&localStore{git: objects}, nil).Snapshot(commit)
}

// localStore is a repository's own storage. go-git's must not be read concurrently, so one mutex guards it.
type localStore struct {
	mu  sync.Mutex
	git storer.EncodedObjectStorer // guarded by mu
}

// Has implements Store.
func (s *localStore) Has(id plumbing.Hash) bool {
	_, err := s.Size(id)
	return err == nil
}

// Size implements Store.
func (s *localStore) Size(id plumbing.Hash) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.git.EncodedObjectSize(id)
}

// Read implements Store.
func (s *localStore) Read(id plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, err := s.git.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	r, err := obj.Reader()
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	defer r.Close()
	data := make([]byte, obj.Size())
	_, err = io.ReadFull(r, data)
	return obj.Type(), data, err
}

func sortByName(list []fs.DirEntry) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}
