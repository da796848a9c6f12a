// Package expr owns expressions in package files.
//
// It refuses to know what the variables mean and where their values come from. An expression is CEL between ${ and } in a
// text of a decoded tree; a text that is one expression and nothing else becomes that expression's value, any other text has
// its expressions' values put in as text, and $${ is ${ itself. Trees are evaluated, never their YAML: no value can become
// structure, and what an expression gives is not looked at for expressions again. What an expression refers to is known
// without evaluating it.
package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"

	"github.com/pluralsh/plural/internal/boundcel"
)

// What one tree may be and take. A package's author may be a stranger.
const (
	// MaxExpressions is how many expressions one tree may have.
	MaxExpressions = 5_000
	// MaxDepth is how deep a tree may be, and what its expressions give.
	MaxDepth = 100
	// maxValues is how many values a tree may become, with all that is inside them.
	maxValues = 500_000
	// maxText is how long all texts together may become, in bytes.
	maxText = 16 << 20
	// maxTime is the backstop for what the cost of single expressions does not bound.
	maxTime = 10 * time.Second
)

// Names are the variables that expressions begin with:
//
//	answers.QUESTION                       the installation's answers
//	steps.STEP.outputs.NAME                what earlier steps of the package gave
//	packages.DEPENDENCY.outputs.NAME       what dependencies give; one that is absent has no outputs
//	workspace.name, .hubURL, .repoURL, .branch
//	self.name, self.version                the package (CEL keeps the word package for itself)
//	installation.name
//	cluster.name, .tags, .parameters       the management cluster
//
// A name with a dash is written steps["my-step"].outputs.host.
func Names() []string {
	return []string{"answers", "cluster", "installation", "packages", "self", "steps", "workspace"}
}

// Ref is something that an expression reads: answers.domain is ["answers", "domain"]. Where an index is computed, Path ends
// before it: everything below may be read.
type Ref struct{ Path []string }

// String is the path with dots.
func (r Ref) String() string { return strings.Join(r.Path, ".") }

// Touches says whether what is read may have something of path in it: path itself, what is below it, or what holds it.
func (r Ref) Touches(path ...string) bool {
	n := min(len(r.Path), len(path))
	return slices.Equal(r.Path[:n], path[:n])
}

// Leaf is one text of a tree that has expressions. Path leads to it: keys of maps, and indexes of lists in decimal.
type Leaf struct {
	Path []string
	Refs []Ref
}

// Tree is a decoded tree with its expressions compiled. It does not change, and is safe for concurrent use.
type Tree struct {
	root   node
	leaves []Leaf
}

// Error is an expression that cannot be compiled or evaluated.
type Error struct {
	// At leads to its text in the tree: "values.hosts[0]".
	At string
	// Text is the expression, Err what is wrong with it.
	Text string
	Err  error
}

// Error says which expression is wrong, and why.
func (e *Error) Error() string {
	var at string
	if e.At != "" {
		at = e.At + ": "
	}
	return at + quoted(e.Text) + ": " + cause(e.Err)
}

// Cause is what is wrong with the expression, on one line.
func (e *Error) Cause() string { return cause(e.Err) }

// cause says what a package's author has to know of this language besides.
func cause(err error) string {
	return strings.ReplaceAll(boundcel.Brief(err), "reserved identifier: package", "the word package is CEL's own: the package itself is called self")
}

// Unwrap is the cause; a *MissingError for a value that is not there.
func (e *Error) Unwrap() error { return e.Err }

// MissingError says that an expression refers to something that is not there.
type MissingError = boundcel.MissingError

// language is made once: it takes longer than the expressions do.
//
//nolint:gochecknoglobals // it never changes
var language = sync.OnceValues(func() (*cel.Env, error) { return boundcel.Environment(Names()...) })

// Compile reads the expressions of a tree of map[string]any, []any and scalars, as decoded from YAML or JSON. Errors are
// *Error, joined.
func Compile(tree any) (*Tree, error) {
	env, err := language()
	if err != nil {
		return nil, err
	}
	c := &compiler{env: env}
	root := c.node(tree, nil, "")
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return &Tree{root, c.leaves}, nil
}

// Refs are what the tree's expressions read, sorted, each once.
func (t *Tree) Refs() []Ref {
	var all []Ref
	for _, l := range t.leaves {
		all = append(all, l.Refs...)
	}
	return unique(all)
}

// Leaves are the texts that have expressions, in the order of their paths.
func (t *Tree) Leaves() []Leaf { return t.leaves }

// Eval gives the tree with the values of its expressions: nil, bool, int64, uint64, float64, string, []any and
// map[string]any. Maps and lists are new. A variable that is not given is an empty map. The error is an *Error, and may tell
// values: who evaluates with secrets uses EvalHiding.
func (t *Tree) Eval(vars map[string]any) (any, error) {
	return t.EvalWith(vars, Options{})
}

