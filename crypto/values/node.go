package values

import (
	"fmt"
	"slices"
)

// kind is what a node holds.
type kind int

const (
	scalar kind = iota
	mapping
	list
	alias
)

// node is one value of a document, and where it stands. Nodes do not change once they are read.
type node struct {
	kind kind
	// tag is the type of a scalar in YAML's words, such as "!!str"; of others, the one that was written.
	tag string
	// text is a scalar's value, decoded, or the name that an alias refers to.
	text string
	// anchor is the name that aliases refer to.
	anchor string
	// style is how the value is written.
	style style
	// start and end are the bytes of the document that the value is written with. end is -1 when it is not known.
	start, end int
	// line of the file, from 1, and column of the document's line in bytes, from 0.
	line, column int
	entries      []entry
	comments     comments
	// target is what an alias refers to.
	target *node
}

// entry is a part of a mapping, or, without a key, of a list.
type entry struct {
	key   *node
	value *node
}

// style is how a scalar is quoted, or whether a mapping or list stands on lines of its own.
type style int

const (
	plain style = iota
	singleQuoted
	doubleQuoted
	literal
	folded
	// flow is a mapping or a list between brackets.
	flow
)

// document is one document of a file.
type document struct {
	// start is the byte of the file, and line the number of lines before it.
	start, line int
	text        []byte
	root        *node
	comments    comments
}

// file is a file that has been read.
type file struct {
	name   string
	text   []byte
	format format
	docs   []*document
	// flaw is why keys of this file are not safe to look up, such as a key written twice.
	flaw error
}

func (f *file) errorAt(n *node, message string, args ...any) error {
	return &Error{File: f.name, Line: n.line, Message: fmt.Sprintf(message, args...)}
}

func (f *file) noKey(at place) error {
	return &Error{File: f.name, Message: fmt.Sprintf("there is no key %s", at), Err: ErrNoKey}
}

// hasKeys says whether any document is a mapping or a list.
func (f *file) hasKeys() bool {
	return slices.ContainsFunc(f.docs, func(d *document) bool { return d.root != nil && d.root.kind != scalar && d.root.kind != alias })
}

// pick finds the document that at speaks of, and what is left of at inside it.
func (f *file) pick(at place) (*document, place, error) {
	if len(f.docs) == 1 {
		return f.docs[0], at, nil
	}
	if at[0].list {
		if at[0].index >= len(f.docs) {
			return nil, nil, &Error{File: f.name, Message: fmt.Sprintf("it has %d documents, counted from [0]", len(f.docs)), Err: ErrNoKey}
		}
		return f.docs[at[0].index], at[1:], nil
	}
	var found *document
	for _, doc := range f.docs {
		n, rest := doc.root.walk(at, true)
		if n == nil || len(rest) > 0 {
			continue
		}
		if found != nil {
			return nil, nil, f.errorAt(n, "%s is in several documents; put the document's place before it, such as [1].%s", at, at)
		}
		found = doc
	}
	if found == nil {
		return nil, nil, &Error{File: f.name, Message: fmt.Sprintf(
			"none of its %d documents has the key %s; put a document's place before it, such as [0].%s", len(f.docs), at, at), Err: ErrNoKey}
	}
	return found, at, nil
}

// child is the part of n that s names, or nil.
func (n *node) child(s step) *node {
	switch {
	case n == nil:
	case n.kind == mapping && !s.list:
		for _, e := range n.entries {
			if e.key.kind == scalar && e.key.text == s.key {
				return e.value
			}
		}
	case n.kind == list && s.list && s.index < len(n.entries):
		return n.entries[s.index].value
	}
	return nil
}

// walk goes down from n along at, as far as there are nodes, and returns the last one with the rest of the way. It goes
// through aliases when follow is set.
func (n *node) walk(at place, follow bool) (*node, place) {
	for {
		if n != nil && n.kind == alias && follow && n.target != nil {
			n = n.target
			continue
		}
		if len(at) == 0 {
			return n, at
		}
		next := n.child(at[0])
		if next == nil {
			return n, at
		}
		n, at = next, at[1:]
	}
}

// leaves appends the keys of all that n holds, itself at the place at.
func (n *node) leaves(at place, keys []string) []string {
	if n.kind == scalar || n.kind == alias || len(n.entries) == 0 {
		if len(at) == 0 {
			return keys
		}
		return append(keys, at.String())
	}
	for i, e := range n.entries {
		s := step{index: i, list: true}
		if n.kind == mapping {
			if e.key.kind != scalar {
				continue
			}
			s = step{key: e.key.text}
		}
		keys = e.value.leaves(append(slices.Clip(at), s), keys)
	}
	return keys
}

// size says in words how much n holds.
func (n *node) size() string {
	what := "keys"
	if n.kind == list {
		what = "items"
	}
	return fmt.Sprintf("%d %s", len(n.entries), what)
}

// with is n with leaf at the place at, made where it is missing. The path is copied, all else shared. nil when a list
// or a scalar stands in the way.
func (n *node) with(at place, leaf *node) *node {
	if len(at) == 0 {
		return leaf
	}
	if n == nil || n.kind == scalar && n.tag == "!!null" {
		n = &node{kind: mapping}
	}
	c := *n
	c.entries = slices.Clone(n.entries)
	for i, e := range c.entries {
		matches := n.kind == list && at[0].list && at[0].index == i ||
			n.kind == mapping && !at[0].list && e.key.kind == scalar && e.key.text == at[0].key
		if !matches {
			continue
		}
		value := e.value.with(at[1:], leaf)
		if value == nil {
			return nil
		}
		c.entries[i].value = value
		return &c
	}
	var rest *node
	value := rest.with(at[1:], leaf)
	if n.kind != mapping || at[0].list || value == nil {
		return nil
	}
	c.entries = append(c.entries, entry{key: &node{tag: "!!str", text: at[0].key}, value: value})
	return &c
}

// without is n with nothing at the place at, which exists.
func (n *node) without(at place) *node {
	c := *n
	c.entries = slices.Clone(n.entries)
	for i, e := range c.entries {
		matches := n.kind == list && at[0].index == i || n.kind == mapping && e.key.kind == scalar && e.key.text == at[0].key
		if !matches {
			continue
		}
		if len(at) == 1 {
			c.entries = slices.Delete(c.entries, i, i+1)
		} else {
			c.entries[i].value = e.value.without(at[1:])
		}
		break
	}
	return &c
}

// same says whether two nodes hold the same, however it is written and in whatever order keys stand.
func (n *node) same(o *node) bool {
	if n == nil || o == nil {
		return n == o
	}
	if n.kind != o.kind || n.tag != o.tag || n.text != o.text || n.anchor != o.anchor || len(n.entries) != len(o.entries) {
		return false
	}
	if n.kind != mapping {
		return slices.EqualFunc(n.entries, o.entries, func(a, b entry) bool { return a.value.same(b.value) })
	}
	index := make(map[string]int, len(o.entries))
	for i, e := range o.entries {
		index[e.key.text] = i
	}
	for i, e := range n.entries {
		j := i
		if e.key.kind == scalar {
			var ok bool
			if j, ok = index[e.key.text]; !ok {
				return false
			}
		}
		if !e.key.same(o.entries[j].key) || !e.value.same(o.entries[j].value) {
			return false
		}
	}
	return true
}
