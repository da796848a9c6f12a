package bundle

import (
	"errors"
	"io/fs"
	"strings"
)

var (
	errIsDir  = errors.New("is a folder")
	errNotDir = errors.New("is not a folder")
)

// tree is a file system while it is being built.
type tree struct {
	root  *node
	count int
}

func newTree() *tree {
	return &tree{root: &node{name: ".", mode: fs.ModeDir | 0o755, entries: map[string]*node{}}}
}

func (t *tree) addDir(name string, most int) error {
	return t.add(name, &node{mode: fs.ModeDir | 0o755, entries: map[string]*node{}}, most)
}

func (t *tree) addFile(name string, perm fs.FileMode, data []byte, most int) error {
	return t.add(name, &node{mode: perm, data: data}, most)
}

// add puts n at a checked path and makes the folders above it; it refuses a second entry of the same name.
func (t *tree) add(name string, n *node, most int) error {
	parent := t.root
	rest := name
	for {
		elem, below, deeper := strings.Cut(rest, "/")
		if !deeper {
			n.name = elem
			break
		}
		next, ok := parent.entries[elem]
		if !ok {
			next = &node{name: elem, mode: fs.ModeDir | 0o755, entries: map[string]*node{}}
			if err := t.grow(name, most); err != nil {
				return err
			}
			parent.entries[elem] = next
		}
		if !next.IsDir() {
			return &EntryError{Path: name, Reason: "lies below a file"}
		}
		parent, rest = next, below
	}
	if _, taken := parent.entries[n.name]; taken {
		return &EntryError{Path: name, Reason: "appears twice"}
	}
	if err := t.grow(name, most); err != nil {
		return err
	}
	parent.entries[n.name] = n
	return nil
}

func (t *tree) grow(name string, most int) error {
	if t.count++; t.count > most {
		return &LimitError{Limit: "entries", Max: int64(most), Path: name}
	}
	return nil
}
