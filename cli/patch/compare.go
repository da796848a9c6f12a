package patch

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/pluralsh/plural/workspace/snapshot"
	"github.com/pluralsh/plural/workspace/treediff"
)

// differing lists the files that differ. before may be nil.
func differing(ctx context.Context, before, after *snapshot.Snapshot) ([]treediff.Change, error) {
	from, err := tree(before)
	if err != nil {
		return nil, err
	}
	to, err := tree(after)
	if err != nil {
		return nil, err
	}
	return treediff.List(ctx, from, to, nil)
}

// tree is a snapshot as it is compared; one that is nil holds nothing.
func tree(snap *snapshot.Snapshot) (treediff.Tree, error) {
	if snap == nil {
		return treediff.Tree{}, nil
	}
	root, _, err := snap.Hash(".")
	if err != nil {
		return treediff.Tree{}, err
	}
	return treediff.Tree{Root: plumbing.NewHash(string(root)), Read: func(id plumbing.Hash) ([]object.TreeEntry, error) {
		list, err := snap.Tree(snapshot.Hash(id.String()))
		if err != nil {
			return nil, fmt.Errorf("read tree %s: %w", id, err)
		}
		entries := make([]object.TreeEntry, len(list))
		for i, e := range list {
			entries[i] = object.TreeEntry{Name: e.Name, Mode: gitMode(e.Mode), Hash: plumbing.NewHash(string(e.Hash))}
		}
		return entries, nil
	}}, nil
}

func gitMode(mode fs.FileMode) filemode.FileMode {
	if mode.Type() == fs.ModeIrregular {
		return filemode.Submodule
	}
	git, _ := filemode.NewFromOSFileMode(mode) // a snapshot has no mode that git has not
	return git
}
