package snapshot

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// TreeError refuses a tree that git's own tools would not have written, or that names a file no system should create.
type TreeError struct {
	// Tree is empty for one that is about to be made.
	Tree Hash
	// Name is the entry's name as found.
	Name   string
	Reason string
}

func (e *TreeError) Error() string {
	where := ""
	if e.Tree != "" {
		where = " in tree " + string(e.Tree)
	}
	return fmt.Sprintf("invalid tree path %q%s: %s", e.Name, where, e.Reason)
}

// Entry is one line of a tree.
type Entry struct {
	Name string
	// Mode's type bits are those of a folder, a symbolic link, a regular file, or fs.ModeIrregular for a submodule.
	Mode fs.FileMode
	// Hash names a tree, a blob, or a submodule's commit.
	Hash Hash
}

// sortName is how git orders entries: folders as if their names ended in a slash.
func (e Entry) sortName() string {
	if e.Mode.IsDir() {
		return e.Name + "/"
	}
	return e.Name
}

// gitMode writes a mode as it stands in a tree.
func gitMode(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDir:
		return "40000"
	case fs.ModeSymlink:
		return "120000"
	case fs.ModeIrregular:
		return "160000"
	}
	return fmt.Sprintf("100%o", mode.Perm())
}

func parseMode(s string) (fs.FileMode, bool) {
	switch s {
	case "40000":
		return fs.ModeDir | 0o755, true
	case "100644":
		return 0o644, true
	case "100664":
		return 0o664, true
	case "100755":
		return 0o755, true
	case "120000":
		return fs.ModeSymlink | 0o777, true
	case "160000":
		return fs.ModeIrregular, true
	}
	return 0, false
}

// parseTree decodes a tree object. It accepts only what hashes back to the same id after a round through plain files:
// canonical modes, sorted, no name twice.
func parseTree(id Hash, body []byte) ([]Entry, error) {
	var list []Entry
	for len(body) > 0 {
		mode, rest, ok := bytes.Cut(body, []byte{' '})
		if !ok {
			return nil, &TreeError{Tree: id, Reason: "truncated"}
		}
		name, rest, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(rest) < 20 {
			return nil, &TreeError{Tree: id, Reason: "truncated"}
		}
		e := Entry{Name: string(name), Hash: Hash(hex.EncodeToString(rest[:20]))}
		if e.Mode, ok = parseMode(string(mode)); !ok {
			return nil, &TreeError{Tree: id, Name: e.Name, Reason: fmt.Sprintf("mode %.10q is not one that git writes", mode)}
		}
		if reason := badName(e.Name); reason != "" {
			return nil, &TreeError{Tree: id, Name: e.Name, Reason: reason}
		}
		if n := len(list); n > 0 && list[n-1].sortName() >= e.sortName() {
			return nil, &TreeError{Tree: id, Name: e.Name, Reason: "appears twice or out of order"}
		}
		list = append(list, e)
		body = rest[20:]
	}
	return list, duplicate(id, list)
}

// duplicate finds a file and a folder of one name, which the order of entries does not bring together.
func duplicate(id Hash, list []Entry) error {
	for _, e := range list {
		if e.Mode.IsDir() {
			if _, twice := slices.BinarySearchFunc(list, e.Name, compareName); twice {
				return &TreeError{Tree: id, Name: e.Name, Reason: "appears twice"}
			}
		}
	}
	return nil
}

func compareName(e Entry, sortName string) int { return strings.Compare(e.sortName(), sortName) }

// lookup finds a name among the sorted entries of a tree.
func lookup(list []Entry, name string) (Entry, bool) {
	for _, sortName := range []string{name, name + "/"} {
		if i, ok := slices.BinarySearchFunc(list, sortName, compareName); ok && list[i].Name == name {
			return list[i], true
		}
	}
	return Entry{}, false
}

// EncodeTree puts entries into git's order and writes them as a tree object's body. Names that no tree should hold, and
// one that appears twice, are a *TreeError.
func EncodeTree(list []Entry) ([]byte, error) {
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	for i, e := range list {
		if reason := badName(e.Name); reason != "" {
			return nil, &TreeError{Name: e.Name, Reason: reason}
		}
		if i > 0 && list[i-1].Name == e.Name {
			return nil, &TreeError{Name: e.Name, Reason: "appears twice"}
		}
	}
	if err := duplicate("", list); err != nil {
		return nil, err
	}
	var body []byte
	for _, e := range list {
		id, err := hex.DecodeString(string(e.Hash))
		if err != nil {
			return nil, fmt.Errorf("encode tree: id of %q: %w", e.Name, err)
		}
		body = append(append(body, gitMode(e.Mode)...), ' ')
		body = append(append(body, e.Name...), 0)
		body = append(body, id...)
	}
	return body, nil
}

// treeID is the id of a tree with these entries, which are put into git's order.
func treeID(entries []Entry) (Hash, error) {
	body, err := EncodeTree(entries)
	if err != nil {
		return "", err
	}
	return Hash(plumbing.ComputeHash(plumbing.TreeObject, body).String()), nil
}

// CheckPath says of a file's path, slash-separated, whether a tree can hold it. The error is a *TreeError.
func CheckPath(name string) error {
	for part := range strings.SplitSeq(name, "/") {
		if reason := badName(part); reason != "" {
			return &TreeError{Name: name, Reason: reason}
		}
	}
	return nil
}

// badName says why a file of this name could do harm or mean different things on different systems.
func badName(name string) string {
	switch {
	case name == "":
		return "empty name"
	case name == ".", name == "..":
		return "leaves its folder"
	case strings.ContainsAny(name, `/\`):
		return "holds a path separator"
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return "holds a control character"
	case len(name) > 255:
		return "longer than 255 bytes"
	case isDotGit(name):
		return "stands for git's own folder on some system"
	}
	return ""
}

// isDotGit knows the names that Windows and macOS take for .git: any case, the short name, trailing dots and spaces,
// a stream suffix, and characters that HFS+ ignores.
func isDotGit(name string) bool {
	name = strings.ToLower(strings.Map(dropIgnorable, name))
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	return name == ".git" || name == "git~1"
}

func dropIgnorable(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}
