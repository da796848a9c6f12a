package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// Tree implements Receiver. What a git tree cannot hold, or should not, is refused: links, devices, names that mean other
// things on other systems, and more than one pack takes. Folders without files are left out, as git does.
func (r *receiver) Tree(ctx context.Context, files fs.FS, about About) (string, error) {
	t := &treeMaker{ctx: ctx, files: files, objects: r.objects, pack: newPackWriter(r.store, 0), made: map[plumbing.Hash]bool{}}
	defer t.pack.discard()
	root, empty, err := t.folder(".", 0)
	if err == nil && empty {
		err = errNoFiles
	}
	if err != nil {
		return "", fmt.Errorf("take files in: %w", err)
	}
	commit, err := t.add(plumbing.CommitObject, about.commit(root))
	if err != nil {
		return "", fmt.Errorf("take files in: %w", err)
	}
	if err := t.pack.finish(); err != nil {
		return "", fmt.Errorf("take files in: %w", err)
	}
	return string(commit), nil
}

// treeMaker writes files as git objects, those that are not here yet.
type treeMaker struct {
	ctx     context.Context //nolint:containedctx // lives for one call
	files   fs.FS
	objects *snapshot.Objects
	pack    *packWriter
	made    map[plumbing.Hash]bool
}

func (t *treeMaker) add(kind plumbing.ObjectType, body []byte) (snapshot.Hash, error) {
	id := plumbing.ComputeHash(kind, body)
	hash := snapshot.Hash(id.String())
	if t.made[id] || t.objects.Has(hash) {
		return hash, t.ctx.Err()
	}
	t.made[id] = true
	return hash, errors.Join(t.ctx.Err(), t.pack.add(kind, id, body))
}

func (t *treeMaker) folder(name string, depth int) (id snapshot.Hash, empty bool, err error) {
	if depth > snapshot.MaxDepth {
		return "", false, &snapshot.LimitError{What: "depth of folders", Size: int64(depth), Max: snapshot.MaxDepth}
	}
	list, err := fs.ReadDir(t.files, name)
	if err != nil {
		return "", false, err
	}
	var entries []snapshot.Entry
	for _, d := range list {
		e, empty, err := t.entry(path.Join(name, d.Name()), d, depth)
		if err != nil {
			return "", false, err
		}
		if !empty {
			entries = append(entries, e)
		}
	}
	if len(entries) == 0 {
		return "", true, nil
	}
	id, err = t.tree(entries)
	if err != nil {
		return "", false, fmt.Errorf("folder %q: %w", name, err)
	}
	return id, false, nil
}

func (t *treeMaker) tree(entries []snapshot.Entry) (snapshot.Hash, error) {
	body, err := snapshot.EncodeTree(entries)
	if err != nil {
		return "", err
	}
	if len(body) > snapshot.MaxTree {
		return "", &snapshot.LimitError{What: "list of files", Size: int64(len(body)), Max: snapshot.MaxTree}
	}
	return t.add(plumbing.TreeObject, body)
}

func (t *treeMaker) entry(name string, d fs.DirEntry, depth int) (e snapshot.Entry, empty bool, err error) {
	e.Name = d.Name()
	switch d.Type() {
	case fs.ModeDir:
		e.Mode = fs.ModeDir | 0o755
		e.Hash, empty, err = t.folder(name, depth+1)
		return e, empty, err
	case 0:
		e.Mode, e.Hash, err = t.file(name)
		return e, false, err
	}
	return e, false, fmt.Errorf("%q is no regular file (%s)", name, d.Type())
}

func (t *treeMaker) file(name string) (fs.FileMode, snapshot.Hash, error) {
	f, err := t.files.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	most := t.pack.store.MaxBlob()
	body, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return 0, "", fmt.Errorf("read %q: %w", name, err)
	}
	if int64(len(body)) > most {
		return 0, "", &snapshot.LimitError{What: fmt.Sprintf("file %q", name), Size: max(info.Size(), int64(len(body))), Max: most}
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	id, err := t.add(plumbing.BlobObject, body)
	if err != nil {
		return 0, "", fmt.Errorf("file %q: %w", name, err)
	}
	return mode, id, nil
}

// commit writes a commit without parents. Nothing but the tree and what is said goes into it, so everybody writes the
// same.
func (a About) commit(tree snapshot.Hash) []byte {
	who := strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == '<' || r == '>' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(a.Author, "")))
	if who == "" {
		who = "unknown"
	}
	when := fmt.Sprintf("%s <> %d +0000", who, max(0, a.Time.Unix()))
	message := strings.ReplaceAll(strings.ToValidUTF8(a.Message, "\uFFFD"), "\x00", "")
	return fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\n%s\n", tree, when, when, strings.TrimSuffix(message, "\n"))
}
