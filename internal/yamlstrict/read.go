package yamlstrict

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/internal/yamlerror"
)

// Bounds of one document. They are far above what people need, and keep hostile input cheap.
const (
	MaxDepth   = 100     // levels inside one document
	MaxNodes   = 100_000 // keys and values of one document, aliases written out
	MaxAliases = 1_000   // times that one document uses an anchor, aliases written out
)

// Read calls each with every document of a file, until it says false. One that is empty, or over a bound, has no Root. What is
// no YAML ends the file, and is a fault.
func Read(file string, data []byte, faults *Faults, each func(*Document) bool) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	for read := 0; ; read++ {
		var root yaml.Node
		switch err := decoder.Decode(&root); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			syntaxError(file, data, lineOf(data, read), err, faults)
			return
		case !each(newDocument(file, &root, faults)):
			return
		}
	}
}

// lineOf is how far the parser reads until it complains about the document behind so many others. Only then is it given a line at a
// time, which takes longer.
func lineOf(data []byte, documents int) int {
	lines := &lineReader{rest: data}
	decoder := yaml.NewDecoder(lines)
	for range documents + 1 {
		if decoder.Decode(&yaml.Node{}) != nil {
			break
		}
	}
	return lines.line
}

// newDocument checks the bounds of one.
func newDocument(file string, root *yaml.Node, faults *Faults) *Document {
	d := &Document{File: file, Faults: faults}
	if len(root.Content) == 0 || isNull(root.Content[0]) {
		return d
	}
	values, err := checkBounds(root.Content[0])
	d.Fields = make(map[string]Position, min(values/2, manyFields)) // a key has no place of its own
	if err != nil {
		err.File = file
		faults.Put(err)
		return d
	}
	d.Root = root.Content[0]
	return d
}

// syntaxError turns the parser's complaint into one with a true line: for mistakes of structure the parser names the start of the
// block, so the line that it had read by then is used instead; what brackets hold may go on until the end of the file.
func syntaxError(file string, data []byte, read int, err error, faults *Faults) {
	if at := conflictMarker(data); at > 0 {
		faults.Add(Position{File: file, Line: at}, "finish the merge and remove the markers", "merge conflict in the file")
		return
	}
	line, message := yamlerror.Line(err.Error())
	if line == 0 || strings.HasPrefix(message, "did not find expected") && !strings.Contains(message, "',' or") {
		line = read
	}
	faults.Add(Position{File: file, Line: line}, yamlHint(message), "not YAML: %s", message)
}

// yamlHint explains the parser's commonest complaints.
func yamlHint(message string) string {
	switch {
	case strings.Contains(message, "cannot start any token"):
		return "indent with spaces, and quote a value that begins with a special character"
	case strings.Contains(message, "mapping values are not allowed"):
		return "check the indentation, or quote a value that contains a colon"
	case strings.Contains(message, "did not find expected"):
		return "check the indentation of this line and of the lines above it"
	}
	return ""
}

// conflictMarker is the line of git's first conflict marker, or 0.
func conflictMarker(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if bytes.HasPrefix(text, []byte("<<<<<<< ")) {
			return line
		}
	}
	return 0
}

// lineReader hands out one line at a time, so that line says how far the parser has read.
type lineReader struct {
	rest []byte
	line int
	mid  bool // the last read ended inside a line
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	if !r.mid {
		r.line++
	}
	end := bytes.IndexByte(r.rest, '\n') + 1
	if end == 0 {
		end = len(r.rest)
	}
	n := copy(p, r.rest[:end])
	r.mid = r.rest[n-1] != '\n'
	r.rest = r.rest[n:]
	return n, nil
}
