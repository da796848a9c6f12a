package values

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Type is what a value is written as.
type Type string

// The types of values. In an env file everything is a string.
const (
	String Type = "string"
	Number Type = "number"
	Bool   Type = "bool"
	Null   Type = "null"
)

// Set is text with the value under key, a string or what the type says: a number in JSON's form, true, false, null. It is made where it is missing, also inside mappings that are missing. An empty
// text becomes a file of the format that name tells. Everything beside the value stays byte for byte where it can be
// told where the value stands; where it cannot, the document is written anew, with its comments. What is shared by an
// anchor, or carries a type of its own, is refused with its place.
func Set(name string, text []byte, key string, value []byte, as Type) ([]byte, error) {
	e, err := newEdit(name, text, key)
	if err != nil {
		return nil, err
	}
	if e.leaf, err = e.newLeaf(value, as); err != nil {
		return nil, err
	}
	if err := e.settable(); err != nil {
		return nil, err
	}
	want := e.doc.root.with(e.at, e.leaf)
	if want == nil {
		return nil, e.inTheWay()
	}
	return e.first(want)
}

// Delete is text without key. Comments above it stay.
func Delete(name string, text []byte, key string) ([]byte, error) {
	e, err := newEdit(name, text, key)
	if err != nil {
		return nil, err
	}
	switch {
	case len(e.rest) > 0:
		return nil, e.file.noKey(e.at)
	case len(e.at) == 0:
		return nil, &Error{File: name, Message: "a whole document is no key"}
	}
	if err := e.unshared(); err != nil {
		return nil, err
	}
	return e.first(e.doc.root.without(e.at))
}

// edit is one change to one document.
type edit struct {
	file *file
	doc  *document
	text string
	at   place
	// path is the nodes along at, the root first, as far as they exist; rest is the part of at that does not.
	path []*node
	rest place
	// leaf is the new value, nil to delete.
	leaf *node
}

func newEdit(name string, text []byte, key string) (*edit, error) {
	f, at, err := parseAt(name, text, key)
	if err != nil {
		return nil, err
	}
	doc, at, err := f.pick(at)
	if err != nil {
		return nil, err
	}
	e := &edit{file: f, doc: doc, text: string(doc.text), at: at, rest: at}
	if doc.root == nil {
		return e, nil
	}
	e.path = []*node{doc.root}
	for len(e.rest) > 0 {
		next := e.last().child(e.rest[0])
		if next == nil {
			break
		}
		e.path, e.rest = append(e.path, next), e.rest[1:]
	}
	return e, nil
}

// last is the deepest node along the key; nil in a document without any.
func (e *edit) last() *node {
	if len(e.path) == 0 {
		return nil
	}
	return e.path[len(e.path)-1]
}

// newLeaf is the value as a node.
func (e *edit) newLeaf(value []byte, as Type) (*node, error) {
	text := string(value)
	bad := func(want string) (*node, error) {
		return nil, fmt.Errorf("set %s: the value is not %s", e.at, want)
	}
	if !isText(value) {
		return bad("UTF-8 text; put bytes into base64 first")
	}
	n := &node{tag: "!!str", text: text}
	switch as {
	case String:
	case Number:
		var number json.Number
		if json.Unmarshal(value, &number) != nil || strings.HasPrefix(text, `"`) || number == "" {
			return bad("a number")
		}
		n.text = number.String()
		n.tag = numberTag(n.text)
	case Bool:
		if text != "true" && text != "false" {
			return bad("true or false")
		}
		n.tag = "!!bool"
	case Null:
		if text != "" && text != "null" {
			return bad("empty, as null needs it")
		}
		n.tag, n.text = "!!null", "null"
	default:
		return nil, fmt.Errorf("set %s: unknown type %q; there are string, number, bool and null", e.at, as)
	}
	if e.file.format == formatEnv {
		n.tag = "!!str"
	}
	return n, nil
}

// settable refuses what a value cannot take the place of.
func (e *edit) settable() error {
	if err := e.unshared(); err != nil {
		return err
	}
	n := e.last()
	switch {
	case len(e.at) == 0:
		return &Error{File: e.file.name, Message: "a whole document is no key"}
	case n == nil:
		return nil
	case len(e.rest) == 0 && n.kind != scalar && len(n.entries) > 0:
		return e.file.errorAt(n, "%s holds %s; name one of them", e.at, n.size())
	case e.file.format == formatEnv && len(e.at) > 1:
		return &Error{File: e.file.name, Message: fmt.Sprintf("%s: names in an env file do not nest", e.at), Err: ErrNoKey}
	}
	return nil
}

