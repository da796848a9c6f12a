package packages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/strict"
)

// How much one package may hold.
const (
	MaxFiles = 10_000
	MaxBytes = 64 << 20 // in all files together
	maxPath  = 512
)

// Content is one file of a package.
type Content struct {
	// Path is slash-separated, from the package's root.
	Path string
	// Exec says that it is executable.
	Exec bool
	Size int64
}

// Contents lists every file of a package, sorted by path. What cannot be part of one is a fleet.Errors: links and other
// things that are no files, names that some machine could not hold or read otherwise, and git's own files, which would mean
// something to the repository that the package is copied into.
func Contents(files fs.FS) ([]Content, error) {
	faults := &strict.Faults{}
	var list []Content
	var total int64
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if message, fix := nameFault(name); message != "" {
			faults.Add(fleet.Position{File: name}, fix, "%s", message)
			return skip(e)
		}
		switch {
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			faults.Add(fleet.Position{File: name}, "put the file itself here", "not a regular file")
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		list = append(list, Content{name, info.Mode()&0o111 != 0, info.Size()})
		if len(list) > MaxFiles || total > MaxBytes {
			faults.Add(fleet.Position{File: name}, "leave out what the package does not need", "the package holds more than %d files, or more than %d MiB", MaxFiles, MaxBytes>>20)
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the package's files: %w", err)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Content) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func nameFault(name string) (message, fix string) {
	base := path.Base(name)
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "a name with characters that cannot be shown", "rename it"
	case strings.ContainsAny(name, `\:*?"<>|`):
		return "a name that not every machine can hold", "rename it"
	case len(name) > maxPath:
		return "a path that is too long", fmt.Sprintf("use at most %d bytes", maxPath)
	}
	switch strings.ToLower(base) {
	case ".git", ".gitattributes", ".gitmodules":
		return "a file of git itself, which would change how the installation repo is read", "remove it"
	}
	return "", ""
}

// Digest is "sha256:" and a hash over every file of a package: its path, whether it is executable, and its content. It says
// what Contents says.
func Digest(files fs.FS) (string, error) {
	list, err := Contents(files)
	if err != nil {
		return "", err
	}
	total := sha256.New()
	field(total, "plural package v1")
	for _, c := range list {
		sum, err := contentHash(files, c)
		if err != nil {
			return "", err
		}
		field(total, c.Path)
		mode := "-"
		if c.Exec {
			mode = "x"
		}
		field(total, mode)
		field(total, string(sum))
	}
	return "sha256:" + hex.EncodeToString(total.Sum(nil)), nil
}

// field adds a text with its length, so that no two lists of texts give the same hash.
func field(h hash.Hash, text string) {
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(text)))
	_, _ = h.Write(length[:]) // never fails
	_, _ = io.WriteString(h, text)
}

func contentHash(files fs.FS, c Content) ([]byte, error) {
	file, err := files.Open(c.Path)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", c.Path, err)
	}
	defer func() { _ = file.Close() }() // read only: nothing is lost
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, c.Size+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", c.Path, err)
	}
	if n != c.Size {
		return nil, fmt.Errorf("read %q: the file changed while it was read", c.Path)
	}
	return h.Sum(nil), nil
}
