package packages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pluralsh/plural/internal/boundwalk"
	"github.com/pluralsh/plural/internal/yamlstrict"
	"github.com/pluralsh/plural/workspace/fleet"
)

// How much one package may hold.
const (
	MaxFiles = 10_000
	MaxBytes = 64 << 20 // in all files together
	// MaxContent is one file's: what changes files in an installation repo takes no larger ones.
	MaxContent = 3 << 20
	maxPath    = 512
)

// Content is one file of a package.
type Content struct {
	// Path is slash-separated, from the package's root.
	Path string
	Size int64
}

// Contents lists every file of a package, sorted by path. What cannot be part of one is a fleet.Errors: links and other
// things that are no files, names that some machine could not hold or read otherwise, and what the repository that the package
// is copied into would not keep as it is: git's own files, executables, files that would be sealed.
func Contents(files fs.FS) ([]Content, error) {
	faults := &yamlstrict.Faults{}
	folded := map[string]string{}
	var list []Content
	var total int64
	err := boundwalk.Dir(files, ".", 2*MaxFiles, func(name string, e fs.DirEntry, err error) error {
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
		list = append(list, Content{name, info.Size()})
		if message, fix := unfit(name, info, folded); message != "" {
			faults.Add(fleet.Position{File: name}, fix, "%s", message)
		}
		if len(list) > MaxFiles || total > MaxBytes {
			faults.Add(fleet.Position{File: name}, "leave out what the package does not need", "the package holds more than %d files, or more than %d MiB", MaxFiles, MaxBytes>>20)
			return fs.SkipAll
		}
		return nil
	})
	var many *boundwalk.TooManyError
	if errors.As(err, &many) { // folders, and what is no part of a package
		faults.Add(fleet.Position{File: many.At}, many.Fix(), "the package holds more than %d files and folders", many.Most)
	} else if err != nil {
		return nil, fmt.Errorf("list the package's files: %w", err)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b Content) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

// unfit says why a file cannot be kept as it is. folded are the files before it, by their names in lower case.
func unfit(name string, info fs.FileInfo, folded map[string]string) (message, fix string) {
	lower := strings.ToLower(name)
	other, clash := folded[lower]
	folded[lower] = name
	switch {
	case clash:
		return fmt.Sprintf("not every machine can tell it from %s", yamlstrict.Quote(other)), "rename one of them"
	case info.Mode()&0o111 != 0:
		return "an executable, which the installation repo does not keep as one", "chmod -x, and call it by its interpreter: sh FILE"
	case info.Size() > MaxContent:
		return fmt.Sprintf("it is larger than %d MiB", MaxContent>>20), "fetch it where it is used"
	case strings.HasSuffix(lower, ".secret.yaml") || strings.HasSuffix(lower, ".secret.yml"):
		return "it would be sealed in the installation repo, and a package is no secret", "ask for secrets by questions of type secret, and rename it"
	}
	return "", ""
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
	case ".git", ".gitattributes", ".gitmodules", ".gitignore":
		return "a file of git itself, which would change how the installation repo is read, or what git sees of it", "remove it"
	}
	return "", ""
}

// Digest is "sha256:" and a hash over every file of a package: its path and its content. Its errors are those of Contents.
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