// unshared refuses what aliases share, and what has a type of its own.
func (e *edit) unshared() error {
	for _, n := range e.path {
		switch {
		case n.kind == alias:
			return e.file.errorAt(n, "%s is reached through the alias *%s; change the value at its anchor by hand", e.at, n.text)
		case n.anchor != "":
			return e.file.errorAt(n, "%s is shared through the anchor &%s; change it by hand", e.at, n.anchor)
		}
	}
	if n := e.last(); n != nil && len(e.rest) == 0 && e.file.format == formatYAML && n.end < 0 && e.explicit(n) {
		return e.file.errorAt(n, "%s is written with a type, %s; change it by hand", e.at, n.tag)
	}
	return nil
}

// explicit says whether n is written with its type.
func (e *edit) explicit(n *node) bool { return strings.HasPrefix(e.text[n.start:], "!") }

// inTheWay is the error for a key below what holds no keys.
func (e *edit) inTheWay() error {
	n := e.last()
	at := e.at[:len(e.at)-len(e.rest)]
	switch {
	case n == nil:
		return &Error{File: e.file.name, Message: fmt.Sprintf("%s: a list cannot be made this way", e.at), Err: ErrNoKey}
	case n.kind == list:
		return &Error{File: e.file.name, Line: n.line, Message: fmt.Sprintf("%s has %s, counted from [0]", named(at), n.size()), Err: ErrNoKey}
	case n.kind == mapping:
		return &Error{File: e.file.name, Line: n.line, Message: fmt.Sprintf("%s has keys and no places", named(at)), Err: ErrNoKey}
	}
	return e.file.errorAt(n, "%s holds a value, so it can hold no keys", named(at))
}

func named(at place) string {
	if len(at) == 0 {
		return "the document"
	}
	return at.String()
}

// first is the file with the first way to make the edit that gives what is wanted and touches nothing else.
func (e *edit) first(want *node) ([]byte, error) {
	for candidate := range e.candidates() {
		text := slices.Concat(e.file.text[:e.doc.start], []byte(candidate), e.file.text[e.doc.start+len(e.doc.text):])
		got := &file{name: e.file.name, text: text, format: e.file.format}
		if got.read() != nil || got.flaw != nil || len(got.docs) != len(e.file.docs) {
			continue
		}
		i := slices.Index(e.file.docs, e.doc)
		if got.docs[i].root.same(want) && e.othersStay(got, i) {
			return text, nil
		}
	}
	return nil, &Error{File: e.file.name, Message: fmt.Sprintf("%s cannot be changed without changing more; do it by hand", e.at)}
}

// othersStay says whether all documents but the one that is edited are what they were.
func (e *edit) othersStay(got *file, edited int) bool {
	for i, doc := range e.file.docs {
		if i != edited && !doc.root.same(got.docs[i].root) {
			return false
		}
	}
	return true
}

// candidates yields the document's text with the edit, the way that touches the least first.
func (e *edit) candidates() func(yield func(string) bool) {
	ways := e.yamlWays
	switch e.file.format {
	case formatJSON:
		ways = e.jsonWays
	case formatEnv:
		ways = e.envWays
	}
	return func(yield func(string) bool) {
		for _, way := range ways() {
			if text, ok := way(); ok && !yield(text) {
				return
			}
		}
	}
}

// way makes an edit; false when it does not fit.
type way func() (string, bool)

// splice is the text with other text from start to end.
func (e *edit) splice(start, end int, text string) way {
	return func() (string, bool) {
		if start < 0 || end < start || end > len(e.text) {
			return "", false
		}
		return e.text[:start] + text + e.text[end:], true
	}
}

// lineEnd is how the document ends its lines.
func (e *edit) lineEnd() string {
	if strings.Contains(e.text, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// insertLines puts whole lines at a byte where a line starts or the text ends.
func (e *edit) insertLines(at int, lines []string) way {
	end := e.lineEnd()
	text := strings.Join(lines, end) + end
	if at == len(e.text) && at > 0 && e.text[at-1] != '\n' {
		text = end + strings.TrimSuffix(text, end)
	}
	return e.splice(at, at, text)
}

// position is where along its parent's entries the last node of the path is.
func (e *edit) position() (parent *node, index int) {
	parent = e.path[len(e.path)-2]
	return parent, slices.IndexFunc(parent.entries, func(x entry) bool { return x.value == e.last() })
}
