package compose

import (
	"fmt"
	"io/fs"

	"github.com/pluralsh/plural/workspace/merge"
	"github.com/pluralsh/plural/workspace/packages"
)

// Vendor is a package as it lies in the repo: packages/NAME/payload/**. What git or the sealing would not keep as it is, is a
// fleet.Errors with places in the package.
func Vendor(payload fs.FS, name string) (map[string][]byte, error) {
	list, err := packages.Contents(payload)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]byte, len(list))
	for _, one := range list {
		text, err := fs.ReadFile(payload, one.Path)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", one.Path, err)
		}
		if text == nil {
			text = []byte{}
		}
		all[Payload(name)+"/"+one.Path] = text
	}
	return all, nil
}

// Upgrade merges the changes from base to next, two versions of a package, into the payload of an installation, which people
// may have changed. It returns what has to be written, with nil for what has to be removed, and the files in conflict.
func Upgrade(repo fs.FS, name string, base, next fs.FS) (changes map[string][]byte, conflicts []string, err error) {
	if _, err := Vendor(next, name); err != nil {
		return nil, nil, err
	}
	ours, err := fs.Sub(repo, Payload(name))
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", Payload(name), err)
	}
	labels := merge.Labels{Base: label(base, "before"), Ours: "yours", Theirs: label(next, "after")}
	found, clashes, err := merge.Folder(base, ours, next, labels)
	if err != nil {
		return nil, nil, fmt.Errorf("upgrade %s: %w", name, err)
	}
	changes = make(map[string][]byte, len(found))
	for file, text := range found {
		changes[Payload(name)+"/"+file] = text
	}
	for _, file := range clashes {
		conflicts = append(conflicts, Payload(name)+"/"+file)
	}
	return changes, conflicts, nil
}

// label is how a conflict calls a version of a package.
func label(files fs.FS, otherwise string) string {
	p, err := packages.Load(files)
	if err != nil {
		return otherwise
	}
	return p.Metadata.Name + " " + p.Spec.Version
}
