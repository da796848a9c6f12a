// Package yamlstrict owns strict YAML decoding into structs, with positions.
//
// It refuses to know what the structs mean. The YAML is a subset on purpose, so that nothing in it can mean two things; what is
// not read is a mistake, and each mistake has its place, its cause and what to write instead. Read checks bounds and gives
// documents; Decode fills a struct by its yaml tags: a field without omitempty must be written, and not empty; any other field
// is unknown. A scalar:"number" tag lets a string be written as a bare number, an enum:"a,b" tag wants one of these words of a
// text, or of each in a list. Duplicate keys, merge keys (<<), custom tags and, in values of free shape, the words that YAML 1.1
// takes for booleans (yes, off, ...) are mistakes. Anchors and aliases work within MaxAliases; an alias inside the value that it
// stands for is refused.
package yamlstrict

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Document is one YAML document on its way into a struct.
type Document struct {
	File string
	// Root is within the bounds.
	Root *yaml.Node
	// Fields gives the place of each value by dotted path.
	Fields map[string]Position
	// Faults are where mistakes go.
	Faults *Faults
}

// Decode fills *into, a struct, from the whole document. What it cannot read stays zero and is a fault.
func (d *Document) Decode(into any) {
	d.value(d.Root, reflect.ValueOf(into).Elem(), "", tags{})
}

// Position is where the document begins.
func (d *Document) Position() Position { return d.At(d.Root) }

// At is where a value stands.
func (d *Document) At(n *yaml.Node) Position {
	return Position{File: d.File, Line: n.Line, Column: n.Column}
}

// Fault reports a value by its dotted path; a path that was not written is reported at what would hold it.
func (d *Document) Fault(path, fix, format string, args ...any) {
	d.Faults.Add(Place(d.Fields, path, d.Position()), fix, format, args...)
}

// Place finds the nearest written value at or above path.
func Place(fields map[string]Position, path string, otherwise Position) Position {
	for path != "" {
		if at, ok := fields[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return otherwise
}

// value decodes n into v by v's type, and by the tags of its field.
func (d *Document) value(n *yaml.Node, v reflect.Value, path string, by tags) {
	n = target(n)
	d.record(path, n)
	if isNull(n) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, by)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, by)
	case reflect.Map:
		d.dictionary(n, v, path)
	case reflect.String:
		d.text(n, v, path, by)
	case reflect.Bool:
		d.truth(n, v, path)
	case reflect.Int:
		d.count(n, v, path)
	case reflect.Float64:
		d.decimal(n, v, path)
	case reflect.Interface:
		if found := d.anything(n, path); found != nil { // else it is refused
			v.Set(reflect.ValueOf(found))
		}
	default:
		panic(fmt.Sprintf("strict: no decoding for %s", v.Type())) // a kind was given a field of a new type
	}
}

// record keeps the place of a value. Paths that are long enough to be an attack get none of their own.
func (d *Document) record(path string, n *yaml.Node) {
	if _, known := d.Fields[path]; path != "" && !known {
		d.Fields[path] = d.At(n)
	}
}

// tags say which values of its type a field takes.
type tags struct {
	// number has text be written as a bare number too.
	number bool
	// words are the only ones that a text may be; none: any.
	words []string
}

func tagsOf(tag reflect.StructTag) tags {
	by := tags{number: tag.Get("scalar") == "number"}
	if words := tag.Get("enum"); words != "" {
		by.words = strings.Split(words, ",")
	}
	return by
}

// field is one field of a kind.
type field struct {
	name     string
	required bool
	by       tags
	// index finds it in a value of the kind, as reflect does.
	index []int
}

// kinds are the fields of each struct that was decoded: repositories have tens of thousands of documents of a few kinds.
var kinds sync.Map //nolint:gochecknoglobals // of reflect.Type to []field: follows from types alone

