package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"filippo.io/age"
)

const (
	bindType    = "plural.sh/bind"
	bindVersion = "1"
)

// Binding says where a sealed file belongs, and for whom it was made.
type Binding struct {
	// Repository is the installation repo's id.
	Repository string
	// Path is the file's, from the repository's root, with slashes.
	Path string
	// Groups are those whose identities open the file, sorted by name.
	Groups []Epoch
}

// Epoch is one identity of a group.
type Epoch struct {
	Group string
	// Number counts the group's identities from 1.
	Number int
}

// String is "GROUP NUMBER".
func (e Epoch) String() string { return e.Group + " " + strconv.Itoa(e.Number) }

// BindingError means that a file does not belong where it was found.
type BindingError struct {
	// Path and Repository are where it was found.
	Path, Repository string
	// Got is where it belongs, nil when it does not say.
	Got *Binding
}

// Error names both places.
func (e *BindingError) Error() string {
	switch {
	case e.Got == nil:
		return fmt.Sprintf("%q is bound to nothing: any file could have been put in its place", e.Path)
	case e.Got.Repository != e.Repository:
		return fmt.Sprintf("%q is bound to %q of another repository (%.40s)", e.Path, e.Got.Path, e.Got.Repository)
	}
	return fmt.Sprintf("%q is bound to %q: it was moved, copied or swapped", e.Path, e.Got.Path)
}

// Fix is what to do when the file is meant to be where it is.
func (e *BindingError) Fix() string {
	if e.Moved() || e.Got == nil {
		return "if it is meant to be there: plural crypto encrypt " + e.Path
	}
	return "put the value in as plaintext, so that it is sealed for this repository"
}

// Moved says that the file belongs to the same repository, at another path.
func (e *BindingError) Moved() bool { return e.Got != nil && e.Got.Repository == e.Repository }

// Check says whether a file with this binding belongs at path in repository; what is bound to nothing belongs nowhere.
// The error is a *BindingError.
func (b *Binding) Check(repository, path string) error {
	if b != nil && b.Repository == repository && b.Path == path {
		return nil
	}
	return &BindingError{Path: path, Repository: repository, Got: b}
}

func (b Binding) sorted() Binding {
	b.Groups = slices.SortedFunc(slices.Values(b.Groups), func(x, y Epoch) int { return strings.Compare(x.Group, y.Group) })
	return b
}

func (b Binding) valid() error {
	switch {
	case !isWord(b.Repository):
		return fmt.Errorf("bind to repository %q: bad id", b.Repository)
	case !fs.ValidPath(b.Path) || b.Path == "." || strings.ContainsFunc(b.Path, unicode.IsControl):
		return fmt.Errorf("bind to path %q: want a file's path from the repository's root, with slashes, without control characters", b.Path)
	case len(b.Groups) == 0:
		return errors.New("bind to no group")
	}
	for i, g := range b.Groups {
		if !isWord(g.Group) || g.Number < 1 {
			return fmt.Errorf("bind to group %q of epoch %d: bad name or epoch", g.Group, g.Number)
		}
		if i > 0 && b.Groups[i-1].Group >= g.Group {
			return fmt.Errorf("bind to group %q twice or out of order", g.Group)
		}
	}
	return nil
}

// isWord says whether s fits between the spaces of a line.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// stanza is the binding in the file's header.
func (b Binding) stanza() *age.Stanza {
	var body bytes.Buffer
	fmt.Fprintf(&body, "repository %s\npath %s\n", b.Repository, b.Path)
	for _, g := range b.Groups {
		fmt.Fprintf(&body, "group %s\n", g)
	}
	return &age.Stanza{Type: bindType, Args: []string{bindVersion}, Body: body.Bytes()}
}

// findBinding is the binding of a header, nil when it has none. Two could say two things: they are refused.
func findBinding(stanzas []*age.Stanza) (*Binding, error) {
	var found *Binding
	for _, s := range stanzas {
		if s.Type != bindType {
			continue
		}
		b, err := parseBinding(s)
		if err != nil {
			return nil, damaged(err)
		}
		if found != nil {
			return nil, damaged(errors.New("it is bound twice"))
		}
		found = b
	}
	return found, nil
}

// parseBinding accepts exactly what stanza writes, so that one binding has one form.
func parseBinding(s *age.Stanza) (*Binding, error) {
	if !slices.Equal(s.Args, []string{bindVersion}) {
		return nil, fmt.Errorf("binding of version %q: want %s", s.Args, bindVersion)
	}
	var b Binding
	for line := range strings.Lines(string(s.Body)) {
		word, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "repository":
			b.Repository = value
		case "path":
			b.Path = value
		case "group":
			name, number, _ := strings.Cut(value, " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				return nil, fmt.Errorf("binding to group %.40q: bad epoch", name)
			}
			b.Groups = append(b.Groups, Epoch{Group: name, Number: n})
		}
	}
	if err := b.valid(); err != nil {
		return nil, err
	}
	if !bytes.Equal(b.stanza().Body, s.Body) {
		return nil, errors.New("binding is not in its one form")
	}
	return &b, nil
}

// beside returns the recipients with the binding behind them, which passes for one more of their kind.
func (b Binding) beside(to []age.Recipient) []age.Recipient {
	var labels []string
	all := make([]age.Recipient, 0, len(to)+1)
	for _, r := range to {
		all = append(all, labelled{r, &labels})
	}
	return append(all, binder{b.stanza(), &labels})
}

// labelled notes a recipient's labels for the binder that comes after it, because age mixes only recipients with the
// same labels, and wrapping twice to learn them might ask a person twice.
type labelled struct {
	age.Recipient
	labels *[]string
}

func (l labelled) WrapWithLabels(fileKey []byte) (stanzas []*age.Stanza, labels []string, err error) {
	if r, ok := l.Recipient.(age.RecipientWithLabels); ok {
		stanzas, labels, err = r.WrapWithLabels(fileKey)
	} else {
		stanzas, err = l.Wrap(fileKey)
	}
	*l.labels = labels
	return stanzas, labels, err
}

// binder is the recipient that adds the stanza, which holds nothing of the file key.
type binder struct {
	stanza *age.Stanza
	labels *[]string
}

func (b binder) Wrap([]byte) ([]*age.Stanza, error) { return []*age.Stanza{b.stanza}, nil }

func (b binder) WrapWithLabels([]byte) ([]*age.Stanza, []string, error) {
	return []*age.Stanza{b.stanza}, *b.labels, nil
}
