package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/merge"
	"github.com/pluralsh/plural/workspace/schema"
)

// Scaffold is the folder in which a repo keeps the files of its scaffold as they were given to it. They are the base on which
// what people made of the files, and what a newer program would give, are merged.
const Scaffold = ".plural/scaffold"

// pristine is where a file of the scaffold is kept as it was given.
func pristine(name string) string { return path.Join(Scaffold, name) }

// Upgraded is what UpgradeScaffold did. All are paths from the repo's root, sorted.
type Upgraded struct {
	// Changed are the files that differ from before, Conflicts those of them that somebody has to look through.
	Changed, Conflicts []string
	// Unknown are files of which it is not known what they were made from. They are left alone.
	Unknown []string
	// Commit is the commit's id, empty when there was nothing to commit, and when there are conflicts.
	Commit string
}

// UpgradeScaffold merges what has changed in the scaffold, since the repo was made or upgraded, into its files, and commits
// that. A file that was taken away stays away. With conflicts nothing is committed: the files are in the work tree, with git's
// markers in them. opts are those that the scaffold was made with.
func (r *Repo) UpgradeScaffold(ctx context.Context, opts Options) (*Upgraded, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	files, err := templates.Render(templates.Installation, opts.values(r.root))
	if err != nil {
		return nil, err
	}
	return r.upgradeScaffold(ctx, files)
}

func (r *Repo) upgradeScaffold(ctx context.Context, files []templates.File) (*Upgraded, error) {
	u := &Upgraded{}
	changes, err := r.mergeScaffold(files, u)
	if err != nil {
		return nil, err
	}
	if len(u.Conflicts) > 0 {
		return u, r.writeAll(changes)
	}
	if len(changes) == 0 {
		return u, nil
	}
	u.Commit, err = r.Commit(ctx, "Upgrade the files that the installation repo began with", changes)
	return u, err
}

// mergeScaffold gives the content of every file that has to change, nil for one that has to go.
func (r *Repo) mergeScaffold(files []templates.File, u *Upgraded) (map[string][]byte, error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return nil, fmt.Errorf("open installation repo: %w", err)
	}
	defer root.Close()
	changes, given := map[string][]byte{}, map[string]bool{}
	for _, f := range files {
		given[f.Path] = true
		if err := r.mergeFile(root, f, u, changes); err != nil {
			return nil, err
		}
	}
	if err := dropped(root, given, u, changes); err != nil {
		return nil, err
	}
	if err := renewSchemas(root, u, changes); err != nil {
		return nil, err
	}
	slices.Sort(u.Changed)
	return changes, nil
}

// renewSchemas has the repo keep this program's schemas. They are nobody's to change, so nothing is merged.
func renewSchemas(root *os.Root, u *Upgraded, changes map[string][]byte) error {
	schemas, err := schema.Files()
	if err != nil {
		return err
	}
	for name, content := range schemas {
		old, _, err := readFile(root, name)
		if err != nil {
			return err
		}
		if !bytes.Equal(old, content) {
			changes[name] = content
			u.Changed = append(u.Changed, name)
		}
	}
	return nil
}

// mergeFile merges one file of the scaffold.
func (r *Repo) mergeFile(root *os.Root, f templates.File, u *Upgraded, changes map[string][]byte) error {
	ours, _, err := readFile(root, f.Path)
	if err != nil {
		return err
	}
	change := func(name string, old, content []byte) {
		if (old == nil) != (content == nil) || !bytes.Equal(old, content) {
			changes[name] = content
			if name == f.Path {
				u.Changed = append(u.Changed, name)
			}
		}
	}
	if f.Block {
		kept, err := r.block(f, ours)
		if err != nil {
			return err
		}
		change(f.Path, ours, kept)
		return nil
	}
	base, _, err := readFile(root, pristine(f.Path))
	if err != nil {
		return err
	}
	switch {
	case base == nil && ours == nil:
		change(f.Path, nil, f.Content) // it is new in the scaffold
	case base == nil && !bytes.Equal(ours, f.Content):
		u.Unknown = append(u.Unknown, f.Path)
		return nil
	case base != nil && ours != nil:
		merged, conflict := mergeText(base, ours, f.Content)
		if conflict {
			u.Conflicts = append(u.Conflicts, f.Path)
		}
		change(f.Path, ours, merged)
	}
	change(pristine(f.Path), base, f.Content)
	return nil
}

// block is a file with its managed part as it should be.
func (r *Repo) block(f templates.File, ours []byte) ([]byte, error) {
	e := managed(f.Path, f.Content)
	if f.Path == AttributesFile {
		return Attributes(os.DirFS(r.root), ours)
	}
	kept, err := e.apply(ours)
	if err != nil {
		return nil, fmt.Errorf("edit %q: %w", f.Path, err)
	}
	return kept, nil
}

// mergeText merges three texts, whatever line ends a clone has given the two that lie in it.
func mergeText(base, ours, theirs []byte) (merged []byte, conflict bool) {
	windows := bytes.Contains(ours, []byte("\r\n"))
	unix := func(text []byte) []byte { return bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")) }
	if bytes.Equal(unix(base), unix(theirs)) {
		return ours, false
	}
	labels := merge.Labels{Base: "as it was given", Ours: "yours", Theirs: "as it would be given now"}
	merged, conflicts := merge.Three(unix(base), unix(ours), unix(theirs), labels)
	if windows {
		merged = bytes.ReplaceAll(merged, []byte("\n"), []byte("\r\n"))
	}
	return append([]byte{}, merged...), conflicts > 0
}

// dropped takes away what the scaffold has no more, where nobody has changed it.
func dropped(root *os.Root, given map[string]bool, u *Upgraded, changes map[string][]byte) error {
	return fs.WalkDir(root.FS(), Scaffold, func(name string, d fs.DirEntry, err error) error {
		if name == Scaffold && err != nil {
			return fs.SkipAll // there is none
		}
		if err != nil || d.IsDir() {
			return err
		}
		file := strings.TrimPrefix(name, Scaffold+"/")
		if given[file] {
			return nil
		}
		base, _, err := readFile(root, name)
		if err != nil {
			return err
		}
		ours, _, err := readFile(root, file)
		if err != nil {
			return err
		}
		changes[name] = nil
		if ours != nil && bytes.Equal(base, ours) {
			changes[file] = nil
			u.Changed = append(u.Changed, file)
		}
		return nil
	})
}

// writeAll writes files to the work tree alone, unless that would lose something that is not committed.
func (r *Repo) writeAll(files map[string][]byte) error {
	g, err := r.open()
	if err != nil {
		return err
	}
	head, err := readHead(g)
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
	var edits []edit
	for name, content := range files {
		e, err := head.change(root, f, name, content)
		if err != nil {
			return err
		}
		edits = append(edits, e)
	}
	for _, e := range edits {
		if _, err := e.write(root); err != nil {
			return err
		}
	}
	return nil
}
