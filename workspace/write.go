package workspace

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/pluralsh/plural/crypto/seal"
)

// Write makes files what is given (path to content as people read it, nil for a file to be removed), in the work tree alone: nothing
// is committed. A file that must be sealed is written in the form that the work tree has of such files.
func (r *Repo) Write(files map[string][]byte) error {
	g, err := r.open()
	if err != nil {
		return err
	}
	f, err := r.form(g, files)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !fs.ValidPath(path) || path == "." {
			return fmt.Errorf("write %q: not a path inside the repo", path)
		}
		content, err := f.onDisk(root, path, files[path])
		if err != nil {
			return fmt.Errorf("write %q: %w", path, err)
		}
		if _, err := put(path, content).write(root); err != nil {
			return err
		}
	}
	return nil
}

// onDisk is a file as the work tree is to hold it: sealed where it lies sealed, or would in a locked clone.
func (f *sealCodec) onDisk(root *os.Root, path string, content []byte) ([]byte, error) {
	sealed, err := f.seals(path)
	if err != nil || !sealed || content == nil || seal.IsSealed(content) {
		return content, err
	}
	disk, _, err := readFile(root, path)
	if err != nil {
		return nil, err
	}
	if disk == nil && f.locked || disk != nil && seal.IsSealed(disk) {
		return f.vault.Seal(path, content)
	}
	return content, nil
}
