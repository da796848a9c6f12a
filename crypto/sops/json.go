package sops

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// binaryKey is the one key of the JSON file that sops makes of bytes.
const binaryKey = "data"

func parseJSON(data []byte) (*document, error) {
	root, err := readJSON(data)
	if err != nil {
		return nil, err
	}
	var tree, meta branch
	for _, it := range root {
		if it.key == metadataKey {
			meta, _ = it.value.(branch)
			continue
		}
		tree = append(tree, it)
	}
	if meta == nil {
		return nil, damaged("it has no sops metadata")
	}
	return &document{tree: []branch{tree}, fields: treeFields(meta), print: func() ([]byte, error) { return printJSON(tree) }}, nil
}

// parseBinary reads the JSON file that sops makes of bytes.
func parseBinary(data []byte) (*document, error) {
	doc, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	tree := doc.tree[0]
	if len(tree) != 1 || tree[0].key != binaryKey {
		return doc, nil // JSON after all
	}
	doc.print = func() ([]byte, error) {
		content, ok := tree[0].value.(*leaf)
		if !ok {
			return nil, damaged("it is neither a binary file nor a JSON file")
		}
		return bytesOf(content.value)
	}
	return doc, nil
}

// jsonReader keeps the order of keys, which the MAC depends on.
type jsonReader struct{ *json.Decoder }

func readJSON(data []byte) (branch, error) {
	r := jsonReader{json.NewDecoder(bytes.NewReader(data))}
	r.UseNumber()
	first, err := r.Token()
	if err != nil || first != json.Delim('{') {
		return nil, damaged("it is not a JSON object")
	}
	root, err := r.branch(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.Token(); !errors.Is(err, io.EOF) {
		return nil, damaged("something follows its JSON object")
	}
	return root, nil
}

func (r jsonReader) branch(depth int) (branch, error) {
	b := branch{}
	for r.More() {
		name, err := r.Token()
		key, ok := name.(string)
		if err != nil || !ok {
			return nil, damaged("it is not JSON")
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		b = append(b, item{key: key, value: value})
	}
	if _, err := r.Token(); err != nil {
		return nil, damaged("it is not JSON, or cut off")
	}
	return b, unique(b)
}

func (r jsonReader) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, &UnsupportedError{"deeper nesting than anybody writes", fixSize}
	}
	token, err := r.Token()
	if err != nil {
		return nil, damaged("it is not JSON, or cut off")
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return r.branch(depth)
		}
		return r.list(depth)
	case json.Number:
		return number(token)
	default:
		return &leaf{value: token}, nil
	}
}

func (r jsonReader) list(depth int) (any, error) {
	l := list{}
	for r.More() {
		value, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		l = append(l, value)
	}
	if _, err := r.Token(); err != nil {
		return nil, damaged("it is not JSON, or cut off")
	}
	return l, nil
}

func number(n json.Number) (*leaf, error) {
	if i, err := n.Int64(); err == nil {
		return &leaf{value: int(i)}, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, damaged("it has a number that is too large")
	}
	return &leaf{value: f}, nil
}

func printJSON(root branch) ([]byte, error) {
	var out, indented bytes.Buffer
	if err := writeJSON(&out, root); err != nil {
		return nil, err
	}
	if err := json.Indent(&indented, out.Bytes(), "", "  "); err != nil {
		return nil, damaged("it cannot be written as JSON again")
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

func writeJSON(out *bytes.Buffer, value any) error {
	switch value := value.(type) {
	case branch:
		return writeAll(out, "{}", len(value), func(i int) error {
			if err := writeScalar(out, value[i].key); err != nil {
				return err
			}
			out.WriteByte(':')
			return writeJSON(out, value[i].value)
		})
	case list:
		return writeAll(out, "[]", len(value), func(i int) error { return writeJSON(out, value[i]) })
	case *leaf:
		return writeScalar(out, value.value)
	default:
		return damaged("it cannot be written as JSON again")
	}
}

func writeAll(out *bytes.Buffer, brackets string, n int, write func(i int) error) error {
	out.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := write(i); err != nil {
			return err
		}
	}
	out.WriteByte(brackets[1])
	return nil
}

func writeScalar(out *bytes.Buffer, value any) error {
	switch typed := value.(type) {
	case []byte:
		value = string(typed)
	case time.Time:
		value = typed.Format(time.RFC3339Nano)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return damaged("it holds a value that JSON cannot")
	}
	out.Write(text)
	return nil
}

// hasTopLevelKey looks for a key of a JSON object without building its tree.
func hasTopLevelKey(data []byte, key string) bool {
	if !strings.HasPrefix(strings.TrimLeft(string(data[:min(len(data), 64)]), " \t\r\n"), "{") {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil {
		return false
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return false
		}
		if name == key {
			return true
		}
		var skipped json.RawMessage
		if err := decoder.Decode(&skipped); err != nil {
			return false
		}
	}
	return false
}
