// Package yamledit owns the small changes that programs make to what people wrote in an installation repo.
//
// It refuses to know who asks for a change, and writes nothing: a change is one file as it was and as it will be. Everything
// in the file but the field that is meant stays as it is, comments and order included; and whoever loads the fleet
// afterwards finds there what was meant, or there is no change.
package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/values"
	"github.com/pluralsh/plural/internal/boundread"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
)

// Change is one file of an installation repo. File is relative to its root.
type Change struct {
	File          string
	Before, After []byte
}

// Done says that the file has it all already.
func (c *Change) Done() bool { return bytes.Equal(c.Before, c.After) }

// Error is a change that cannot be made.
type Error struct {
	// Message says what is wrong, Fix what to do instead.
	Message, Fix string
}

// Error is the message with the fix behind it.
func (e *Error) Error() string { return e.Message + "; " + e.Fix }

// Suspend plans that agents leave a service alone, or that they keep it again.
func Suspend(repo fs.FS, service string, suspended bool) (*Change, error) {
	return field{service, "spec.suspend"}.change(repo, strconv.FormatBool(suspended),
		func(f *fleet.Fleet) (has, done bool) {
			s, ok := f.Service(service)
			return ok && s.Spec.Suspend, ok && s.Spec.Suspend == suspended
		},
		func(file string, text []byte, key string, has bool) ([]byte, error) {
			if has && !suspended {
				return values.Delete(file, text, key)
			}
			return values.Set(file, text, key, []byte("true"), values.Bool)
		})
}

// field is where something is written: in a service's document or, without one, in the workspace's.
type field struct{ service, key string }

func (at field) String() string {
	if at.service == "" {
		return "the workspace"
	}
	return fmt.Sprintf("service %q", at.service)
}

// change plans one. The state says of a fleet whether the field is written there, and whether it says what is wanted; put
// writes it into the document that the key begins with.
func (at field) change(
	repo fs.FS, want string, state func(*fleet.Fleet) (has, done bool), put func(file string, text []byte, key string, has bool) ([]byte, error),
) (*Change, error) {
	before, err := fleet.Load(repo)
	if err != nil {
		return nil, err
	}
	c := new(Change)
	if c.File, err = at.file(before); err != nil {
		return nil, err
	}
	if c.Before, err = read(repo, c.File); err != nil {
		return nil, err
	}
	c.After = c.Before
	has, done := state(before)
	if done {
		return c, nil
	}
	key, err := at.inDocument(c.File, c.Before)
	if err != nil {
		return nil, err
	}
	if c.After, err = put(c.File, c.Before, key, has); err != nil {
		return nil, err
	}
	after, err := fleet.Load(overlay.New(repo, map[string][]byte{c.File: c.After}))
	if err != nil {
		return nil, err
	}
	if _, done := state(after); !done {
		return nil, &Error{fmt.Sprintf("%s of %s cannot be changed by a program", at.key, at), fmt.Sprintf("write %s there by hand", want)}
	}
	return c, nil
}

// file is where the document stands.
func (at field) file(f *fleet.Fleet) (string, error) {
	if at.service == "" {
		return f.Workspace.Position.File, nil
	}
	s, ok := f.Service(at.service)
	if !ok {
		return "", &Error{fmt.Sprintf("the installation repo has no service %q", at.service), "git pull, or plural service list"}
	}
	return s.Position.File, nil
}

// read is one file, as far as a fleet's may be long.
func read(repo fs.FS, name string) ([]byte, error) {
	return boundread.File(repo, name, fleet.MaxFile)
}

// inDocument is the key with the place of its document before it, where a file has several.
func (at field) inDocument(file string, text []byte) (string, error) {
	n, err := documents(text)
	if err != nil || n < 2 || at.service == "" {
		return at.key, err
	}
	for i := range n {
		document := fmt.Sprintf("[%d].", i)
		if name, err := values.Get(file, text, document+"metadata.name"); err == nil && string(name) == at.service {
			return document + at.key, nil
		}
	}
	return at.key, nil
}

// documents counts them.
func documents(text []byte) (int, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; ; n++ {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return 0, fmt.Errorf("count documents: %w", err)
		}
	}
}
