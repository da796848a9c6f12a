package guard

import (
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

// Tree judges the files of a commit that lies open as a file system, as the hub sees it: without any identity. All names
// are walked, only files that must be sealed are read, and of plaintext no more than its first bytes.
func Tree(fsys fs.FS, p *policy.Policy, g *groups.Set) ([]Finding, error) {
	return Rules{Policy: p, Groups: g}.Tree(fsys)
}

// Tree is the function Tree with these rules.
func (r Rules) Tree(fsys fs.FS) ([]Finding, error) {
	var all []Finding
	err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("walk tree: %w", err)
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		f, err := r.file(fsys, path)
		if f != nil {
			f.Fix = treeFix(*f)
			all = append(all, *f)
		}
		return err
	})
	slices.SortFunc(all, compareFindings)
	return all, err
}

// file judges one file of a tree.
func (r Rules) file(fsys fs.FS, path string) (*Finding, error) {
	names, must, err := r.must(path)
	if err != nil || !must {
		return nil, err
	}
	content, err := readSealed(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	v, err := r.judge(path, names, content)
	if err != nil || v == nil {
		return nil, err
	}
	return &Finding{Path: path, Kind: v.kind, Message: v.message}, nil
}

// readSealed reads the whole of a sealed file, and the beginning of any other.
func readSealed(fsys fs.FS, path string) ([]byte, error) {
	const head = 2 << 10 // what it takes to tell
	file, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	begin, err := io.ReadAll(io.LimitReader(file, head))
	if err != nil || !seal.IsSealed(begin) {
		return begin, err
	}
	rest, err := io.ReadAll(io.LimitReader(file, seal.MaxFile+1-head))
	return append(begin, rest...), err
}
