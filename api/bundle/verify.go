package bundle

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pjbgf/sha1cd"
)

// Key recomputes the bundle's key for the inputs from the files themselves: the ids that git would give them, then
// [Key]. A file that no input covers is an *EntryError, because no key would vouch for it; so is content made to
// collide under SHA-1.
func (f *Files) Key(inputs []string) (string, error) {
	if err := f.covered(inputs); err != nil {
		return "", err
	}
	list := make([]Input, 0, len(inputs))
	for _, in := range inputs {
		n, err := f.find("hash", in)
		if err != nil {
			return "", err
		}
		id, err := n.id(in)
		if err != nil {
			return "", err
		}
		list = append(list, Input{Path: in, Hash: hex.EncodeToString(id[:]), Dir: n.IsDir()})
	}
	return Key(list), nil
}

func (f *Files) covered(inputs []string) error {
	set := make(map[string]bool, len(inputs))
	for _, in := range inputs {
		set[in] = true
	}
	var stray error
	f.root.walk("", func(name string, n *node) {
		if stray != nil || n.IsDir() && len(n.entries) > 0 {
			return
		}
		for at := name; ; at = path.Dir(at) {
			if set[at] {
				return
			}
			if at == "." {
				break
			}
		}
		stray = &EntryError{Path: name, Reason: "belongs to none of the declared inputs"}
	})
	return stray
}

// id is the git id of the blob or tree; at is its path, for errors.
func (n *node) id(at string) (id [sha1cd.Size]byte, err error) {
	if !n.IsDir() {
		return objectID("blob", n.data, at)
	}
	var body []byte
	for _, e := range n.gitOrder() {
		below, err := e.id(path.Join(at, e.name))
		if err != nil {
			return id, err
		}
		mode := uint64(0o40000)
		if !e.IsDir() {
			mode = uint64(gitMode(e.mode))
		}
		body = strconv.AppendUint(body, mode, 8)
		body = append(body, ' ')
		body = append(body, e.name...)
		body = append(body, 0)
		body = append(body, below[:]...)
	}
	return objectID("tree", body, at)
}

// gitOrder sorts entries as git does: folders as if their names ended in a slash.
func (n *node) gitOrder() []*node {
	list := make([]*node, 0, len(n.entries))
	for _, e := range n.entries {
		list = append(list, e)
	}
	sortName := func(n *node) string {
		if n.IsDir() {
			return n.name + "/"
		}
		return n.name
	}
	slices.SortFunc(list, func(a, b *node) int { return strings.Compare(sortName(a), sortName(b)) })
	return list
}

func objectID(kind string, body []byte, at string) (id [sha1cd.Size]byte, err error) {
	return sum(at, []byte(kind+" "+strconv.Itoa(len(body))+"\x00"), body)
}

// sum is the SHA-1 of the parts together, unless they were made to have that of something else.
func sum(at string, parts ...[]byte) (id [sha1cd.Size]byte, err error) {
	hash, ok := sha1cd.New().(sha1cd.CollisionResistantHash)
	if !ok {
		return id, fmt.Errorf("hash %q: no collision detection", at)
	}
	for _, part := range parts {
		hash.Write(part)
	}
	found, collides := hash.CollisionResistantSum(nil)
	if collides {
		return id, &EntryError{Path: at, Reason: "content made to collide under SHA-1"}
	}
	copy(id[:], found)
	return id, nil
}

// interface guards: Files is handed around as an fs.FS and fast paths are found by assertion.
var (
	_ fs.ReadDirFS  = (*Files)(nil)
	_ fs.ReadFileFS = (*Files)(nil)
	_ fs.StatFS     = (*Files)(nil)
)
