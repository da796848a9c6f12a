// Package fieldpath owns paths of fields in manifests: found by a pointer or by an API server's name for them, taken out, or kept
// alone. Field managers, ignored differences and conflicts are told by it.
//
// A path is a list of tokens from the top of a manifest: keys of objects, and indexes of lists in decimal. The package refuses to know who
// owns a field, and never asks a cluster.
package fieldpath

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// tokens reads a JSON pointer.
func tokens(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts
}

// Covers says whether a pointer names the field at path, or something that holds it.
func Covers(pointer string, path []string) bool {
	want := tokens(pointer)
	if len(want) > len(path) {
		return false
	}
	for i, token := range want {
		if token != "*" && token != path[i] {
			return false
		}
	}
	return true
}

// Match returns the paths of a manifest that a pointer names, in order.
func Match(node any, pointer string) [][]string {
	var found [][]string
	var walk func(node any, left, path []string)
	walk = func(node any, left, path []string) {
		if len(left) == 0 {
			found = append(found, slices.Clone(path))
			return
		}
		each(node, func(key string, child any) {
			if left[0] == "*" || left[0] == key {
				walk(child, left[1:], append(path, key))
			}
		})
	}
	walk(node, tokens(pointer), nil)
	return found
}

// each visits what a node holds, sorted as written or by key.
func each(node any, visit func(key string, child any)) {
	switch node := node.(type) {
	case map[string]any:
		keys := make([]string, 0, len(node))
		for key := range node {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			visit(key, node[key])
		}
	case []any:
		for i, child := range node {
			visit(strconv.Itoa(i), child)
		}
	}
}

// tree holds fields that many paths name, so that each node is looked at once.
type tree struct {
	whole bool // this is one of the fields, with all that it holds
	below map[string]*tree
}

func treeOf(paths [][]string) *tree {
	root := new(tree)
	for _, path := range paths {
		at := root
		for _, token := range path {
			at = at.under(token)
		}
		at.whole = true
	}
	return root
}

// under is the node below, which is made when it is not there.
func (t *tree) under(token string) *tree {
	inner := t.below[token]
	if inner == nil {
		inner = new(tree)
		t.put(token, inner)
	}
	return inner
}

func (t *tree) put(token string, inner *tree) {
	if t.below == nil {
		t.below = make(map[string]*tree)
	}
	t.below[token] = inner
}

// Remove takes fields out of a manifest. An item of a list goes as a whole.
func Remove(manifest map[string]any, paths [][]string) {
	_ = pared(manifest, treeOf(paths))
}

// pared returns the node without the fields below it. Indexes are those of before.
func pared(node any, fields *tree) any {
	switch node := node.(type) {
	case map[string]any:
		for key, inner := range fields.below {
			child, there := node[key]
			switch {
			case inner.whole:
				delete(node, key)
			case there:
				node[key] = pared(child, inner)
			}
		}
	case []any:
		left := node[:0]
		for i, child := range node {
			inner := fields.below[strconv.Itoa(i)]
			switch {
			case inner == nil:
				left = append(left, child)
			case !inner.whole:
				left = append(left, pared(child, inner))
			}
		}
		return left
	}
	return node
}

// located are the places in a live object of fields of its manifest: in a list of objects others may have put theirs before
// ours. What has no place there is left out; nil when nothing has one.
func located(manifest, live any, fields *tree) *tree {
	if fields.whole {
		return fields
	}
	found := new(tree)
	switch node := manifest.(type) {
	case map[string]any:
		there, _ := live.(map[string]any)
		for key, inner := range fields.below {
			if child, ok := there[key]; ok {
				found.add(key, located(node[key], child, inner))
			}
		}
	case []any:
		items, _ := live.([]any)
		known := itemMatcher{items, make(map[string]map[string]int)}
		for key, inner := range fields.below {
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(node) {
				continue
			}
			if at := known.of(node[i], i); at >= 0 {
				found.add(strconv.Itoa(at), located(node[i], items[at], inner))
			}
		}
	}
	if len(found.below) == 0 {
		return nil
	}
	return found
}

func (t *tree) add(token string, inner *tree) {
	if inner != nil {
		t.put(token, inner)
	}
}

// itemMatcher finds the items of a live list that those of a manifest became.
type itemMatcher struct {
	live []any
	// byKeys holds, for the names of keys that identify an item, the first place of each of their values.
	byKeys map[string]map[string]int
}

// of returns the place of an item: of the one with the same keys, else the same place when nothing tells items apart; -1 when
// there is none.
func (c *itemMatcher) of(item any, index int) int {
	keys := keysOf(item)
	if _, isObject := item.(map[string]any); isObject && len(keys) == 0 {
		if index < len(c.live) {
			return index
		}
		return -1
	}
	names := strings.Join(keys, ",")
	places := c.byKeys[names]
	if places == nil {
		places = make(map[string]int, len(c.live))
		for i, have := range slices.Backward(c.live) {
			places[identity(have, keys)] = i
		}
		c.byKeys[names] = places
	}
	if at, ok := places[identity(item, keys)]; ok {
		return at
	}
	return -1
}

// keysOf are the keys that identify an item of a list, none of an item that is its own key.
func keysOf(item any) []string {
	fields, _ := item.(map[string]any)
	return slices.DeleteFunc(identifying(), func(key string) bool {
		value, there := fields[key]
		return !there || !scalar(value)
	})
}

