// Package identities owns the places where a person's private keys are found.
//
// It refuses to know what the keys open: no group, repository or sealed file appears here.
//
// Load reads one place after the other. An identity in the environment stands alone, as CI wants it; otherwise the
// person's own folder, the operating system's keyring and the usual SSH keys come together in one list. Whatever others
// could read is refused before it is read. Create and Save put keys into the folder, and Paper writes them down for a
// drawer.
package identities

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"filippo.io/age"

	"github.com/pluralsh/plural/crypto/keys"
)

// The environment variables in which an identity may stand. When one of them is set, nothing else is read.
const (
	EnvText = "PLURAL_IDENTITY"
	EnvFile = "PLURAL_IDENTITY_FILE"
	EnvFD   = "PLURAL_IDENTITY_FD"
)

// maxFile bounds what is read of one place, in bytes.
const maxFile = 64 << 10

// The endings of files in the folder: an identity in clear, one under a passphrase, one whose text is in the keyring.
const (
	plainExt   = ".txt"
	sealedExt  = ".age"
	keyringExt = ".keyring"
)

// Source is where private keys are looked for.
type Source struct {
	// Dir is the person's folder of identities; it need not exist.
	Dir string
	// Getenv reads the environment; nil means that there is none.
	Getenv func(string) string
	// Ask asks for a passphrase on the terminal; nil never asks, and what needs one is left out or refused.
	Ask func(prompt string) (string, error)
	// Home is the person's home folder, whose .ssh may hold keys; empty means that none are used.
	Home string
	// Keyring says that the operating system's keyring may be used.
	Keyring bool
}

// Dir is the folder of identities within the person's configuration folder.
func Dir(config string) string {
	return filepath.Join(config, "identities")
}

// Load reads all identities, in the order in which they are to be tried. There may be none. A *LooseError says which
// file others can read, and how to mend that.
func (s Source) Load() ([]age.Identity, error) {
	if text, name, err := s.given(); name != "" || err != nil {
		if err != nil {
			return nil, err
		}
		return keys.ParseIdentities(name, text, s.Ask)
	}
	entries, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []age.Identity
	for _, e := range entries {
		ids, err := s.Open(e)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	return append(all, s.ssh()...), nil
}

// Given says which environment variable holds the identity, empty when none does.
func (s Source) Given() string {
	for _, name := range []string{EnvText, EnvFile, EnvFD} {
		if s.Getenv != nil && s.Getenv(name) != "" {
			return name
		}
	}
	return ""
}

// given is the identity that the environment holds, and the name to call it by; empty when it holds none.
func (s Source) given() (text []byte, name string, err error) {
	variable := s.Given()
	switch variable {
	case EnvText:
		return []byte(s.Getenv(EnvText)), EnvText, nil
	case EnvFile:
		name = s.Getenv(EnvFile)
		text, err = readAlone(name)
		return text, name, err
	case EnvFD:
		text, err = readDescriptor(s.Getenv(EnvFD))
		return text, EnvFD, err
	}
	return nil, "", nil
}

// readAlone reads a file that the environment names. It may be reached by a symbolic link, as the files of a Kubernetes
// Secret are; what counts is who can read the file behind.
func readAlone(name string) ([]byte, error) {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", EnvFile, err)
	}
	if err := outsideGit(filepath.Dir(real)); err != nil {
		return nil, err
	}
	file, err := os.Open(real)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", EnvFile, err)
	}
	defer file.Close()
	return readPrivate(file, real)
}

// readDescriptor reads a file descriptor to its end. A pipe can be read once in a process's life.
func readDescriptor(text string) ([]byte, error) {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("read %s: want the number of an open file descriptor", EnvFD)
	}
	file := os.NewFile(uintptr(number), EnvFD)
	if file == nil {
		return nil, fmt.Errorf("read %s: no file descriptor %d is open", EnvFD, number)
	}
	defer file.Close()
	return readBounded(file, EnvFD)
}

func readBounded(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read identity: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("identity %s is larger than %d bytes", name, maxFile)
	}
	return text, nil
}

// Entry is one identity in the folder.
type Entry struct {
	// Name is the file's name without its ending.
	Name string
	// Path is where the file lies.
	Path string
	// Kind is "file", "passphrase" or "keyring".
	Kind string
}

// List names what lies in the folder, without reading it. Errors are those of Load, joined.
func (s Source) List() ([]Entry, error) {
	root, err := s.folder()
	if root == nil || err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("list identities: %w", err)
	}
	var entries []Entry
	var faults []error
	for _, file := range files {
		kind, ok := map[string]string{plainExt: "file", sealedExt: "passphrase", keyringExt: "keyring"}[filepath.Ext(file.Name())]
		if !ok {
			continue
		}
		e := Entry{Name: strings.TrimSuffix(file.Name(), filepath.Ext(file.Name())), Path: filepath.Join(s.Dir, file.Name()), Kind: kind}
		info, err := root.Lstat(file.Name())
		if err == nil {
			err = private(info, e.Path)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		entries = append(entries, e)
	}
	return entries, errors.Join(faults...)
}

// Open reads the identities of one entry. One under a passphrase is opened when it is first used.
func (s Source) Open(e Entry) ([]age.Identity, error) {
	text, err := s.text(e)
	if err != nil {
		return nil, err
	}
	return keys.ParseIdentities(e.Path, text, s.Ask)
}

// Own reads the age identities that Paper can write down: Load without SSH keys, and with passphrases asked for at once.
func (s Source) Own() ([]age.Identity, error) {
	s.Home = ""
	if s.Given() != "" {
		return s.Load()
	}
	entries, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []age.Identity
	for _, e := range entries {
		text, err := s.text(e)
		if err == nil && e.Kind == "passphrase" {
			text, err = unprotect(e.Path, text, s.Ask)
		}
		if err != nil {
			return nil, err
		}
		ids, err := keys.ParseIdentities(e.Path, text, s.Ask)
		if err != nil {
			return nil, err
		}
		all = append(all, ids...)
	}
	return all, nil
}

func (s Source) text(e Entry) ([]byte, error) {
	if e.Kind == "keyring" {
		return s.fromKeyring(e.Name)
	}
	root, err := s.folder()
	if err != nil {
		return nil, err
	}
	if root == nil {
		return nil, fmt.Errorf("read identity %q: %w", e.Name, fs.ErrNotExist)
	}
	defer root.Close()
	file, err := root.Open(filepath.Base(e.Path))
	if err != nil {
		return nil, fmt.Errorf("read identity %q: %w", e.Name, err)
	}
	defer file.Close()
	return readPrivate(file, e.Path)
}

// ssh are the usual SSH keys. They are the person's for other ends too, so one that cannot be used is left out.
func (s Source) ssh() []age.Identity {
	if s.Home == "" {
		return nil
	}
	var all []age.Identity
	for _, name := range []string{"id_ed25519", "id_rsa"} {
		path := filepath.Join(s.Home, ".ssh", name)
		file, err := os.Open(path)
		if err != nil {
			continue
		}
		text, err := readPrivate(file, path)
		file.Close()
		if err != nil {
			continue
		}
		if ids, err := keys.ParseIdentities(path, text, s.Ask); err == nil {
			all = append(all, ids...)
		}
	}
	return all
}
