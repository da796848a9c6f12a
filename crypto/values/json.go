package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxDepth bounds how deep a file may nest.
const maxDepth = 500

// jsonReader reads one JSON text into nodes.
type jsonReader struct {
	file    *file
	decoder *json.Decoder
	// at is the byte behind the last token; line is the number of the line that counted is on.
	at, counted, line int
}

// readJSON fills f from a single JSON value.
func (f *file) readJSON() error {
	doc := &document{text: f.text}
	f.docs = []*document{doc}
	if len(bytes.TrimSpace(f.text)) == 0 {
		return nil
	}
	r := &jsonReader{file: f, decoder: json.NewDecoder(bytes.NewReader(f.text)), line: 1}
	r.decoder.UseNumber()
	root, err := r.value(0)
	if err == nil {
		if _, err = r.decoder.Token(); err == nil {
			err = errors.New("there is more behind the first value")
		}
	}
	if !errors.Is(err, io.EOF) || root == nil {
		return r.fail(err)
	}
	doc.root = root
	return nil
}

// fail is the error for text that is no JSON. What the decoder says may repeat a character of the text, no more.
func (r *jsonReader) fail(err error) error {
	r.lineOf(int(r.decoder.InputOffset()))
	message := err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		message = "the text ends too early"
	}
	return &Error{File: r.file.name, Line: r.line, Message: "it is not JSON: " + message, Err: ErrFormat}
}

// token is the next token and where it starts.
func (r *jsonReader) token() (json.Token, int, error) {
	t, err := r.decoder.Token()
	start := r.at
	for start < len(r.file.text) && strings.IndexByte(" \t\r\n,:", r.file.text[start]) >= 0 {
		start++
	}
	r.at = int(r.decoder.InputOffset())
	return t, start, err
}

func (r *jsonReader) lineOf(offset int) int {
	if offset > r.counted {
		r.line += bytes.Count(r.file.text[r.counted:offset], []byte("\n"))
		r.counted = offset
	}
	return r.line
}

func (r *jsonReader) value(depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("it nests more than %d levels", maxDepth)
	}
	t, start, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{start: start, end: r.at, line: r.lineOf(start)}
	switch t := t.(type) {
	case json.Delim:
		n.style = flow
		if n.kind = mapping; t == '[' {
			n.kind = list
		}
		return n, r.fill(n, depth)
	case string:
		n.tag, n.text, n.style = "!!str", t, doubleQuoted
	case json.Number:
		n.tag, n.text = numberTag(t.String()), t.String()
	case bool:
		n.tag, n.text = "!!bool", fmt.Sprint(t)
	default:
		n.tag, n.text = "!!null", "null"
	}
	return n, nil
}

// fill reads what stands between n's brackets.
func (r *jsonReader) fill(n *node, depth int) error {
	seen := map[string]bool{}
	for r.decoder.More() {
		var e entry
		var err error
		if n.kind == mapping {
			if e.key, err = r.value(depth + 1); err != nil {
				return err
			}
			if seen[e.key.text] {
				r.file.flaw = r.file.errorAt(e.key, "the key %q is written twice", e.key.text)
			}
			seen[e.key.text] = true
		}
		if e.value, err = r.value(depth + 1); err != nil {
			return err
		}
		n.entries = append(n.entries, e)
	}
	_, _, err := r.token()
	n.end = r.at
	return err
}

// numberTag is the type of a JSON number.
func numberTag(text string) string {
	if strings.ContainsAny(text, ".eE") {
		return "!!float"
	}
	return "!!int"
}

// quoteJSON writes text between double quotes, as JSON and YAML read it.
func quoteJSON(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		panic(err) // a string always encodes into memory
	}
	return strings.TrimSuffix(b.String(), "\n")
}
