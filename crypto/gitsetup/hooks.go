package gitsetup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/internal/block"
)

// HookError means that a hook cannot take the program's lines.
type HookError struct {
	Path, Cause, Solution string
}

func (e *HookError) Error() string { return fmt.Sprintf("hook %q %s", e.Path, e.Cause) }

// Fix says what to do by hand.
func (e *HookError) Fix() string { return e.Solution }

// hook is one hook as it is and as it is to be.
type hook struct {
	name string
	file *file
	want []byte // nil: the file is to be removed
}

// current says whether nothing is to be done.
func (h *hook) current() bool { return h.file.same(h.want) }

// planHooks reads every hook before any is written: one that cannot be changed leaves all as they are.
func planHooks(ctx context.Context, repo *gitcmd.Repo, change func(*hook) error) ([]*hook, error) {
	dir, err := repo.GitPath(ctx, "hooks")
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, &HookError{
			Path: dir, Cause: "is where git looks for hooks, and no folder: git runs none",
			Solution: "git config --unset core.hooksPath, in whatever file sets it: git config --show-origin core.hooksPath",
		}
	}
	var all []*hook
	var faults []error
	for _, name := range hooks() {
		h := &hook{name: name}
		if h.file, err = readFile(filepath.Join(dir, name)); err == nil {
			err = change(h)
		}
		all = append(all, h)
		faults = append(faults, err)
	}
	return all, errors.Join(faults...)
}

// add plans the hook with our lines in it.
func (h *hook) add(program string) error {
	line := hookLine(h.name, program)
	old := h.file.content
	switch {
	case old == nil:
		old = []byte("#!/bin/sh\n")
	case !isShell(old) && bytes.Contains(old, []byte(hookCommand+" "+h.name)):
		h.want = old // somebody followed the advice below
		return nil
	case !isShell(old):
		return &HookError{Path: h.file.path, Cause: "is no shell script", Solution: "let it run this, and " + follow(h.name) + ": " + line}
	case h.file.mode&0o100 == 0:
		return &HookError{Path: h.file.path, Cause: "is not executable, so git does not run it", Solution: "chmod +x it, or remove it"}
	}
	want, err := block.PutFirst(old, hookBody(h.name, program))
	if err != nil {
		return blockFault(h.file.path, err)
	}
	h.want = want
	return nil
}

func follow(hook string) string {
	if guards(hook) {
		return "fail when it fails"
	}
	return "go on when it fails"
}

// cut plans the hook without our lines, and no hook when nothing else stood in it.
func (h *hook) cut() error {
	if h.file.content == nil {
		return nil
	}
	want, err := block.Cut(h.file.content)
	if err != nil {
		return blockFault(h.file.path, err)
	}
	changed := !bytes.Equal(want, h.file.content)
	if rest := strings.TrimSpace(string(want)); !changed || rest != "" && rest != "#!/bin/sh" {
		h.want = want
	}
	return nil
}

// file is a text of git's own folder. Content is nil when there is none.
type file struct {
	path    string
	content []byte
	mode    fs.FileMode
}

// readFile follows links: a hook is often one, into the work tree.
func readFile(name string) (*file, error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return &file{path: name}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read git's own files: %w", err)
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read git's own files: %w", err)
	}
	if content == nil {
		content = []byte{}
	}
	return &file{name, content, info.Mode().Perm()}, nil
}

func (f *file) same(want []byte) bool {
	return (f.content == nil) == (want == nil) && bytes.Equal(f.content, want)
}

// write makes the file what want is, nil removes it. A file that is new gets mode.
func (f *file) write(want []byte, mode fs.FileMode) error {
	if f.same(want) {
		return nil
	}
	if want == nil {
		return os.Remove(f.path)
	}
	if f.content != nil {
		mode = f.mode
	}
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o777); err != nil { // as git makes them: the umask decides
		return fmt.Errorf("make git's own folders: %w", err)
	}
	temporary, err := os.CreateTemp(dir, ".plural-*")
	if err != nil {
		return fmt.Errorf("write %q: %w", f.path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone after the rename
	_, err = temporary.Write(want)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", f.path, err)
	}
	return nil
}

func blockFault(path string, err error) error {
	var unended *block.UnendedError
	if errors.As(err, &unended) {
		return &HookError{Path: path, Cause: "cannot be changed: " + unended.Error(), Solution: unended.Fix()}
	}
	return fmt.Errorf("edit %q: %w", path, err)
}