func identity(item any, keys []string) string {
	fields, isObject := item.(map[string]any)
	if !isObject {
		return fmt.Sprintf("%#v", item)
	}
	var text strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&text, "%#v\n", fields[key])
	}
	return text.String()
}

func scalar(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// identifying are the keys by which the API server knows the items of its lists, as far as they are scalars.
func identifying() []string {
	return []string{
		"name", "key", "containerPort", "port", "protocol", "mountPath", "devicePath", "ip", "uid", "type",
		"topologyKey", "whenUnsatisfiable", "kind", "resourceName",
	}
}

// Excerpt is a live object with nothing but its name and those fields that the paths name in its manifest. In a list of objects, others may
// have put items of theirs before ours, which are found by their keys.
func Excerpt(manifest, live map[string]any, paths [][]string) map[string]any {
	return excerpt(live, located(manifest, live, treeOf(paths)))
}

func excerpt(obj map[string]any, fields *tree) map[string]any {
	out := map[string]any{"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
	metadata, _ := obj["metadata"].(map[string]any)
	named := map[string]any{"name": metadata["name"]}
	if namespace, ok := metadata["namespace"]; ok {
		named["namespace"] = namespace
	}
	out["metadata"] = named
	if fields == nil {
		return out
	}
	for key, inner := range fields.below {
		part := part(obj[key], inner)
		switch {
		case part == nil, key == "apiVersion", key == "kind":
		case key == "metadata":
			merge(named, part)
		default:
			out[key] = part
		}
	}
	return out
}

func merge(into map[string]any, part any) {
	fields, _ := part.(map[string]any)
	for key, value := range fields {
		into[key] = value
	}
}

// part is what is named of a node, or nil.
func part(node any, fields *tree) any {
	if fields.whole {
		return node
	}
	switch node := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range fields.below {
			if child := part(node[key], inner); child != nil {
				out[key] = child
			}
		}
		return orNothing(out)
	case []any:
		var out []any
		for i, child := range node {
			inner := fields.below[strconv.Itoa(i)]
			if inner == nil {
				continue
			}
			if some := part(child, inner); some != nil {
				out = append(out, identified(child, some))
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

func orNothing(m map[string]any) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// identified is a part of a list's item with the keys that the item is known by.
func identified(item, part any) any {
	whole, isMap := item.(map[string]any)
	fields, ok := part.(map[string]any)
	if !isMap || !ok {
		return part
	}
	for _, key := range identifying() {
		value, there := whole[key]
		if _, taken := fields[key]; there && !taken && scalar(value) {
			fields[key] = value
		}
	}
	return fields
}

// Find returns the path of a field that the API server names, such as .spec.containers[name="web"].image, in a manifest. Names
// are not escaped there, and some hold dots: the manifest decides what is a name.
func Find(node any, field string) (path []string, ok bool) {
	if field == "" {
		return nil, true
	}
	switch field[0] {
	case '.':
		fields, _ := node.(map[string]any)
		for end := 1; end <= len(field); end++ {
			if end < len(field) && field[end] != '.' && field[end] != '[' {
				continue
			}
			child, there := fields[field[1:end]]
			if !there {
				continue
			}
			if inner, ok := Find(child, field[end:]); ok {
				return append([]string{field[1:end]}, inner...), true
			}
		}
	case '[':
		list, _ := node.([]any)
		selector, rest, closed := bracket(field)
		if !closed {
			return nil, false
		}
		for i, child := range list {
			if !selected(selector, i, child) {
				continue
			}
			if inner, ok := Find(child, rest); ok {
				return append([]string{strconv.Itoa(i)}, inner...), true
			}
		}
	}
	return nil, false
}

// bracket cuts what stands between brackets off a field's name. Quoted text may hold brackets.
func bracket(field string) (inside, rest string, ok bool) {
	quoted := false
	for i := 1; i < len(field); i++ {
		switch {
		case quoted && field[i] == '\\':
			i++
		case field[i] == '"':
			quoted = !quoted
		case field[i] == ']' && !quoted:
			return field[1:i], field[i+1:], true
		}
	}
	return "", "", false
}

// selected says whether an item of a list is the one that brackets name: by index, by value, or by the values of its keys.
func selected(selector string, index int, item any) bool {
	if value, ok := strings.CutPrefix(selector, "="); ok {
		return equalJSON(value, item)
	}
	if number, err := strconv.Atoi(selector); err == nil {
		return number == index
	}
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, pair := range splitPairs(selector) {
		key, value, _ := strings.Cut(pair, "=")
		if have, ok := fields[key]; ok && !equalJSON(value, have) {
			return false // a key that is left out has its default
		}
	}
	return true
}

// splitPairs cuts at commas outside quotes.
func splitPairs(selector string) []string {
	var pairs []string
	start, quoted := 0, false
	for i := 0; i < len(selector); i++ {
		switch {
		case quoted && selector[i] == '\\':
			i++
		case selector[i] == '"':
			quoted = !quoted
		case selector[i] == ',' && !quoted:
			pairs = append(pairs, selector[start:i])
			start = i + 1
		}
	}
	return append(pairs, selector[start:])
}

func equalJSON(text string, value any) bool {
	var want any
	if err := kjson.Unmarshal([]byte(text), &want); err != nil {
		return false
	}
	return fmt.Sprint(want) == fmt.Sprint(value)
}
