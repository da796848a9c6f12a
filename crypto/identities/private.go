package identities

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LooseError means that private keys lie where they are not their owner's alone.
type LooseError struct {
	// Path is the file or folder.
	Path string
	// Reason says what is wrong with it.
	Reason string
	// Mode is what would be right; 0 when another mode mends nothing.
	Mode fs.FileMode
	// Advice is what mends it where a mode does not.
	Advice string
}

// Error says what is wrong. What to do about it is Fix's to say.
func (e *LooseError) Error() string { return fmt.Sprintf("identity %q %s", e.Path, e.Reason) }

// Fix is a command or an instruction.
func (e *LooseError) Fix() string {
	if e.Mode != 0 {
		return fmt.Sprintf("chmod %o %s", e.Mode, e.Path)
	}
	return e.Advice
}

// Mend gives the file its right mode, where that is what is wrong.
func (e *LooseError) Mend() error {
	if e.Mode == 0 {
		return fmt.Errorf("%q: %s", e.Path, e.Advice)
	}
	return os.Chmod(e.Path, e.Mode)
}

// private refuses all but a regular file that its owner alone, who is this process's user, can read.
func private(info fs.FileInfo, path string) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return &LooseError{Path: path, Reason: "is a symbolic link", Advice: "put the file itself there"}
	case !info.Mode().IsRegular():
		return &LooseError{Path: path, Reason: "is not a regular file", Advice: "move it away; a pipe goes into " + EnvFD}
	case foreign(info):
		return &LooseError{Path: path, Reason: "belongs to another user", Advice: "make a copy of your own, with mode 600"}
	case info.Mode().Perm()&0o077 != 0:
		return &LooseError{Path: path, Reason: fmt.Sprintf("can be read by others (mode %o)", info.Mode().Perm()), Mode: 0o600}
	}
	return nil
}

// readPrivate reads an open file after a look at whose it is.
func readPrivate(file *os.File, path string) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read identity %q: %w", path, err)
	}
	if err := private(info, path); err != nil {
		return nil, err
	}
	return readBounded(file, path)
}

// folder opens the folder of identities; nil when there is none.
func (s Source) folder() (*os.Root, error) {
	if s.Dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open identities: %w", err)
	}
	if err := s.checkFolder(root); err != nil {
		root.Close()
		return nil, err
	}
	return root, nil
}

func (s Source) checkFolder(root *os.Root) error {
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("open identities: %w", err)
	}
	if foreign(info) {
		return &LooseError{Path: s.Dir, Reason: "belongs to another user", Advice: "set PLURAL_CONFIG_DIR to a folder of your own"}
	}
	if info.Mode().Perm()&0o077 != 0 {
		return &LooseError{Path: s.Dir, Reason: fmt.Sprintf("is open to others (mode %o)", info.Mode().Perm()), Mode: 0o700}
	}
	return outsideGit(s.Dir)
}

// outsideGit refuses a folder within a git work tree: what lies there is one `git add` away from everybody.
func outsideGit(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("find folder of identities: %w", err)
	}
	for at := real; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return &LooseError{
				Path: dir, Reason: fmt.Sprintf("lies in the git work tree %q", at),
				Advice: "keep identities elsewhere: move them, and set PLURAL_CONFIG_DIR",
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}