// fieldsOf lists the fields of a struct in order, those of embedded structs among them.
func fieldsOf(t reflect.Type) []field {
	if known, ok := kinds.Load(t); ok {
		return known.([]field)
	}
	var all []field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, options, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
		case options == "inline":
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				all = append(all, f)
			}
		default:
			all = append(all, field{name, options != "omitempty", tagsOf(sf.Tag), []int{i}})
		}
	}
	kinds.Store(t, all)
	return all
}

func (d *Document) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	if n.Kind != yaml.MappingNode {
		d.WrongType(n, path, "fields", writtenOut(n, fields, path))
		return
	}
	d.pairs(n, path, func(key, val *yaml.Node) {
		for _, f := range fields {
			if f.name == key.Value {
				d.value(val, v.FieldByIndex(f.index), join(path, f.name), f.by)
				return
			}
		}
		d.unknown(key, fields, path)
	})
	for _, f := range fields {
		if f.required && !written(n, f.name) {
			d.Faults.Add(d.At(n), "add it", "missing field %s%s", Quote(f.name), in(path))
		}
	}
}

// writtenOut is how a name is written that stands where fields have to: as the one field that must not be left out. What may be no
// name is not repeated.
func writtenOut(n *yaml.Node, fields []field, path string) string {
	var known, required []string
	for _, f := range fields {
		known = append(known, f.name)
		if f.required {
			required = append(required, f.name)
		}
	}
	if n.Kind != yaml.ScalarNode || len(required) != 1 || !nameLike(n.Value) {
		return "write fields, each with its value: " + strings.Join(known, ", ")
	}
	written := required[0] + ": " + n.Value
	if strings.HasSuffix(path, "]") {
		written = "- " + written
	}
	return "write " + written
}

// nameLike says whether a text may be the name of a service, a cluster or a source.
func nameLike(text string) bool {
	const longest = 63
	return text != "" && len(text) <= longest && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == ""
}

func (d *Document) unknown(key *yaml.Node, fields []field, path string) {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.name
	}
	d.Faults.Add(d.At(key), DidYouMean(key.Value, known, "fields"), "unknown field %s%s", Quote(key.Value), in(path))
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
func (d *Document) pairs(n *yaml.Node, path string, each func(key, val *yaml.Node)) {
	seen := keys{many: len(n.Content) > 2*fewKeys}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := target(n.Content[i])
		switch line, twice := seen.line(key.Value); {
		case key.Kind != yaml.ScalarNode || isNull(key):
			d.Faults.Add(d.At(key), "write the key as plain text", "key that is not text%s", in(path))
		case key.ShortTag() == "!!merge":
			d.Faults.Add(d.At(key), "write the fields out", "merge keys (<<) are not supported")
		case twice:
			d.Faults.Add(d.At(key), "keep one of them", "field %s%s is already set in line %d", Quote(key.Value), in(path), line)
		default:
			seen.add(key)
			each(key, n.Content[i+1])
		}
	}
}

// keys are those of one mapping so far. Most mappings have so few that looking through them takes less than a map, and no memory.
type keys struct {
	many  bool
	few   [fewKeys]*yaml.Node
	count int // of few
	all   map[string]int
}

const fewKeys = 8

// line is where a key stands, if it is among them.
func (k *keys) line(name string) (int, bool) {
	if k.many {
		line, ok := k.all[name]
		return line, ok
	}
	for _, n := range k.few[:k.count] {
		if n.Value == name {
			return n.Line, true
		}
	}
	return 0, false
}

func (k *keys) add(n *yaml.Node) {
	switch {
	case !k.many:
		k.few[k.count] = n
		k.count++
	case k.all == nil:
		k.all = map[string]int{n.Value: n.Line}
	default:
		k.all[n.Value] = n.Line
	}
}

