package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/gitignore"

	"github.com/pluralsh/plural/internal/replace"
)

// Worktree takes a snapshot of the files in dir as they are now: the same tree, with the same hashes, as if all of them
// were added and committed. It respects ignore files except for what is tracked already, keeps the executable bit, links
// and submodules, and writes nothing. Attributes that make git change content on the way in (filters, line endings) are
// not applied. The folder need not be a git repository. Files are read again when they are asked for: one that changed
// in between is an error.
func Worktree(dir string) (*Snapshot, error) {
	w, err := openWorktree(dir)
	if err != nil {
		return nil, fmt.Errorf("read work tree %q: %w", dir, err)
	}
	ignored, err := w.globalRules()
	if err != nil {
		return nil, fmt.Errorf("read work tree %q: %w", dir, err)
	}
	root, err := w.scan(".", ignored, false)
	if err != nil {
		return nil, fmt.Errorf("read work tree %q: %w", dir, err)
	}
	id, err := w.addTree(root)
	if err != nil {
		return nil, fmt.Errorf("read work tree %q: %w", dir, err)
	}
	return &Snapshot{root: id, src: w}, nil
}

// worktree holds the trees in memory, and where the files of each hash lie.
type worktree struct {
	dir     string
	root    *os.Root
	tracked map[string]filemode.FileMode
	links   map[string]Hash
	// folders are those that hold tracked files.
	folders map[string]bool

	trees map[Hash][]Entry
	blobs map[Hash]workFile
	most  int64 // what a file may measure that is read
}

type workFile struct {
	path string
	size int64
	link bool
}

func openWorktree(dir string) (*worktree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	w := &worktree{
		dir: dir, root: root, tracked: map[string]filemode.FileMode{}, links: map[string]Hash{}, folders: map[string]bool{},
		trees: map[Hash][]Entry{}, blobs: map[Hash]workFile{}, most: MaxBlob,
	}
	return w, w.readIndex()
}

func (w *worktree) readIndex() error {
	repo, err := git.PlainOpenWithOptions(w.dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil
	}
	if err != nil {
		return err
	}
	index, err := repo.Storer.Index()
	if err != nil {
		return fmt.Errorf("read git index: %w", err)
	}
	for _, e := range index.Entries {
		w.tracked[e.Name] = e.Mode
		if e.Mode == filemode.Submodule {
			w.links[e.Name] = Hash(e.Hash.String())
		}
		for folder := path.Dir(e.Name); folder != "." && !w.folders[folder]; folder = path.Dir(folder) {
			w.folders[folder] = true
		}
	}
	return nil
}

// rules are ignore patterns, those that win last.
type rules []gitignore.Pattern

func (r rules) match(name string, dir bool) bool {
	return gitignore.NewMatcher(r).Match(strings.Split(name, "/"), dir)
}

// globalRules are the user's own and the repository's private ones.
func (w *worktree) globalRules() (rules, error) {
	user := rules{gitignore.ParsePattern(replace.Prefix+"*", nil)} // what a killed program left half written
	if _, err := os.UserHomeDir(); err == nil {
		own, err := gitignore.LoadGlobalPatterns(osfs.New("/"))
		if err != nil {
			return nil, fmt.Errorf("read ~/.gitconfig: %w", err)
		}
		user = append(user, own...)
	}
	private, err := w.readRules(".git/info/exclude", nil)
	return append(user, private...), err
}

// readRules reads an ignore file whose patterns hold below domain; a missing one has none, and neither has a link.
func (w *worktree) readRules(name string, domain []string) (rules, error) {
	info, err := w.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxTree {
		return nil, nil
	}
	data, err := w.root.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read ignore file %q: %w", name, err)
	}
	var list rules
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			list = append(list, gitignore.ParsePattern(line, domain))
		}
	}
	return list, nil
}

// scan lists a folder as a tree. Below an ignored folder only tracked files count.
func (w *worktree) scan(folder string, ignored rules, onlyTracked bool) ([]Entry, error) {
	list, err := fs.ReadDir(w.root.FS(), folder)
	if err != nil {
		return nil, err
	}
	own, err := w.readRules(path.Join(folder, ".gitignore"), domain(folder))
	if err != nil {
		return nil, err
	}
	ignored = slices.Concat(ignored, own)
	var entries []Entry
	for _, d := range list {
		name := path.Join(folder, d.Name())
		if d.Name() == ".git" || w.skip(name, d, ignored, onlyTracked) {
			continue
		}
		if reason := badName(d.Name()); reason != "" {
			return nil, &TreeError{Name: name, Reason: reason}
		}
		e, ok, err := w.entry(name, d, ignored, onlyTracked)
		if err != nil {
			return nil, fmt.Errorf("read %q: %w", name, err)
		}
		if ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.sortName(), b.sortName()) })
	return entries, nil
}

func domain(folder string) []string {
	if folder == "." {
		return nil
	}
	return strings.Split(folder, "/")
}

