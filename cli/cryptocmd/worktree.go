package cryptocmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/crypto/sealer"
)

// clone is the work tree that a command works in, with what the person can open of it.
type clone struct {
	f     *cmdutil.Factory
	git   *gitcmd.Repo
	vault *sealer.Vault
}

// openClone finds the git work tree around the working directory: an installation repo's, a linked one, a submodule's.
func openClone(ctx context.Context, f *cmdutil.Factory) (*clone, error) {
	repo, err := gitcmd.Find(ctx, f.WorkDir())
	if err != nil {
		return nil, err
	}
	if repo.Bare {
		return nil, &ui.Err{Msg: fmt.Sprintf("%q is a bare repository", repo.GitDir), Cause: "it has no files to open", Fix: "run this in a clone"}
	}
	v, err := vaultOf(ctx, f, repo)
	if err != nil {
		return nil, err
	}
	return &clone{f, repo, v}, nil
}

// vaultOf opens the sealed side of a work tree. While git checks out another state, .plural may be missing on disk, and
// the envelopes that a file needs may lie in the state before or after: the index and HEAD are asked, too.
func vaultOf(ctx context.Context, f *cmdutil.Factory, repo *gitcmd.Repo) (*sealer.Vault, error) {
	config := sealer.Config{
		Files: os.DirFS(repo.Top), Identities: f.Identities().Load, Confirmed: f.Confirmed(),
		Elsewhere: func() []fs.FS { return states(ctx, repo) },
	}
	v, err := sealer.Open(config)
	if !errors.Is(err, policy.ErrNone) {
		return v, err
	}
	for _, files := range states(ctx, repo) {
		config.Files = files
		if v, err := sealer.Open(config); err == nil {
			return v, nil
		}
	}
	return nil, err
}

// states are the index and HEAD, as far as there are such.
func states(ctx context.Context, repo *gitcmd.Repo) []fs.FS {
	var all []fs.FS
	for _, rev := range []string{"", "HEAD"} {
		if files, err := repo.FS(ctx, rev); err == nil {
			all = append(all, files)
		}
	}
	return all
}

// sealedFile is a file of the index that must be sealed, with what lies in the work tree.
type sealedFile struct {
	path string
	// stored is what git keeps, disk what the work tree holds, nil when it holds nothing.
	stored, disk []byte
}

// files are the clone's files that must be sealed, sorted by path. Conflicts are refused: which of the sides should be
// written nobody knows.
func (c *clone) files(ctx context.Context) ([]sealedFile, error) {
	entries, err := c.git.Index(ctx)
	if err != nil {
		return nil, err
	}
	blobs, err := c.git.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blobs.Close() }() // all answers have been read
	root, err := os.OpenRoot(c.git.Top)
	if err != nil {
		return nil, fmt.Errorf("open work tree: %w", err)
	}
	defer root.Close()
	var all []sealedFile
	for _, entry := range entries {
		if must, err := c.vault.Must(entry.Path); err != nil || !must || !entry.IsFile() {
			if err != nil {
				return nil, err
			}
			continue
		}
		if entry.Stage != 0 {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("%q is in conflict", entry.Path), Fix: "resolve it, and git add it; or: git merge --abort", Doc: ui.DocMergeConflict,
			}
		}
		file := sealedFile{path: entry.Path}
		if file.stored, _, _, err = blobs.Get(entry.Oid); err != nil {
			return nil, fmt.Errorf("read %q: %w", entry.Path, err)
		}
		if file.disk, err = readDisk(root, entry.Path); err != nil {
			return nil, err
		}
		all = append(all, file)
	}
	slices.SortFunc(all, func(a, b sealedFile) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// readDisk is the file in the work tree, nil when there is none.
func readDisk(root *os.Root, path string) ([]byte, error) {
	info, err := root.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil && info.Size() > seal.MaxFile {
		err = fmt.Errorf("it is larger than %d bytes", seal.MaxFile)
	}
	var content []byte
	if err == nil {
		content, err = root.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	if content == nil {
		content = []byte{}
	}
	return content, nil
}

// write puts new content in the place of files, each as a whole.
func (c *clone) write(content map[string][]byte) error {
	root, err := os.OpenRoot(c.git.Top)
	if err != nil {
		return fmt.Errorf("open work tree: %w", err)
	}
	defer root.Close()
	for path, text := range content {
		if err := put(root, path, text); err != nil {
			return err
		}
	}
	return nil
}
