// Package expr owns the expressions in package files.
//
// It refuses to know what the variables mean and where their values come from. An expression is CEL between ${ and } in a
// text of a decoded tree; a text that is one expression and nothing else becomes that expression's value, any other text has
// its expressions' values put in as text, and $${ is ${ itself. Trees are evaluated, never their YAML: no value can become
// structure. What an expression refers to is known without evaluating it.
package expr

import "errors"

var errUnfinished = errors.New("unfinished")

// Variables are the names that expressions begin with:
//
//	answers.QUESTION                       the installation's answers
//	steps.STEP.outputs.NAME                what earlier steps of the package gave
//	packages.DEPENDENCY.outputs.NAME       what dependencies give; an optional one that is absent has an empty map of outputs
//	workspace.name, .hubURL, .repoURL, .branch
//	self.name, self.version                the package (CEL keeps the word package for itself)
//	installation.name
//	cluster.name, .tags, .parameters       the management cluster
//
// A name with a dash is written steps["my-step"].outputs.host.
var Variables = []string{"answers", "steps", "packages", "workspace", "self", "installation", "cluster"}

// Ref is something that an expression reads: answers.domain is ["answers", "domain"]. Where an index is computed, Path ends
// before it: everything below may be read.
type Ref struct{ Path []string }

// Leaf is one text of a tree that has expressions. Path leads to it: keys of maps, and indexes of lists in decimal.
type Leaf struct {
	Path []string
	Refs []Ref
}

// Tree is a decoded tree with its expressions compiled. It does not change, and is safe for concurrent use.
type Tree struct{}

// Error is an expression that cannot be compiled or evaluated. Path leads to its text in the tree.
type Error struct {
	Path []string
	Text string
	Err  error
}

// Error says where the expression is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the cause; a *MissingError for a value that is not there.
func (e *Error) Unwrap() error { return e.Err }

// MissingError says that an expression refers to something that is not there.
type MissingError struct{ Key string }

// Error names it.
func (e *MissingError) Error() string { return "no such key: " + e.Key }

// Compile reads the expressions of a tree of map[string]any, []any and scalars, as decoded from YAML or JSON. Errors are
// *Error, joined.
func Compile(tree any) (*Tree, error) { return nil, errUnfinished }

// Refs are what the tree's expressions read, sorted, each once.
func (t *Tree) Refs() []Ref { return nil }

// Leaves are the texts that have expressions, in the order of their paths.
func (t *Tree) Leaves() []Leaf { return nil }

// Eval gives the tree with the values of its expressions. Maps and lists are new.
func (t *Tree) Eval(vars map[string]any) (any, error) { return nil, errUnfinished }

// Touches says whether what is read may have something of path in it: path itself, what is below it, or what holds it.
func (r Ref) Touches(path ...string) bool { return false }

// Bool evaluates the condition of a when: one expression that is true or false. The empty text is true.
func Bool(text string, vars map[string]any) (bool, error) { return false, errUnfinished }
