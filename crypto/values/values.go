// Package values owns the values in a YAML, JSON or env file: read, set, masked, merged.
//
// It refuses to know whether a file is sealed, where it lies or who may read it: names only tell the format, and text
// goes in and out as bytes.
//
// A file is read into nodes that know the bytes they came from. Set and Delete splice new text over those bytes, so that
// everything beside a value stays as it was written, and read the result again: what does not say exactly what was asked
// is thrown away for the next, less careful way. Mask writes nodes anew, with no value left in them. Merge cuts three
// files into their keys, puts the pieces together, and holds the outcome against the three values of each key.
//
// A key is written with dots between its parts and brackets around the place in a list: a.b[0].c. A backslash stands
// before a dot, a bracket or a backslash that is part of a name: data.tls\.key. Where a file has several documents, the
// place of the document comes first, [1].data.key; it may be left out when one document alone has the key.
//
// No error of this package repeats a value.
package values

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

var (
	// ErrNoKey means that the file does not have the key.
	ErrNoKey = errors.New("no such key")
	// ErrFormat means that the file has no keys: it is not YAML, JSON or env, or it is damaged.
	ErrFormat = errors.New("not a YAML, JSON or env file with keys")
)

// Error is what keeps a key from being read or changed, with its place.
type Error struct {
	// File is the name that the caller gave; Line counts from 1, 0 when no line is to blame.
	File string
	Line int
	// Message says what is wrong; it holds no value.
	Message string
	// Err is ErrNoKey, ErrFormat or nil.
	Err error
}

// Error is "FILE:LINE: MESSAGE".
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Message)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
}

// Unwrap is the class of the error.
func (e *Error) Unwrap() error { return e.Err }

// List is every key of the file that holds a value, in the order of the file. Values inside an alias are not listed a
// second time.
func List(name string, text []byte) ([]string, error) {
	f, err := parse(name, text)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i, doc := range f.docs {
		if doc.root == nil {
			continue
		}
		at := place{}
		if len(f.docs) > 1 {
			at = place{{index: i, list: true}}
		}
		keys = doc.root.leaves(at, keys)
	}
	return keys, nil
}

// Get is the value of key, decoded. It follows aliases. A key that holds more keys is an error that names how many.
func Get(name string, text []byte, key string) ([]byte, error) {
	f, at, err := parseAt(name, text, key)
	if err != nil {
		return nil, err
	}
	doc, at, err := f.pick(at)
	if err != nil {
		return nil, err
	}
	n, rest := doc.root.walk(at, true)
	switch {
	case n == nil || len(rest) > 0:
		return nil, f.noKey(at)
	case n.kind == alias:
		return nil, f.errorAt(n, "%s is an alias to what is not known", at)
	case n.kind != scalar:
		return nil, f.errorAt(n, "%s holds %s; name one of them", at, n.size())
	}
	return []byte(n.text), nil
}

// parseAt reads a file and a key.
func parseAt(name string, text []byte, key string) (*file, place, error) {
	at, err := parsePlace(key)
	if err != nil {
		return nil, nil, err
	}
	f, err := parse(name, text)
	if err != nil {
		return nil, nil, err
	}
	return f, at, f.flaw
}

// format is how a file's text is read.
type format int

const (
	formatNone format = iota
	formatYAML
	formatJSON
	formatEnv
)

// formatOf tells the format by the name alone; formatNone when the name says nothing.
func formatOf(name string) format {
	base := path.Base(name)
	switch strings.ToLower(path.Ext(base)) {
	case ".yaml", ".yml":
		return formatYAML
	case ".json":
		return formatJSON
	case ".env":
		return formatEnv
	}
	if strings.HasPrefix(base, ".env.") || strings.HasPrefix(base, "env.") {
		return formatEnv
	}
	return formatNone
}

// isText says whether bytes can be looked at as lines of text.
func isText(text []byte) bool { return utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 }

// parse reads a file by the format that its name tells, or else by the first format that its text has.
func parse(name string, text []byte) (*file, error) {
	f := &file{name: name, text: text, format: formatOf(name)}
	if !isText(text) {
		return nil, &Error{File: name, Message: "it is not UTF-8 text, so it has no keys", Err: ErrFormat}
	}
	if f.format != formatNone {
		return f, f.read()
	}
	for _, f.format = range []format{formatJSON, formatEnv, formatYAML} {
		if err := f.read(); err == nil && f.hasKeys() {
			return f, nil
		}
	}
	return nil, &Error{File: name, Message: "it has no keys: " + ErrFormat.Error(), Err: ErrFormat}
}

// read fills f's documents from its text.
func (f *file) read() error {
	f.docs, f.flaw = nil, nil
	switch f.format {
	case formatJSON:
		return f.readJSON()
	case formatEnv:
		return f.readEnv()
	default:
		return f.readYAML()
	}
}