func (w *worktree) skip(name string, d fs.DirEntry, ignored rules, onlyTracked bool) bool {
	if _, ok := w.tracked[name]; ok || w.folders[name] && d.IsDir() {
		return false
	}
	return onlyTracked || ignored.match(name, d.IsDir())
}

// entry makes one line of a tree; not ok is what git would not take up: an empty folder, a socket.
func (w *worktree) entry(name string, d fs.DirEntry, ignored rules, onlyTracked bool) (e Entry, ok bool, err error) {
	e = Entry{Name: d.Name()}
	switch d.Type() {
	case fs.ModeDir:
		if link, isLink := w.submodule(name); isLink {
			e.Mode, e.Hash = fs.ModeIrregular, link
			return e, link != "", nil
		}
		below, err := w.scan(name, ignored, onlyTracked || ignored.match(name, true))
		if err != nil || len(below) == 0 {
			return e, false, err
		}
		e.Mode = fs.ModeDir | 0o755
		e.Hash, err = w.addTree(below)
		return e, true, err
	case fs.ModeSymlink:
		e.Mode = fs.ModeSymlink | 0o777
		e.Hash, err = w.addLink(name)
		return e, true, err
	case 0:
		e.Mode, e.Hash, err = w.addFile(name)
		return e, true, err
	}
	return e, false, nil
}

// submodule gives the commit that a nested repository stands at; one that was never checked out stays where the index
// says. The hash is empty for a nested repository without commits.
func (w *worktree) submodule(name string) (Hash, bool) {
	indexed, known := w.links[name]
	if _, err := w.root.Lstat(path.Join(name, ".git")); err != nil {
		return indexed, known
	}
	nested, err := git.PlainOpenWithOptions(filepath.Join(w.dir, filepath.FromSlash(name)), &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		return indexed, known
	}
	head, err := nested.Head()
	if err != nil {
		return indexed, true
	}
	return Hash(head.Hash().String()), true
}

func (w *worktree) addTree(entries []Entry) (Hash, error) {
	id, err := treeID(entries)
	if err == nil {
		w.trees[id] = entries
	}
	return id, err
}

func (w *worktree) addLink(name string) (Hash, error) {
	target, err := w.root.Readlink(name)
	if err != nil {
		return "", err
	}
	return w.addBlob(plumbing.ComputeHash(plumbing.BlobObject, []byte(filepath.ToSlash(target))),
		workFile{path: name, size: int64(len(target)), link: true}), nil
}

func (w *worktree) addFile(name string) (fs.FileMode, Hash, error) {
	f, err := w.root.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	hasher := plumbing.NewHasher(plumbing.BlobObject, info.Size())
	if n, err := io.Copy(hasher, io.LimitReader(f, info.Size()+1)); err != nil || n != info.Size() {
		return 0, "", errors.Join(errChanged, err)
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return mode, w.addBlob(hasher.Sum(), workFile{path: name, size: info.Size()}), nil
}

func (w *worktree) addBlob(id plumbing.Hash, f workFile) Hash {
	hash := Hash(id.String())
	w.blobs[hash] = f
	return hash
}

var errChanged = errors.New("changed while the snapshot was in use: take a new one")

func (w *worktree) Tree(id Hash) ([]Entry, error) {
	entries, ok := w.trees[id]
	if !ok {
		return nil, fmt.Errorf("find tree %s: %w", id, plumbing.ErrObjectNotFound)
	}
	return entries, nil
}

func (w *worktree) blobSize(id Hash) (int64, error) {
	f, ok := w.blobs[id]
	if !ok {
		return 0, fmt.Errorf("find blob %s: %w", id, plumbing.ErrObjectNotFound)
	}
	return f.size, nil
}

func (w *worktree) blob(id Hash) ([]byte, error) {
	f, ok := w.blobs[id]
	if !ok {
		return nil, fmt.Errorf("find blob %s: %w", id, plumbing.ErrObjectNotFound)
	}
	if err := w.tooLarge(id); err != nil {
		return nil, err
	}
	data, err := w.content(f)
	if err != nil {
		return nil, err
	}
	if Hash(plumbing.ComputeHash(plumbing.BlobObject, data).String()) != id {
		return nil, fmt.Errorf("read %q: %w", f.path, errChanged)
	}
	return data, nil
}

func (w *worktree) tooLarge(id Hash) error {
	if f := w.blobs[id]; f.size > w.most {
		return &LimitError{What: fmt.Sprintf("file %q", f.path), Size: f.size, Max: w.most}
	}
	return nil
}

func (w *worktree) limit(most int64) { w.most = most }

func (w *worktree) content(f workFile) ([]byte, error) {
	if f.link {
		target, err := w.root.Readlink(f.path)
		return []byte(filepath.ToSlash(target)), err
	}
	file, err := w.root.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var data bytes.Buffer
	_, err = data.ReadFrom(io.LimitReader(file, f.size+1))
	return data.Bytes(), err
}