// EvalHiding is Eval, whose error tells no value of an expression that reads something secret.
func (t *Tree) EvalHiding(vars map[string]any, secret func(Ref) bool) (any, error) {
	return t.EvalWith(vars, Options{Secret: secret})
}

// Options are what an evaluation needs besides the variables.
type Options struct {
	// Secret says what is secret: errors tell no value of an expression that reads it. nil: nothing is.
	Secret func(Ref) bool
	// Text writes the text at a path, which is not kept. It is called for every text that has something of an expression in
	// it, those inside the lists and maps that an expression gives among them, for whoever reads texts as more than that and has
	// to tell what their author wrote from what was put in. Keys of maps are not texts. nil: the parts are joined.
	Text func(path []string, parts []Part) (string, error)
}

// Part is a part of a text: as its author wrote it, or as an expression gave it.
type Part struct {
	Text  string
	Given bool
}

// EvalWith is Eval with options.
func (t *Tree) EvalWith(vars map[string]any, o Options) (any, error) {
	e := &evaluation{
		vars: make(map[string]any, len(vars)), secret: o.Secret, write: o.Text,
		values: maxValues, text: maxText, end: time.Now().Add(maxTime),
	}
	if e.secret == nil {
		e.secret = func(Ref) bool { return false }
	}
	for _, name := range Names() {
		e.vars[name] = map[string]any{}
	}
	for name, value := range vars {
		if value != nil {
			e.vars[name] = value
		}
	}
	return e.node(t.root)
}

// Bool evaluates the condition of a when: one expression that is true or false. The empty text is true. The error tells no
// values.
func Bool(text string, vars map[string]any) (bool, error) {
	if text == "" {
		return true, nil
	}
	tree, err := Compile(text)
	if err != nil {
		return false, err
	}
	value, err := tree.EvalHiding(vars, func(Ref) bool { return true })
	if err != nil {
		return false, err
	}
	truth, ok := value.(bool)
	if !ok {
		return false, &Error{Text: text, Err: fmt.Errorf("it gives %s, not true or false", kindOf(value))}
	}
	return truth, nil
}

// Whole says whether a text is one expression and nothing else.
func Whole(text string) bool {
	parts, err := split(text)
	return err == nil && len(parts) == 1 && parts[0].code
}

// node is a part of a compiled tree: a scalar as it is, a branch, a list, or a text with expressions.
type node any

type (
	branch map[string]node
	list   []node
	text   struct {
		at    string
		path  []string
		refs  []Ref
		parts []piece
	}
	// piece is an expression, or text as it is.
	piece struct {
		text string
		code *boundcel.Expression
	}
)

type compiler struct {
	env         *cel.Env
	leaves      []Leaf
	faults      []error
	expressions int
}

// node compiles what stands at path, which at writes with dots.
func (c *compiler) node(v any, path []string, at string) node {
	if len(path) > MaxDepth {
		c.faults = append(c.faults, fmt.Errorf("more than %d levels deep", MaxDepth))
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		b := make(branch, len(v))
		for _, key := range sortedKeys(v) {
			b[key] = c.node(v[key], append(slices.Clip(path), key), below(at, key))
		}
		return b
	case []any:
		l := make(list, len(v))
		for i, item := range v {
			l[i] = c.node(item, append(slices.Clip(path), strconv.Itoa(i)), fmt.Sprintf("%s[%d]", at, i))
		}
		return l
	case string:
		return c.text(v, path, at)
	}
	return v
}

func (c *compiler) text(s string, path []string, at string) node {
	if !strings.Contains(s, "${") {
		return s
	}
	fault := func(code string, err error) node {
		c.faults = append(c.faults, &Error{at, code, err})
		return nil
	}
	parts, err := split(s)
	if err != nil {
		return fault(s, err)
	}
	t, leaf := &text{at: at, path: path}, Leaf{Path: path}
	for _, p := range parts {
		if !p.code {
			t.parts = append(t.parts, piece{text: p.text})
			continue
		}
		if c.expressions++; c.expressions > MaxExpressions {
			return fault(p.text, fmt.Errorf("there are more than %d expressions here", MaxExpressions))
		}
		compiled, err := boundcel.Compile(c.env, p.text, nil)
		if err != nil {
			return fault(p.text, err)
		}
		leaf.Refs = append(leaf.Refs, refs(compiled.Tree)...)
		t.parts = append(t.parts, piece{p.text, compiled})
	}
	if len(t.parts) == 1 && t.parts[0].code == nil {
		return t.parts[0].text
	}
	if len(t.parts) > 1 && !slices.ContainsFunc(t.parts, func(p piece) bool { return p.code != nil }) {
		return joined(t.parts)
	}
	leaf.Refs = unique(leaf.Refs)
	t.refs = leaf.Refs
	c.leaves = append(c.leaves, leaf)
	return t
}

func joined(parts []piece) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.text)
	}
	return b.String()
}

// below is the path of a key in what stands at a path.
func below(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
