package yamledit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/crypto/values"
)

// Field is what is to stand at a place of a document.
type Field struct {
	// Key is the place in the words of crypto/values, such as spec.source.ref.
	Key string
	// Value is a text, a bool, an int, a float64, or a list ([]any) or mapping (map[string]any) of them; nil takes the field
	// away.
	Value any
}

// Key joins parts of which each is one name, whatever it holds.
func Key(parts ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, ".", `\.`, "[", `\[`, "\n", `\n`, "\r", `\r`)
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = escape.Replace(part)
	}
	return strings.Join(escaped, ".")
}

// Set plans that a document has these fields. Mappings are written key by key, so that what stays keeps its place and its
// comments; what such a mapping does not name goes.
func Set(repo fs.FS, d Document, fields ...Field) (*Change, error) {
	c, _, err := begin(repo, d)
	if err != nil {
		return nil, err
	}
	prefix, err := document(c.File, c.Before, d.Kind, d.Name)
	if err != nil {
		return nil, err
	}
	w := &writing{file: c.File, text: c.Before, document: prefix}
	for _, remove := range []bool{false, true} { // what a mapping loses comes last: one without keys looks like nobody wrote it
		for _, f := range fields {
			if (f.Value == nil) != remove {
				continue
			}
			if err := w.put(f.Key, f.Value); err != nil {
				return nil, unwritable(d, f.Key, err)
			}
		}
	}
	for _, f := range fields {
		if now, err := w.value(f.Key); err != nil || !same(now, f.Value) {
			return nil, unwritable(d, f.Key, err)
		}
	}
	c.After = w.text
	_, err = c.valid(repo)
	return c, err
}

// unwritable is the error about a field that cannot be changed without changing more.
func unwritable(d Document, key string, err error) error {
	why := ""
	if err != nil {
		why = ": " + err.Error()
	}
	return &Error{
		fmt.Sprintf("%s of %s cannot be changed by a program%s", key, d, why), fmt.Sprintf("plural %s edit %s", d.noun(), d.Name),
	}
}

// writing is the text of a file while fields of one of its documents are changed.
type writing struct {
	file string
	text []byte
	// document stands before each key, in a file of several documents.
	document string
}

func (w *writing) put(key string, value any) error {
	have, err := w.value(key)
	if err != nil || same(have, value) {
		return err
	}
	switch want := value.(type) {
	case nil:
		return w.remove(key)
	case map[string]any:
		if old, ok := have.(map[string]any); (ok || have == nil) && len(want) > 0 {
			return w.putMapping(key, want, old)
		}
		return w.putWhole(key, want, have != nil)
	case []any:
		return w.putWhole(key, want, have != nil)
	default:
		return w.putScalar(key, value, have)
	}
}

