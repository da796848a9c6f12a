package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/schema"
)

// The kinds of documents that Set, Create and Delete change.
const (
	Service = "Service"
	Source  = "Source"
	Cluster = "Cluster"
	// Workspace, User and Provider are only changed.
	Workspace   = "Workspace"
	User        = "User"
	Provider    = "Provider"
	Application = "Application"
)

// packagesFolder holds services that programs made, and make anew.
const packagesFolder = "packages"

// Document names one document of an installation repo.
type Document struct{ Kind, Name string }

func (d Document) String() string { return fmt.Sprintf("%s %q", d.noun(), d.Name) }

// noun is what commands call the kind.
func (d Document) noun() string { return strings.ToLower(d.Kind) }

// folder is where people write such documents.
func (d Document) folder() string {
	if d.Kind == User || d.Kind == Provider || d.Kind == Application {
		return "access"
	}
	return d.noun() + "s"
}

// InvalidError is a change that would leave mistakes behind. Their places are those in the files as they would be.
type InvalidError struct{ Mistakes fleet.Errors }

// Error lists the mistakes.
func (e *InvalidError) Error() string {
	return "the change would leave mistakes behind: " + e.Mistakes.Error()
}

// Unwrap is the mistakes.
func (e *InvalidError) Unwrap() error { return e.Mistakes }

// Find tells where a document stands that people wrote, also in a repo that has mistakes.
func Find(repo fs.FS, d Document) (fleet.Position, error) {
	known, err := fleet.Load(repo)
	if err == nil {
		return locate(known, d)
	}
	if !errors.As(err, new(fleet.Errors)) {
		return fleet.Position{}, err
	}
	files, err := fs.Glob(repo, d.folder()+"/*.y*ml")
	if err != nil {
		return fleet.Position{}, fmt.Errorf("list %s: %w", d.folder(), err)
	}
	for _, file := range files {
		text, err := read(repo, file)
		if err != nil {
			return fleet.Position{}, err
		}
		for _, c := range chunks(text) {
			if c.holds(d) {
				return fleet.Position{File: file, Line: c.line}, nil
			}
		}
	}
	for _, file := range files { // its text may be too damaged to say so
		if strings.TrimSuffix(path.Base(file), path.Ext(file)) == d.Name {
			return fleet.Position{File: file, Line: 1}, nil
		}
	}
	return fleet.Position{}, d.missing()
}

// Create plans a document that is not there yet: a *fleet.Service, *fleet.Source, *fleet.Cluster or *fleet.Application, whose kind it sets.
func Create(repo fs.FS, object any) (*Change, error) {
	d, err := stamp(object)
	if err != nil {
		return nil, err
	}
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	if at, ok := position(before, d); ok {
		return nil, &Error{
			fmt.Sprintf("%s is there already, in %s", d, at), fmt.Sprintf("change it: plural %s edit %s", d.noun(), d.Name),
		}
	}
	c := &Change{File: d.folder() + "/" + d.Name + ".yaml"}
	if !fs.ValidPath(c.File) || strings.ContainsRune(d.Name, '/') {
		return nil, &Error{fmt.Sprintf("%q is no name for a file", d.Name), "use lower-case letters, digits and dashes"}
	}
	if _, err := fs.Stat(repo, c.File); err == nil { // it holds documents of other names
		if c.Before, err = read(repo, c.File); err != nil {
			return nil, err
		}
		c.After = append(bytes.TrimRight(bytes.Clone(c.Before), "\n"), "\n---\n"...)
	}
	text, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", d, err)
	}
	if c.After == nil {
		name := d.noun()
		if d.Kind == Application {
			name = schema.Access
		}
		c.After = schema.Line(repo, c.File, name)
	}
	c.After = append(c.After, text...)
	after, err := c.valid(repo)
	if err != nil {
		return nil, err
	}
	if _, ok := position(after, d); !ok {
		return nil, &Error{fmt.Sprintf("%s cannot be written by a program", d), "write it by hand into " + c.File}
	}
	return c, nil
}

// begin is a change of the file that a document is in, and where it is in there.
func begin(repo fs.FS, d Document) (*Change, fleet.Position, error) {
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, fleet.Position{}, err
	}
	at, err := locate(before, d)
	if err != nil {
		return nil, at, err
	}
	c := &Change{File: at.File}
	c.Before, err = read(repo, c.File)
	return c, at, err
}

// Delete plans that a document goes, with its file where it is alone there.
func Delete(repo fs.FS, d Document) (*Change, error) {
	c, at, err := begin(repo, d)
	if err != nil {
		return nil, err
	}
	c.After = without(c.Before, d)
	after, err := c.valid(repo)
	if err != nil {
		return nil, err
	}
	if _, still := position(after, d); still {
		return nil, &Error{fmt.Sprintf("%s cannot be taken away by a program", d), "take it out of " + at.String() + " by hand"}
	}
	return c, nil
}

// Rewrite plans that a file of the repo has this text. Mistakes that are there already do not keep it from being changed, and
// new ones do.
func Rewrite(repo fs.FS, file string, text []byte) (*Change, error) {
	c := &Change{File: file, After: text}
	var err error
	if c.Before, err = read(repo, file); err != nil {
		return nil, err
	}
	_, err = fleet.Load(repo)
	var old fleet.Errors
	if err != nil && !errors.As(err, &old) {
		return nil, err
	}
	_, err = c.valid(repo)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return c, err
	}
	// The lines of a file move when it is changed, so a mistake is known again by its words.
	said := map[string]int{}
	words := func(e *fleet.Error) string { return e.Position.File + "\n" + e.Message }
	for _, e := range old {
		said[words(e)]++
	}
	added := slices.DeleteFunc(slices.Clone(invalid.Mistakes), func(e *fleet.Error) bool {
		said[words(e)]--
		return said[words(e)] >= 0
	})
	if len(added) > 0 {
		return nil, &InvalidError{added}
	}
	return c, nil
}

