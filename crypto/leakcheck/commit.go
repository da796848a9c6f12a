package leakcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

// PreCommit judges the index that is about to be committed, which for "git commit -a" and "git commit PATH" is not the
// clone's own, and seals anew in it what was renamed, or was sealed for groups or keys that no longer count. The vault is
// to be opened on what the same index holds: gitcmd's FS(ctx, "").
//
// Plaintext is refused always. Other findings are refused when this commit brings them, and reported when the last
// commit had them already. The error is a *trust.UnconfirmedError when somebody would be sealed for whom the person has not
// confirmed.
func PreCommit(ctx context.Context, repo *gitcmd.Repo, v *sealer.Vault) (*Report, error) {
	blobs, err := repo.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blobs.Close() }() // all answers have been read
	root, err := os.OpenRoot(repo.Top)
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	defer func() { _ = root.Close() }()
	c := &preCommit{
		repo: repo, vault: v, blobs: blobs, root: root,
		rules: Rules{Policy: v.Policy(), Groups: v.Groups()},
	}
	if c.index, err = repo.Index(ctx); err != nil {
		return nil, err
	}
	spots, err := c.rules.scan(blobs, c.index)
	if err != nil || len(spots) == 0 {
		return &Report{}, err
	}
	if c.head, err = filesOf(ctx, repo, "HEAD"); err != nil {
		return nil, err
	}
	for _, rev := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"} {
		files, err := filesOf(ctx, repo, rev)
		if err != nil {
			return nil, err
		}
		c.arriving = append(c.arriving, files)
	}
	return c.run(ctx, spots)
}

// preCommit is one run of the hook.
type preCommit struct {
	repo  *gitcmd.Repo
	vault *sealer.Vault
	rules Rules
	blobs *gitcmd.Blobs
	root  *os.Root
	index []gitcmd.Entry
	head  map[string]string // path to object name
	// arriving are the same of the commits that a merge, a cherry-pick or a rebase is bringing.
	arriving []map[string]string
}

// filesOf is what a commit holds, nothing when there is no such commit.
func filesOf(ctx context.Context, repo *gitcmd.Repo, rev string) (map[string]string, error) {
	entries, err := repo.Tree(ctx, rev)
	if err != nil && !errors.Is(err, gitcmd.ErrNoRevision) {
		return nil, err
	}
	files := make(map[string]string, len(entries))
	for _, e := range entries {
		files[e.Path] = e.Oid
	}
	return files, nil
}

func (c *preCommit) run(ctx context.Context, spots []spot) (*Report, error) {
	report := &Report{}
	var mended []replacement
	rewritten := c.keysChange()
	for _, s := range spots {
		r, err := c.mend(s)
		if err != nil {
			return nil, err
		}
		f := s.finding("index", indexFix)
		switch {
		case r != nil:
			mended = append(mended, *r)
			report.Mended = append(report.Mended, f)
		case s.kind == Plaintext || rewritten || c.head[s.Path] != s.Oid:
			report.Refused = append(report.Refused, f)
		default:
			report.Warned = append(report.Warned, f)
		}
	}
	for _, list := range [][]Finding{report.Mended, report.Refused, report.Warned} {
		slices.SortFunc(list, compareFindings)
	}
	if err := stage(ctx, c.repo, mended); err != nil {
		return nil, err
	}
	for _, r := range mended {
		if err := r.follow(c.root); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// keysChange says whether this commit changes who can read what.
func (c *preCommit) keysChange() bool {
	for _, e := range c.index {
		if decidesReaders(e.Path) && c.head[e.Path] != e.Oid {
			return true
		}
	}
	return false
}

// decidesReaders says whether the file at path has a say in how others are to be sealed.
func decidesReaders(path string) bool {
	return path == policy.File || strings.HasPrefix(path, ".plural/groups/") && strings.HasSuffix(path, "/recipient.txt")
}

// mend is the file sealed as it should be, nil when that is not for the hook to do.
func (c *preCommit) mend(s spot) (*replacement, error) {
	if s.Stage != 0 || !slices.Contains([]Kind{Moved, Retired, WrongGroups}, s.kind) || c.newer(s.bound) {
		return nil, nil
	}
	content, err := read(c.blobs, s.Entry)
	if err != nil {
		return nil, err
	}
	plaintext, _, err := c.vault.Read(s.Path, content)
	if err != nil {
		return nil, passable(err)
	}
	defer clear(plaintext)
	if s.kind == Moved && !c.movedHere(s, plaintext) {
		return nil, nil
	}
	sealed, err := c.seal(s.Path, plaintext)
	if err != nil {
		return nil, err
	}
	if v, err := c.rules.judge(s.Path, s.groups, sealed); err != nil || v != nil {
		return nil, err
	}
	return &replacement{s.Entry, content, sealed}, nil
}

// newer says whether a file was sealed for keys that come after those of this commit, which may be known to more people.
func (c *preCommit) newer(bound *seal.Binding) bool {
	return slices.ContainsFunc(bound.Groups, func(e seal.Epoch) bool {
		group, ok := c.rules.Groups.Group(e.Group)
		return ok && e.Number > group.Epoch
	})
}

// passable is nil for a file that nobody here can open: the finding about it stands.
func passable(err error) error {
	var locked *sealer.LockedError
	if errors.As(err, &locked) || errors.Is(err, seal.ErrDamaged) || errors.Is(err, seal.ErrNoMatch) {
		return nil
	}
	return err
}

// movedHere says whether the person renamed the file, rather than that somebody put one secret in another's place. What
// comes with another commit is sealed anew only for those who can read it already.
func (c *preCommit) movedHere(s spot, plaintext []byte) bool {
	holds := func(files map[string]string) bool { return files[s.Path] == s.Oid }
	if (holds(c.head) || slices.ContainsFunc(c.arriving, holds)) && !sameGroups(s.bound.Groups, s.groups) {
		return false
	}
	inIndex := slices.ContainsFunc(c.index, func(e gitcmd.Entry) bool { return e.Path == s.bound.Path })
	if !inIndex {
		return true
	}
	if _, err := c.root.Lstat(s.bound.Path); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	// Both are there: swapped or copied. No checkout leaves the one's plaintext at the other's place.
	info, err := c.root.Lstat(s.Path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(plaintext)) {
		return false
	}
	here, err := c.root.ReadFile(s.Path)
	defer clear(here)
	return err == nil && bytes.Equal(here, plaintext)
}

// seal takes what the last commit holds when that says the same: then there is nothing to commit.
func (c *preCommit) seal(path string, plaintext []byte) ([]byte, error) {
	var stored []byte
	if oid := c.head[path]; oid != "" {
		var err error
		if stored, err = read(c.blobs, gitcmd.Entry{Path: path, Oid: oid}); err != nil {
			return nil, err
		}
	}
	sealed, moved, err := c.vault.Keep(path, plaintext, stored)
	if err == nil && moved != nil {
		return c.vault.Seal(path, plaintext)
	}
	return sealed, err
}