func (w *writing) putMapping(key string, want, have map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if err := w.put(key+"."+Key(name), want[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, stays := want[name]; !stays {
			if err := w.remove(key + "." + Key(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writing) putScalar(key string, value, have any) (err error) {
	switch have.(type) {
	case map[string]any, []any:
		return errors.New("it holds a mapping or a list")
	}
	as, text := values.String, ""
	switch v := value.(type) {
	case string:
		text = v
	case bool:
		as, text = values.Bool, strconv.FormatBool(v)
	case int:
		as, text = values.Number, strconv.Itoa(v)
	case float64:
		as, text = values.Number, strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Errorf("a %T is no value", value)
	}
	w.text, err = values.Set(w.file, w.text, w.document+key, []byte(text), as)
	return err
}

// putWhole writes a list, or a mapping without keys, in one line.
func (w *writing) putWhole(key string, value any, has bool) error {
	const placeholder = "value-in-one-line-5f0f1c3e"
	if bytes.Contains(w.text, []byte(placeholder)) {
		return fmt.Errorf("the file holds the word %s", placeholder)
	}
	line, err := inOneLine(value)
	if err != nil {
		return err
	}
	parent, name := split(key)
	if parent == "" || strings.HasSuffix(key, "]") {
		return errors.New("what is in a list is not replaced by a list or a mapping")
	}
	// The new one comes before the old one goes: a mapping without keys would look like nobody wrote it.
	text, err := values.Set(w.file, w.text, w.document+parent+"."+placeholder, []byte(placeholder), values.String)
	if err != nil {
		return err
	}
	if has {
		if text, err = values.Delete(w.file, text, w.document+key); err != nil {
			return err
		}
	}
	label, err := inOneLine(name)
	if err != nil {
		return err
	}
	w.text = bytes.Replace(text, []byte(placeholder+": "+placeholder), slices.Concat(label, []byte(": "), line), 1)
	return nil
}

// inOneLine is a value as YAML between brackets.
func inOneLine(value any) ([]byte, error) {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		return nil, err
	}
	flowing(&n)
	text, err := yaml.Marshal(&n)
	text = bytes.TrimSuffix(text, []byte("\n"))
	if err == nil && bytes.ContainsRune(text, '\n') {
		err = errors.New("it does not fit into one line")
	}
	return text, err
}

func flowing(n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		n.Style = yaml.FlowStyle
	case yaml.ScalarNode:
		if n.Style == yaml.LiteralStyle || n.Style == yaml.FoldedStyle {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, inner := range n.Content {
		flowing(inner)
	}
}

// remove takes a key away. Of people's own keys (parameters, tags, values) the last one takes its mapping along.
func (w *writing) remove(key string) (err error) {
	for {
		parent, _ := split(key)
		alone, err := w.alone(parent)
		if err != nil {
			return err
		}
		if !alone || !slices.ContainsFunc([]string{"spec.parameters", "spec.tags", "spec.helm.values"}, func(own string) bool {
			return parent == own || strings.HasPrefix(parent, own+".")
		}) {
			break
		}
		key = parent
	}
	w.text, err = values.Delete(w.file, w.text, w.document+key)
	return err
}

// alone says whether a mapping has one key.
func (w *writing) alone(key string) (bool, error) {
	if key == "" {
		return false, nil
	}
	value, err := w.value(key)
	mapping, ok := value.(map[string]any)
	return ok && len(mapping) == 1, err
}

// split cuts a key's last name off. A place in a list counts to the name before it.
func split(key string) (parent, name string) {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '.' && !escaped(key, i) {
			return key[:i], unescape(key[i+1:])
		}
	}
	return "", unescape(key)
}

// escaped says whether an odd number of backslashes stands before a byte.
func escaped(key string, i int) bool {
	head := key[:i]
	return (len(head)-len(strings.TrimRight(head, `\`)))%2 == 1
}

// Plain is a key without the backslashes that Key writes. It may be that of several places.
func Plain(key string) string { return unescape(key) }

func unescape(name string) string {
	return strings.NewReplacer(`\\`, `\`, `\.`, ".", `\[`, "[", `\n`, "\n", `\r`, "\r").Replace(name)
}

// value is what the document has at a key; nil when it has nothing there.
func (w *writing) value(key string) (any, error) {
	var at any
	index := 0
	if w.document != "" {
		if _, err := fmt.Sscanf(w.document, "[%d].", &index); err != nil {
			return nil, fmt.Errorf("read place %q: %w", w.document, err)
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(w.text))
	for range index + 1 {
		at = nil
		if err := decoder.Decode(&at); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	for _, step := range steps(key) {
		switch holder := at.(type) {
		case map[string]any:
			at = holder[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(holder) {
				return nil, nil
			}
			at = holder[i]
		default:
			return nil, nil
		}
	}
	return at, nil
}

// steps are the parts of a key, places in lists as their numbers.
func steps(key string) []string {
	var out []string
	part := ""
	flush := func() {
		if part != "" {
			out = append(out, unescape(part))
		}
		part = ""
	}
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case c == '\\' && i+1 < len(key):
			part += key[i : i+2]
			i++
		case c == '.' || c == '[':
			flush()
		case c == ']' && len(part) > 0 && strings.Trim(part, "0123456789") == "":
			flush()
		default:
			part += key[i : i+1]
		}
	}
	flush()
	return out
}

// same compares values as they are written: a whole number is one, whatever type holds it.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Put puts a field into a mapping that nobody has written yet. There are no places in its lists.
func Put(into map[string]any, f Field) error {
	parts := steps(f.Key)
	if len(parts) == 0 || Key(parts...) != f.Key {
		return errors.New("it names no key")
	}
	for _, part := range parts[:len(parts)-1] {
		next, ok := into[part].(map[string]any)
		if !ok && into[part] != nil {
			return fmt.Errorf("%s has a value of its own", part)
		}
		if next == nil {
			next = map[string]any{}
			into[part] = next
		}
		into = next
	}
	last := parts[len(parts)-1]
	if into[last] != nil {
		return fmt.Errorf("%s has a value already", last)
	}
	into[last] = f.Value
	return nil
}
