package fleet

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is one YAML document on its way into a struct. Its bounds are checked already.
type document struct {
	file string
	root *yaml.Node
	// fields gives the place of each value by dotted path.
	fields map[string]Position
	faults *faults
}

// decode fills *into, a struct, from the whole document. What it cannot read stays zero and is a fault.
func (d *document) decode(into any) {
	d.value(d.root, reflect.ValueOf(into).Elem(), "", "")
}

// position is where the document begins.
func (d *document) position() Position { return d.at(d.root) }

func (d *document) at(n *yaml.Node) Position {
	return Position{File: d.file, Line: n.Line, Column: n.Column}
}

// fault reports a value by its dotted path; a path that was not written is reported at what would hold it.
func (d *document) fault(path, fix, format string, args ...any) {
	d.faults.add(place(d.fields, path, d.position()), fix, format, args...)
}

// place finds the nearest written value at or above path.
func place(fields map[string]Position, path string, otherwise Position) Position {
	for path != "" {
		if at, ok := fields[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return otherwise
}

// value decodes n into v by v's type. scalar is the field's tag of that name.
func (d *document) value(n *yaml.Node, v reflect.Value, path, scalar string) {
	n = target(n)
	d.record(path, n)
	if isNull(n) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, scalar)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, scalar)
	case reflect.Map:
		d.dictionary(n, v, path)
	case reflect.String:
		d.text(n, v, path, scalar)
	case reflect.Bool:
		d.truth(n, v, path)
	case reflect.Int:
		d.count(n, v, path)
	default:
		panic(fmt.Sprintf("fleet: no decoding for %s", v.Type())) // a kind was given a field of a new type
	}
}

// record keeps the place of a value. Paths that are long enough to be an attack get none of their own.
func (d *document) record(path string, n *yaml.Node) {
	if _, known := d.fields[path]; path != "" && !known {
		d.fields[path] = d.at(n)
	}
}

// field is one field of a kind.
type field struct {
	name     string
	required bool
	scalar   string
	value    reflect.Value
}

// fieldsOf lists the fields of a struct in order, those of embedded structs among them.
func fieldsOf(v reflect.Value) []field {
	var all []field
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case options == "inline":
			all = append(all, fieldsOf(v.Field(i))...)
		default:
			all = append(all, field{name, options != "omitempty", sf.Tag.Get("scalar"), v.Field(i)})
		}
	}
	return all
}

func (d *document) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "fields", "write them as name: value")
		return
	}
	fields := fieldsOf(v)
	d.pairs(n, path, func(key, val *yaml.Node) {
		for _, f := range fields {
			if f.name == key.Value {
				d.value(val, f.value, join(path, f.name), f.scalar)
				return
			}
		}
		d.unknown(key, fields, path)
	})
	for _, f := range fields {
		if f.required && !written(n, f.name) {
			d.faults.add(d.at(n), "add it", "missing field %s%s", quote(f.name), in(path))
		}
	}
}

func (d *document) unknown(key *yaml.Node, fields []field, path string) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	d.faults.add(d.at(key), didYouMean(key.Value, known, "fields"), "unknown field %s%s", quote(key.Value), in(path))
}

// written says whether a required field has a value that is not empty text.
func written(n *yaml.Node, name string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, val := target(n.Content[i]), target(n.Content[i+1]); key.Value == name {
			return !isNull(val) && (val.Kind != yaml.ScalarNode || val.Value != "")
		}
	}
	return false
}

// pairs calls each with every key and value of a mapping whose keys are plain, unique text.
func (d *document) pairs(n *yaml.Node, path string, each func(key, val *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		switch line, twice := seen[key.Value]; {
		case key.Kind != yaml.ScalarNode || isNull(key):
			d.faults.add(d.at(key), "write the key as plain text", "key that is not text%s", in(path))
		case key.ShortTag() == "!!merge":
			d.faults.add(d.at(key), "write the fields out", "merge keys (<<) are not supported")
		case twice:
			d.faults.add(d.at(key), "keep one of them", "field %s%s is already set in line %d", quote(key.Value), in(path), line)
		default:
			seen[key.Value] = key.Line
			each(key, n.Content[i+1])
		}
	}
}

func (d *document) list(n *yaml.Node, v reflect.Value, path, scalar string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, path, "a list", `begin each entry with "- "`)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		if isNull(target(item)) {
			d.faults.add(d.at(target(item)), "remove it or fill it in", "empty entry%s", in(path))
		}
		d.value(item, v.Index(i), at, scalar)
	}
}

// dictionary decodes the two maps that kinds have: text to text, and text to anything.
func (d *document) dictionary(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "fields", "write them as name: value")
		return
	}
	if v.Type().Elem().Kind() == reflect.Interface {
		v.Set(reflect.ValueOf(d.object(n, path)))
		return
	}
	v.Set(reflect.ValueOf(d.texts(n, path)))
}

func (d *document) texts(n *yaml.Node, path string) map[string]string {
	m := make(map[string]string, len(n.Content)/2)
	d.pairs(n, path, func(key, val *yaml.Node) {
		at, item := join(path, key.Value), ""
		if isNull(target(val)) {
			d.wrongType(target(val), at, "text", `for empty text write ""`)
		}
		d.value(val, reflect.ValueOf(&item).Elem(), at, "")
		m[key.Value] = item
	})
	return m
}

func (d *document) text(n *yaml.Node, v reflect.Value, path, scalar string) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.wrongType(n, path, "text", "write one value")
	case n.ShortTag() == "!!str", n.ShortTag() == "!!int" && scalar == "number":
		v.SetString(n.Value)
	default:
		d.wrongType(n, path, "text", "put it in quotes: "+quote(n.Value))
	}
}

func (d *document) truth(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.wrongType(n, path, "true or false", "write true or false without quotes")
		return
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
}

// count decodes a whole number that is not negative.
func (d *document) count(n *yaml.Node, v reflect.Value, path string) {
	number, err := strconv.ParseUint(n.Value, 10, 31)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		d.wrongType(n, path, "a count", "write a whole number without quotes")
		return
	}
	v.SetInt(int64(number))
}

func (d *document) wrongType(n *yaml.Node, path, want, fix string) {
	what := path
	if what == "" {
		what = "the document"
	}
	d.faults.add(d.at(n), fix, "%s must be %s, found %s", printable(what), want, describe(n))
}

// describe says what stands in the file.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!str":
		return "the text " + quote(n.Value)
	case "!!int", "!!float":
		return "the number " + printable(shorten(n.Value))
	}
	return printable(shorten(n.Value))
}

func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// join appends a key to a dotted path, up to a length that no kind needs.
func join(path, name string) string {
	const longest = 512
	switch {
	case len(path)+len(name) > longest:
		return path
	case path == "":
		return name
	}
	return path + "." + name
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + printable(shorten(path))
}
