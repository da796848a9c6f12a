package gitcmd

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pluralsh/plural/internal/overlay"
)

const (
	// folder is what FS shows.
	folder = ".plural"
	// maxFolder bounds it, in bytes.
	maxFolder = 256 << 20
)

// FS is what a commit, a tree, or the index ("") holds below .plural, read at once. Of a conflict our side is shown; links
// and submodules are not. The error is ErrNoRevision when there is no such commit.
func (r *Repo) FS(ctx context.Context, rev string) (fs.FS, error) {
	entries, err := r.entries(ctx, rev)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(entries))
	if len(entries) == 0 {
		return overlay.New(embed.FS{}, files), nil
	}
	blobs, err := r.Blobs(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = blobs.Close() }() // all answers have been read
	total := 0
	for _, e := range entries {
		const ours = 2
		if !e.IsFile() || e.Stage != 0 && e.Stage != ours {
			continue
		}
		content, _, ok, err := blobs.Get(e.Oid)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", e.Path, err)
		}
		if total += len(content); total > maxFolder {
			return nil, fmt.Errorf("%s is larger than %d MiB", folder, maxFolder>>20)
		}
		if !ok {
			return nil, fmt.Errorf("read %q: git does not have its content", e.Path)
		}
		files[e.Path] = content
	}
	return overlay.New(embed.FS{}, files), nil
}

func (r *Repo) entries(ctx context.Context, rev string) ([]Entry, error) {
	if rev == "" {
		return r.index(ctx, folder)
	}
	return r.tree(ctx, rev, folder)
}