func (d *Document) list(n *yaml.Node, v reflect.Value, path string, by tags) {
	if n.Kind != yaml.SequenceNode {
		d.WrongType(n, path, "a list", `begin each entry with "- "`)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := path + "[" + strconv.Itoa(i) + "]"
		if isNull(target(item)) {
			d.Faults.Add(d.At(target(item)), "remove it or fill it in", "empty entry%s", in(path))
		}
		d.value(item, v.Index(i), at, by)
	}
}

// dictionary decodes maps: text to text, to anything, or to a struct.
func (d *Document) dictionary(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.WrongType(n, path, "fields", "write them as name: value")
		return
	}
	switch v.Type().Elem().Kind() {
	case reflect.Interface:
		v.Set(reflect.ValueOf(d.object(n, path)))
	case reflect.Struct:
		d.structures(n, v, path)
	default:
		v.Set(reflect.ValueOf(d.texts(n, path)))
	}
}

func (d *Document) structures(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.Content)/2))
	d.pairs(n, path, func(key, val *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(val, item, join(path, key.Value), tags{})
		v.SetMapIndex(reflect.ValueOf(key.Value), item)
	})
}

func (d *Document) texts(n *yaml.Node, path string) map[string]string {
	m := make(map[string]string, len(n.Content)/2)
	d.pairs(n, path, func(key, val *yaml.Node) {
		at, item := join(path, key.Value), ""
		if isNull(target(val)) {
			d.WrongType(target(val), at, "text", `for empty text write ""`)
		}
		d.value(val, reflect.ValueOf(&item).Elem(), at, tags{})
		m[key.Value] = item
	})
	return m
}

func (d *Document) text(n *yaml.Node, v reflect.Value, path string, by tags) {
	switch {
	case n.Kind != yaml.ScalarNode:
		d.WrongType(n, path, "text", "write one value")
	case n.ShortTag() == "!!str", n.ShortTag() == "!!int" && by.number:
		v.SetString(n.Value)
		if by.words != nil && n.Value != "" && !slices.Contains(by.words, n.Value) {
			d.Faults.Add(d.At(n), DidYouMean(n.Value, by.words, "words"), "unknown word %s%s", Quote(n.Value), in(path))
		}
	default:
		d.WrongType(n, path, "text", "put it in quotes: "+Quote(n.Value))
	}
}

func (d *Document) truth(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		d.WrongType(n, path, "true or false", "write true or false without quotes")
		return
	}
	v.SetBool(strings.EqualFold(n.Value, "true"))
}

// decimal decodes any number.
func (d *Document) decimal(n *yaml.Node, v reflect.Value, path string) {
	var number float64
	tag := n.ShortTag()
	if n.Kind != yaml.ScalarNode || tag != "!!int" && tag != "!!float" || n.Decode(&number) != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		d.WrongType(n, path, "a number", "write a number without quotes")
		return
	}
	v.SetFloat(number)
}

// count decodes a whole number that is not negative.
func (d *Document) count(n *yaml.Node, v reflect.Value, path string) {
	number, err := strconv.ParseUint(n.Value, 10, 31)
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil {
		d.WrongType(n, path, "a count", "write a whole number without quotes")
		return
	}
	v.SetInt(int64(number))
}

// WrongType reports a value that is not of the type that it must be.
func (d *Document) WrongType(n *yaml.Node, path, want, fix string) {
	what := path
	if what == "" {
		what = "the document"
	}
	d.Faults.Add(d.At(n), fix, "%s must be %s, found %s", Printable(what), want, describe(n))
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
		return "the text " + Quote(n.Value)
	case "!!int", "!!float":
		return "the number " + Printable(Shorten(n.Value))
	}
	return Printable(Shorten(n.Value))
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
	return " in " + Printable(Shorten(path))
}

// Scalar is what stands under a key of the document, or nil when nothing does or when it is no scalar.
func (d *Document) Scalar(name string) *yaml.Node {
	n := d.Root
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key, val := target(n.Content[i]), target(n.Content[i+1]); key.Value == name && val.Kind == yaml.ScalarNode && !isNull(val) {
			return val
		}
	}
	return nil
}
