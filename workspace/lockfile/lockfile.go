// Package lockfile owns plural.lock: which version of each package an installation repo holds.
//
// It refuses to know what a version contains, and which versions fit together.
//
// Load reads the file strictly; a repository without one has an empty Lock. Encode writes the same Lock as the same bytes,
// whoever made it, so that two people who resolve the same packages commit the same file.
package lockfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/yamlerror"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/versions"
)

// File is where a lock lies in an installation repo.
const File = "plural.lock"

// kind is what the file says of itself.
const kind = "Lock"

// Bounds of one lock. They are far above what a fleet has.
const (
	maxSize     = 8 << 20
	maxPackages = 10_000
	maxRequires = 1_000 // of one package
)

// header stands above what is written.
const header = "# Written by plural: which version of each package this repository holds. Do not edit it.\n"

// Lock pins every installation. The zero value pins nothing.
type Lock struct {
	// Packages are sorted by name.
	Packages []Entry
}

// Entry is what one installation was resolved to.
type Entry struct {
	// Name is the installation's.
	Name string `yaml:"name"`
	// Package, Catalog and Version say what was taken, and from where.
	Package string `yaml:"package"`
	Catalog string `yaml:"catalog"`
	Version string `yaml:"version"`
	// Digest is that of the package as the catalog has it: "sha256:...".
	Digest string `yaml:"digest"`
	// Requires says which installation satisfies each dependency, by the name of the dependency.
	Requires map[string]string `yaml:"requires,omitempty"`
}

// document is the file.
type document struct {
	APIVersion string  `yaml:"apiVersion"`
	Kind       string  `yaml:"kind"`
	Packages   []Entry `yaml:"packages"`
}

// Error is a lock that cannot be used.
type Error struct {
	// Line counts from 1; 0 is unknown.
	Line         int
	Message, Fix string
}

// Error names the place, what is wrong, and what to do.
func (e *Error) Error() string {
	at := fleet.Position{File: File, Line: e.Line}
	return (&fleet.Error{Position: at, Message: e.Message, Fix: e.Fix}).Error()
}

// restore is what helps with a file that nobody should have edited.
const restore = "take back what was changed: git checkout " + File

// Load reads the lock of the installation repo at the root of fsys. A repository without one has an empty lock. A file that is
// no lock is an *Error.
func Load(fsys fs.FS) (*Lock, error) {
	text, err := boundread.File(fsys, File, maxSize)
	switch {
	case errors.Is(err, boundread.ErrNotRegular):
		return nil, &Error{Message: "it is not a regular file", Fix: restore}
	case errors.Is(err, fs.ErrNotExist):
		return &Lock{}, nil
	case err != nil:
		return nil, err
	}
	return Parse(text)
}

// Parse reads a lock's text. What is wrong with it is an *Error.
func Parse(text []byte) (*Lock, error) {
	if len(text) > maxSize {
		return nil, &Error{Message: fmt.Sprintf("it is larger than %d MiB", maxSize>>20), Fix: restore}
	}
	if line := conflictMarker(text); line > 0 {
		fix := "take either side, then resolve anew: git checkout --theirs " + File + " && plural package upgrade"
		return nil, &Error{Line: line, Message: "merge conflict in the file", Fix: fix}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	var d document
	switch err := decoder.Decode(&d); {
	case errors.Is(err, io.EOF):
		return &Lock{}, nil
	case err != nil:
		return nil, malformed(err)
	case d.APIVersion != fleet.APIVersion:
		fix := "it may be of a newer plural: use that one; or " + restore
		return nil, &Error{Message: fmt.Sprintf("unknown apiVersion %.40q", d.APIVersion), Fix: fix}
	case d.Kind != kind:
		return nil, &Error{Message: fmt.Sprintf("unknown kind %.40q", d.Kind), Fix: restore}
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, &Error{Message: "more than one document", Fix: restore}
	}
	l := &Lock{Packages: d.Packages}
	return l, l.check()
}

func malformed(err error) error {
	e := &Error{Message: err.Error(), Fix: restore}
	var wrong *yaml.TypeError
	if errors.As(err, &wrong) && len(wrong.Errors) > 0 {
		e.Message = wrong.Errors[0]
	}
	e.Line, e.Message = yamlerror.Line(e.Message)
	e.Message = yamlerror.Plain(e.Message)
	return e
}

// conflictMarker is the line of git's first conflict marker, or 0.
func conflictMarker(text []byte) int {
	line := 0
	for one := range bytes.Lines(text) {
		if line++; bytes.HasPrefix(one, []byte("<<<<<<< ")) {
			return line
		}
	}
	return 0
}

var (
	label  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) })
	digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// check refuses what nobody could have resolved.
func (l *Lock) check() error {
	if len(l.Packages) > maxPackages {
		return &Error{Message: fmt.Sprintf("more than %d packages", maxPackages), Fix: restore}
	}
	slices.SortStableFunc(l.Packages, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	for i := range l.Packages {
		e := &l.Packages[i]
		if i > 0 && l.Packages[i-1].Name == e.Name {
			return &Error{Message: fmt.Sprintf("the installation %.70q is there twice", e.Name), Fix: restore}
		}
		if err := e.check(); err != "" {
			return &Error{Message: fmt.Sprintf("installation %.70q: %s", e.Name, err), Fix: restore}
		}
	}
	return nil
}

func (e *Entry) check() string {
	for _, name := range []string{e.Name, e.Package, e.Catalog} {
		if !label().MatchString(name) {
			return fmt.Sprintf("bad name %.70q", name)
		}
	}
	switch {
	case !versions.Is(e.Version):
		return fmt.Sprintf("bad version %.70q", e.Version)
	case !digest.MatchString(e.Digest):
		return fmt.Sprintf("bad digest %.80q", e.Digest)
	case len(e.Requires) > maxRequires:
		return fmt.Sprintf("more than %d dependencies", maxRequires)
	}
	for dependency, by := range e.Requires {
		if !label().MatchString(dependency) || !label().MatchString(by) {
			return fmt.Sprintf("bad dependency %.70q: %.70q", dependency, by)
		}
	}
	return ""
}

// Encode is the file's content.
func (l *Lock) Encode() ([]byte, error) {
	sorted := &Lock{Packages: slices.Clone(l.Packages)}
	if err := sorted.check(); err != nil {
		return nil, fmt.Errorf("write %w", err)
	}
	out := bytes.NewBufferString(header)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(document{fleet.APIVersion, kind, sorted.Packages}); err != nil {
		return nil, fmt.Errorf("write %s: %w", File, err)
	}
	return out.Bytes(), nil
}

// Entry finds an installation by name. The result is shared: do not change it.
func (l *Lock) Entry(name string) (*Entry, bool) {
	i, ok := l.search(name)
	if !ok {
		return nil, false
	}
	return &l.Packages[i], true
}

// Set puts an entry in its place, instead of one with the same name.
func (l *Lock) Set(e Entry) {
	i, ok := l.search(e.Name)
	if ok {
		l.Packages[i] = e
		return
	}
	l.Packages = slices.Insert(l.Packages, i, e)
}

// Remove takes an installation out, if it is there.
func (l *Lock) Remove(name string) {
	if i, ok := l.search(name); ok {
		l.Packages = slices.Delete(l.Packages, i, i+1)
	}
}

// Clone is a lock of its own.
func (l *Lock) Clone() *Lock { return &Lock{Packages: slices.Clone(l.Packages)} }

func (l *Lock) search(name string) (int, bool) {
	return slices.BinarySearchFunc(l.Packages, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
}
