package compose

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/merge"
	"github.com/pluralsh/plural/workspace/packages"
)

// maxVendored bounds one file of a package in the repo, in bytes: what changes files there takes no larger ones.
const maxVendored = 3 << 20

// Vendor is a package as it lies in the repo: packages/NAME/payload/**. What git or the sealing would not keep as it is, is a
// fleet.Errors with places in the package.
func Vendor(payload fs.FS, name string) (map[string][]byte, error) {
	list, err := packages.Contents(payload)
	if err != nil {
		return nil, err
	}
	var faults fleet.Errors
	all, folded := make(map[string][]byte, len(list)), make(map[string]string, len(list))
	for _, one := range list {
		if message, fix := unfit(one, folded); message != "" {
			faults = append(faults, &fleet.Error{Position: fleet.Position{File: one.Path}, Message: message, Fix: fix})
			continue
		}
		text, err := fs.ReadFile(payload, one.Path)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", one.Path, err)
		}
		if text == nil {
			text = []byte{}
		}
		all[Payload(name)+"/"+one.Path] = text
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// unfit says why a file cannot be kept as it is.
func unfit(one packages.Content, folded map[string]string) (message, fix string) {
	lower := strings.ToLower(one.Path)
	other, clash := folded[lower]
	folded[lower] = one.Path
	switch base := path.Base(lower); {
	case clash:
		return fmt.Sprintf("not every machine can tell it from %q", other), "rename one of them"
	case base == ".gitignore":
		return "it would hide files of the package from git", "remove it"
	case strings.HasSuffix(base, ".secret.yaml") || strings.HasSuffix(base, ".secret.yml"):
		return "it would be sealed in the installation repo, and a package is no secret", "ask for secrets as questions of type secret, and rename it"
	case one.Exec:
		return "the installation repo keeps no executable files", "chmod -x, and call it by its interpreter: sh FILE"
	case one.Size > maxVendored:
		return fmt.Sprintf("it is larger than %d MiB", maxVendored>>20), "fetch it where it is used"
	}
	return "", ""
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
