package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/workspace/packages"
)

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// hashJSON hashes values by their JSON, in which the keys of maps are sorted.
func hashJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("hash: %w", err)
	}
	return hash(text), nil
}

// digest names what a step does: its kind, the files of the package that it may read, the sealed files that it reads as git
// keeps them, and all that it says. It is empty when one of the sealed files is not in git as it should be. No secret is part of
// it: a digest is for everybody to see, and short secrets could be guessed from it.
func (i *installing) digest(p *part, kind string, folders, sealed []string, says ...any) (string, error) {
	blobs := make([][2]string, len(sealed))
	for n, name := range sealed {
		id, err := i.stored(name)
		if err != nil || id == "" {
			return "", err
		}
		blobs[n] = [2]string{name, id}
	}
	sum, err := hashJSON([]any{"plural step v1", kind, i.filesOf(p, folders), blobs, says})
	if err != nil {
		return "", i.loaded.fault(p.field(""), "", "%v", err)
	}
	return sum, nil
}

// stored is what git keeps at a path; empty when that is about to change, or nobody can tell.
func (i *installing) stored(name string) (string, error) {
	if i.w.Stored == nil {
		return "", nil
	}
	if content := i.sealed[name]; content != nil {
		if text, err := fs.ReadFile(i.w.Repo, name); err != nil || string(text) != string(content) {
			return "", nil
		}
	}
	id, err := i.w.Stored(name)
	if err != nil {
		return "", fmt.Errorf("look up what git keeps of %q: %w", name, err)
	}
	return id, nil
}

// filesOf are the files that a step may read, with their hashes: those of its folders, or, without any, all that are not of
// another step alone, and that do not merely describe the package.
func (i *installing) filesOf(p *part, folders []string) [][2]string {
	if p.step.Wait != nil {
		return nil
	}
	var others []string
	if folders == nil {
		own := i.folderOf(p)
		for _, other := range i.loaded.steps {
			if dir := i.folderOf(other); dir != "" && !within(own, dir) && !within(dir, own) {
				others = append(others, dir)
			}
		}
	}
	var list [][2]string
	for _, name := range keysOf(i.loaded.sums) {
		mine := folders == nil && !describes(name) && !slices.ContainsFunc(others, func(dir string) bool { return within(name, dir) })
		if mine || slices.ContainsFunc(folders, func(dir string) bool { return within(name, path.Clean(dir)) }) {
			list = append(list, [2]string{name, i.loaded.sums[name]})
		}
	}
	return list
}

// folderOf is the folder of the package that a step is about, or "".
func (i *installing) folderOf(p *part) string {
	var name string
	switch s := p.step; {
	case s.Terraform != nil:
		name = s.Terraform.Path
	case s.IsService():
		spec, _ := p.raw["spec"].(map[string]any)
		source, _ := spec["source"].(map[string]any)
		name, _ = source["path"].(string)
	}
	if name == "" || strings.Contains(name, "${") {
		return ""
	}
	return path.Clean(name)
}

// within says whether a path is a folder or lies in it.
func within(name, dir string) bool {
	return dir == "." || dir != "" && (name == dir || strings.HasPrefix(name, dir+"/"))
}

// describes says whether a file is about the package, and read by no step.
func describes(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	return name == packages.File || slices.Contains([]string{"README", "LICENSE", "NOTICE", "CHANGELOG"}, base)
}

// sealable says why a file could not be sealed, if it could not.
func (w *World) sealable(name string) error {
	w.mu.Lock()
	if w.policy == nil {
		w.policy = sync.OnceValues(func() (*policy.Policy, error) { return policy.Load(w.Repo) })
	}
	read := w.policy
	w.mu.Unlock()
	p, err := read()
	if errors.Is(err, policy.ErrNone) {
		return &UnsealableError{Path: name}
	}
	if err != nil {
		return err
	}
	_, must, err := p.Match(name)
	if err == nil && !must {
		err = &UnsealableError{Path: name, Uncovered: true}
	}
	return err
}
