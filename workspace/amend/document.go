package amend

import (
	"errors"
	"io/fs"

	"github.com/pluralsh/plural/workspace/fleet"
)

// The kinds of documents that Set, Create and Delete change.
const (
	Service = "Service"
	Source  = "Source"
	Cluster = "Cluster"
)

// Document names one document of an installation repo.
type Document struct{ Kind, Name string }

// Field is what is to stand at a place of a document.
type Field struct {
	// Key is the place in the words of crypto/values, such as spec.source.ref.
	Key string
	// Value is a text, a bool, a number, or a list or mapping of them; nil takes the field away.
	Value any
}

// Find tells where a document stands, also in a repo that has mistakes.
func Find(repo fs.FS, d Document) (fleet.Position, error) { return fleet.Position{}, errNotYet }

// Set plans that a document has these fields.
func Set(repo fs.FS, d Document, fields ...Field) (*Change, error) { return nil, errNotYet }

// Create plans a document that is not there yet: a *fleet.Service, *fleet.Source or *fleet.Cluster.
func Create(repo fs.FS, object any) (*Change, error) { return nil, errNotYet }

// Delete plans that a document goes.
func Delete(repo fs.FS, d Document) (*Change, error) { return nil, errNotYet }

// Rewrite plans that a file has this text.
func Rewrite(repo fs.FS, file string, text []byte) (*Change, error) { return nil, errNotYet }

var errNotYet = errors.New("not there yet")
