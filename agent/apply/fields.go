package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
)

// Fields of a manifest are named by tokens: keys of objects, and indexes of lists in decimal.

// tokens reads a JSON pointer.
func tokens(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts
}

// covers says whether a pointer names the field at path, or something that holds it.
func covers(pointer string, path []string) bool {
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

// match returns the paths of a manifest that a pointer names, in order.
func match(node any, pointer string) [][]string {
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

// remove takes a field out of a manifest. An item of a list goes as a whole.
func remove(manifest map[string]any, path []string) {
	if len(path) > 0 {
		_ = removed(manifest, path)
	}
}

// removed returns the node without the field at path.
func removed(node any, path []string) any {
	switch node := node.(type) {
	case map[string]any:
		child, ok := node[path[0]]
		switch {
		case !ok:
		case len(path) == 1:
			delete(node, path[0])
		default:
			node[path[0]] = removed(child, path[1:])
		}
	case []any:
		i, err := strconv.Atoi(path[0])
		switch {
		case err != nil || i < 0 || i >= len(node):
		case len(path) == 1:
			return slices.Delete(node, i, i+1)
		default:
			node[i] = removed(node[i], path[1:])
		}
	}
	return node
}

// identifying are the keys by which the API server knows the items of its lists, as far as they are scalars.
func identifying() []string {
	return []string{
		"name", "key", "containerPort", "port", "protocol", "mountPath", "devicePath", "ip", "uid", "type",
		"topologyKey", "whenUnsatisfiable", "kind", "resourceName",
	}
}

// excerpt is an object with nothing but its name and the fields at the paths, as they are.
func excerpt(obj map[string]any, paths [][]string) map[string]any {
	out := map[string]any{"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
	metadata, _ := obj["metadata"].(map[string]any)
	named := map[string]any{"name": metadata["name"]}
	if namespace, ok := metadata["namespace"]; ok {
		named["namespace"] = namespace
	}
	out["metadata"] = named
	for key, child := range obj {
		if part := part(child, below(paths, key)); part != nil && key != "apiVersion" && key != "kind" {
			if key == "metadata" {
				merge(named, part)
				continue
			}
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

// below are the paths that begin with key, without it.
func below(paths [][]string, key string) [][]string {
	var inner [][]string
	for _, path := range paths {
		if len(path) > 0 && path[0] == key {
			inner = append(inner, path[1:])
		}
	}
	return inner
}

// part is what the paths name of a node, or nil.
func part(node any, paths [][]string) any {
	if len(paths) == 0 {
		return nil
	}
	if slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 }) {
		return node
	}
	switch node := node.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, child := range node {
			if inner := part(child, below(paths, key)); inner != nil {
				out[key] = inner
			}
		}
		return orNothing(out)
	case []any:
		var out []any
		for i, child := range node {
			inner := part(child, below(paths, strconv.Itoa(i)))
			if inner == nil {
				continue
			}
			out = append(out, identified(child, inner))
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
		_, taken := fields[key]
		switch value.(type) {
		case map[string]any, []any:
			continue
		}
		if there && !taken {
			fields[key] = value
		}
	}
	return fields
}

// find returns the path of a field that the API server names, such as .spec.containers[name="web"].image, in a manifest. Names
// are not escaped there, and some hold dots: the manifest decides what is a name.
func find(node any, field string) (path []string, ok bool) {
	if field == "" {
		return nil, true
	}
	switch field[0] {
	case '.':
		fields, _ := node.(map[string]any)
		for key, child := range fields {
			rest, found := strings.CutPrefix(field[1:], key)
			if !found || rest != "" && rest[0] != '.' && rest[0] != '[' {
				continue
			}
			if inner, ok := find(child, rest); ok {
				return append([]string{key}, inner...), true
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
			if inner, ok := find(child, rest); ok {
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