// valid is the fleet as it would be.
func (c *Change) valid(repo fs.FS) (*fleet.Fleet, error) {
	after, err := fleet.Load(overlay.New(repo, map[string][]byte{c.File: c.After}))
	var mistakes fleet.Errors
	if errors.As(err, &mistakes) {
		return nil, &InvalidError{mistakes}
	}
	return after, err
}

// stamp says what an object is, in the object too.
func stamp(object any) (Document, error) {
	switch o := object.(type) {
	case *fleet.Service:
		o.TypeMeta = fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: Service}
		return Document{Service, o.Metadata.Name}, nil
	case *fleet.Source:
		o.TypeMeta = fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: Source}
		return Document{Source, o.Metadata.Name}, nil
	case *fleet.Cluster:
		o.TypeMeta = fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: Cluster}
		return Document{Cluster, o.Metadata.Name}, nil
	case *fleet.Application:
		o.TypeMeta = fleet.TypeMeta{APIVersion: fleet.APIVersion, Kind: Application}
		return Document{Application, o.Metadata.Name}, nil
	}
	return Document{}, fmt.Errorf("create: a %T is no document that people write one by one", object)
}

func encode(object any) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(object); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}

// position is where a fleet has a document.
func position(f *fleet.Fleet, d Document) (fleet.Position, bool) {
	switch d.Kind {
	case Service:
		if s, ok := f.Service(d.Name); ok {
			return s.Position, true
		}
	case Source:
		if s, ok := f.Source(d.Name); ok {
			return s.Position, true
		}
	case Cluster:
		if c, ok := f.Cluster(d.Name); ok {
			return c.Position, true
		}
	case User:
		if u, ok := f.User(d.Name); ok {
			return u.Position, true
		}
	case Workspace:
		return f.Workspace.Position, f.Workspace.Metadata.Name == d.Name
	case Application:
		if a, ok := f.Application(d.Name); ok {
			return a.Position, true
		}
	case Provider:
		for i := range f.Providers {
			if f.Providers[i].Metadata.Name == d.Name {
				return f.Providers[i].Position, true
			}
		}
	}
	return fleet.Position{}, false
}

// locate is position for a document that people wrote: one of a package is made anew from its answers.
func locate(f *fleet.Fleet, d Document) (fleet.Position, error) {
	at, ok := position(f, d)
	if !ok {
		return at, d.missing()
	}
	if folder, rest, _ := strings.Cut(at.File, "/"); folder == packagesFolder {
		name, _, _ := strings.Cut(rest, "/")
		return at, &Error{
			fmt.Sprintf("%s is made of package %q, in %s", d, name, at.File), fmt.Sprintf("plural package set %s QUESTION=VALUE", name),
		}
	}
	return at, nil
}

func (d Document) missing() error {
	return &Error{fmt.Sprintf("the installation repo has no %s", d), fmt.Sprintf("git pull, or plural %s list", d.noun())}
}

// chunk is one document's text in a file, with the line of dashes that it begins with, if any.
type chunk struct {
	text []byte
	// line is the first one, counted from 1.
	line int
}

// chunks cuts a text at its lines of dashes. In YAML no text that is meant otherwise can have such a line.
func chunks(text []byte) []chunk {
	var out []chunk
	start, line, first := 0, 1, 1
	for at := 0; at < len(text); {
		end := at + bytes.IndexByte(text[at:], '\n') + 1
		if end == at {
			end = len(text)
		}
		if at > 0 && isMarker(text[at:end]) {
			out = append(out, chunk{text[start:at], first})
			start, first = at, line
		}
		at, line = end, line+1
	}
	return append(out, chunk{text[start:], first})
}

func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsRune([]byte(" \t\r\n"), rune(rest[0])))
}

// holds says whether the chunk is a document's.
func (c chunk) holds(d Document) bool {
	var head struct {
		Kind     string
		Metadata struct{ Name string }
	}
	return yaml.Unmarshal(c.text, &head) == nil && head.Kind == d.Kind && head.Metadata.Name == d.Name
}

// isEmpty says whether there is nothing but comments in the chunk.
func (c chunk) isEmpty() bool {
	var content yaml.Node
	return yaml.Unmarshal(c.text, &content) == nil && content.Kind == 0
}

// without is a text without a document; nil when no other is left.
func without(text []byte, d Document) []byte {
	all := chunks(text)
	rest := slices.DeleteFunc(slices.Clone(all), func(c chunk) bool { return c.holds(d) })
	if !slices.ContainsFunc(rest, func(c chunk) bool { return !c.isEmpty() }) {
		return nil
	}
	var out []byte
	for i, c := range rest {
		if i == 0 && c.line > 1 && !isMarker(all[0].text) { // it becomes the first, and needs to be set apart no more
			if marker, after, ok := bytes.Cut(c.text, []byte("\n")); ok && len(bytes.TrimRight(marker, " \t\r")) == len("---") {
				c.text = after
			}
		}
		out = append(out, c.text...)
	}
	if named := schema.Named(text); !bytes.HasPrefix(out, named) { // it is about what stays too
		out = append(named, out...)
	}
	return out
}
