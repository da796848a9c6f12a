package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// object is a Kubernetes object as JSON has it, with int64 and float64 for numbers.
type object = map[string]any

// key names an object: what two renders have to agree on for its fields to be compared.
func key(o object) string {
	metadata, _ := o["metadata"].(object)
	name, _ := metadata["name"].(string)
	if name == "" {
		generated, _ := metadata["generateName"].(string)
		name = generated + "*"
	}
	if namespace, _ := metadata["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%v %v %s", o["apiVersion"], o["kind"], name)
}

// difference is one place in which two renders are not the same.
type difference struct {
	// Object is the key of the object.
	Object string `json:"object"`
	// Field is its path in the object; empty when the object as a whole is on one side only, or at another place.
	Field string `json:"field,omitempty"`
	// Ours and Theirs are the values, cut to where they begin to differ; empty on the side that has none.
	Ours   string `json:"ours,omitempty"`
	Theirs string `json:"theirs,omitempty"`
	// Class says in a few words what kind of difference it is.
	Class string `json:"class"`
}

func (d difference) String() string {
	text := d.Object
	if d.Field != "" {
		text += " " + d.Field
	}
	if text += ": " + d.Class; d.Ours != "" || d.Theirs != "" {
		text += fmt.Sprintf(": ours %s, theirs %s", orNothing(d.Ours), orNothing(d.Theirs))
	}
	return text
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// index numbers field paths apart from one another.
var index = regexp.MustCompile(`\[\d+\]`)

// reason is the same for differences that are likely to have one cause.
func (d difference) reason() string {
	field := index.ReplaceAllString(d.Field, "[]")
	// The keys of these are anybody's.
	for _, free := range []string{".data", ".binaryData", ".stringData", ".metadata.annotations", ".metadata.labels"} {
		if at := strings.Index(field, free); at >= 0 && len(field) > at+len(free) {
			field = field[:at+len(free)] + ".*"
		}
	}
	kind := strings.Fields(d.Object)
	if field == "" && len(kind) > 1 {
		return fmt.Sprintf("%s: %s", d.Class, kind[1])
	}
	return fmt.Sprintf("%s: %s", d.Class, field)
}

// missingInOurs is the class of an object that theirs alone has.
const missingInOurs = "object missing in ours"

// maxDifferences is how many differences of one item are told.
const maxDifferences = 200

// diffObjects compares two renders. Objects of one key are compared in the order in which they stand, equal ones first.
func diffObjects(ours, theirs []object, ordered bool) []difference {
	var found []difference
	mine, others := byKey(ours), byKey(theirs)
	for _, k := range slices.Sorted(maps.Keys(union(mine, others))) {
		left, right := withoutEqual(mine[k], others[k])
		for i := range max(len(left), len(right)) {
			switch {
			case i >= len(left):
				found = append(found, difference{Object: k, Class: missingInOurs})
			case i >= len(right):
				found = append(found, difference{Object: k, Class: "object missing in theirs"})
			default:
				w := walker{object: k, secret: left[i]["kind"] == "Secret"}
				w.compare("", left[i], right[i])
				found = append(found, w.found...)
			}
		}
	}
	if len(found) == 0 && ordered {
		for i := range ours {
			if a, b := key(ours[i]), key(theirs[i]); a != b {
				return []difference{{Object: b, Class: "other order", Ours: a, Theirs: b}}
			}
		}
	}
	return found[:min(len(found), maxDifferences)]
}

func byKey(objects []object) map[string][]object {
	all := map[string][]object{}
	for _, o := range objects {
		all[key(o)] = append(all[key(o)], o)
	}
	return all
}

func union(a, b map[string][]object) map[string][]object {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// withoutEqual takes pairs of equal objects away.
func withoutEqual(ours, theirs []object) (left, right []object) {
	right = slices.Clone(theirs)
	for _, o := range ours {
		same := slices.IndexFunc(right, func(t object) bool { return reflect.DeepEqual(o, t) })
		if same < 0 {
			left = append(left, o)
			continue
		}
		right = slices.Delete(right, same, same+1)
	}
	return left, right
}

// walker collects what differs in one object.
type walker struct {
	object string
	secret bool
	found  []difference
}

func (w *walker) compare(field string, ours, theirs any) {
	if len(w.found) >= maxDifferences {
		return
	}
	switch mine := ours.(type) {
	case object:
		if other, ok := theirs.(object); ok {
			w.compareMaps(field, mine, other)
			return
		}
	case []any:
		if other, ok := theirs.([]any); ok && len(mine) == len(other) {
			for i := range mine {
				w.compare(fmt.Sprintf("%s[%d]", field, i), mine[i], other[i])
			}
			return
		}
	}
	if reflect.DeepEqual(ours, theirs) {
		return
	}
	mine, other := show(ours, theirs)
	if w.secret && (strings.HasPrefix(field, ".data") || strings.HasPrefix(field, ".stringData")) {
		mine, other = "a secret", "another one"
	}
	w.found = append(w.found, difference{w.object, field, mine, other, class(ours, theirs)})
}

func (w *walker) compareMaps(field string, ours, theirs object) {
	keys := maps.Clone(ours)
	maps.Copy(keys, theirs)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		inner := field + "." + k
		if strings.ContainsAny(k, "./[]") {
			inner = fmt.Sprintf("%s[%q]", field, k)
		}
		mine, have := ours[k]
		other, has := theirs[k]
		switch {
		case have && has:
			w.compare(inner, mine, other)
		case have:
			w.found = append(w.found, difference{Object: w.object, Field: inner, Class: "field missing in theirs"})
		default:
			w.found = append(w.found, difference{Object: w.object, Field: inner, Class: "field missing in ours"})
		}
	}
}

// class says what kind of difference there is between two values.
func class(ours, theirs any) string {
	mine, isText := ours.(string)
	other, areText := theirs.(string)
	switch a, b := ours.([]any); {
	case isText && areText && strings.TrimRight(mine, "\n") == strings.TrimRight(other, "\n"):
		return "other line ends at the end of a text"
	case isText && areText && strings.Join(strings.Fields(mine), "") == strings.Join(strings.Fields(other), ""):
		return "other white space"
	case b && reflect.TypeOf(theirs) == reflect.TypeOf(ours):
		return fmt.Sprintf("a list of %d for one of %d", len(a), len(theirs.([]any))) //nolint:forcetypeassert // both are lists
	case reflect.TypeOf(ours) != reflect.TypeOf(theirs):
		return fmt.Sprintf("%s for %s", typeName(ours), typeName(theirs))
	}
	return "other value"
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case []any:
		return "a list"
	}
	return "a mapping"
}

// show cuts two values down to where they begin to differ. Texts are quoted, all else is JSON.
func show(ours, theirs any) (mine, other string) {
	a, isText := ours.(string)
	b, areText := theirs.(string)
	if !isText || !areText {
		a, b = asJSON(ours), asJSON(theirs)
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	mine, other = window(a, at), window(b, at)
	if isText && areText {
		return strconv.Quote(mine), strconv.Quote(other)
	}
	return mine, other
}

func asJSON(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(v) != nil { // it came out of JSON
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(out.String())
}

// window is some 60 bytes of a text around a place.
func window(s string, at int) string {
	from, to := max(at-20, 0), min(at+40, len(s))
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
		to++
	}
	shown := s[from:to]
	if from > 0 {
		shown = "…" + shown
	}
	if to < len(s) {
		shown += "…"
	}
	return shown
}
