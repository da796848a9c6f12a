// Package trust owns the readers that one person has confirmed.
//
// It refuses to know who can open what: it compares two statements and keeps one of them. Whoever can write to a
// repository can add a key to it; nothing is sealed for that key until a person has seen it here.
//
// A statement of the repository as it stands goes into Check together with the one that Store has; the difference comes
// back as an UnconfirmedError, is shown to the person, and Confirm keeps the new statement.
package trust

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/pluralsh/plural/crypto/groups"
)

// maxStatement bounds the file of one confirmed statement, in bytes: a hundred thousand members need ten million.
const maxStatement = 64 << 20

var repositoryID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Store keeps confirmed statements in a folder of the person's own, one file for each repository.
type Store struct {
	// Dir is made when it is first written to.
	Dir string
}

// Confirmed is what the person has confirmed for a repository, empty when that is nothing. A file that others could have
// written is an error.
func (s Store) Confirmed(repository string) (groups.Statement, error) {
	if err := checkRepository(repository); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("open folder of confirmed groups: %w", err)
	}
	defer func() { _ = root.Close() }()
	return read(root, fileOf(repository))
}

func read(root *os.Root, name string) (groups.Statement, error) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read confirmed groups: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%q in %q is not a regular file: remove it, and confirm again", name, root.Name())
	case writableByOthers(info):
		return "", fmt.Errorf("others may write to %q in %q: check what it says, then chmod 600", name, root.Name())
	}
	file, err := root.Open(name)
	if err != nil {
		return "", fmt.Errorf("read confirmed groups: %w", err)
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	text, err := io.ReadAll(io.LimitReader(file, maxStatement+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read confirmed groups: %w", err)
	case len(text) > maxStatement:
		return "", fmt.Errorf("%q in %q is larger than %d MiB: remove it, and confirm again", name, root.Name(), maxStatement>>20)
	}
	return groups.Statement(text), nil
}

// Confirm keeps a statement in place of what was confirmed before. The file is replaced as a whole or not at all.
func (s Store) Confirm(repository string, statement groups.Statement) error {
	if err := checkRepository(repository); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return fmt.Errorf("make folder of confirmed groups: %w", err)
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return fmt.Errorf("open folder of confirmed groups: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := replace(root, fileOf(repository), string(statement)); err != nil {
		return fmt.Errorf("write confirmed groups: %w", err)
	}
	return nil
}

// replace writes beside the file and renames.
func replace(root *os.Root, name, text string) error {
	temporary := name + "." + rand.Text() + ".tmp"
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, strings.NewReader(text))
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary)
	}
	return err
}

func fileOf(repository string) string { return repository + ".txt" }

// checkRepository keeps what is not an id from becoming a path.
func checkRepository(repository string) error {
	if !repositoryID.MatchString(repository) {
		return fmt.Errorf("repository id %q: want 32 hex digits", repository)
	}
	return nil
}
