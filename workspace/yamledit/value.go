package yamledit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Value reads a text as YAML: 3 is a number, true a bool, [a, b] a list. What could be a number and would not be written so,
// such as 1.10 or 007, is a text: it is somebody's version rather than 1.1. So is a template, and whatever is no YAML.
func Value(text string) (any, error) {
	if strings.HasPrefix(text, "{{") {
		return text, nil
	}
	var n, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	err := decoder.Decode(&n)
	if err == nil && !errors.Is(decoder.Decode(&more), io.EOF) {
		err = errors.New("it is more than one value")
	}
	switch {
	case strings.IndexAny(text, "[{\"'") != 0:
		if err != nil || n.Content[0].Kind != yaml.ScalarNode { // such as "a: b", which is meant as it stands
			return text, nil
		}
		return scalar(n.Content[0], text), nil
	case err != nil:
		return nil, errors.New("it begins like a list, a mapping or a text in quotes, and does not end so")
	}
	return decodedValue(n.Content[0])
}

// scalar is what a scalar means that is written as text.
func scalar(n *yaml.Node, text string) any {
	switch n.ShortTag() {
	case "!!int":
		if i, err := strconv.Atoi(text); err == nil && strconv.Itoa(i) == text {
			return i
		}
	case "!!float":
		if f, err := strconv.ParseFloat(text, 64); err == nil && strconv.FormatFloat(f, 'g', -1, 64) == text {
			return f
		}
	case "!!bool":
		if text == "true" || text == "false" {
			return text == "true"
		}
	}
	return text
}

// decodedValue is a list, a mapping or a text in quotes.
func decodedValue(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, err := decodedValue(item)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		mapping := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Kind != yaml.ScalarNode {
				return nil, errors.New("it has a key that is no text")
			}
			v, err := decodedValue(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			mapping[n.Content[i].Value] = v
		}
		return mapping, nil
	case yaml.ScalarNode:
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			return n.Value, nil
		}
		return scalar(n, n.Value), nil
	}
	return nil, errors.New("it has an alias")
}

// longestSubject is how long a commit's first line gets, in bytes.
const longestSubject = 72

// Subject is a commit's message about fields: what they are set to, where that fits in a line.
func Subject(name string, fields []Field) string {
	var values, keys []string
	for _, f := range fields {
		key := label(f.Key)
		keys = append(keys, key)
		switch f.Value.(type) {
		case nil:
			values = append(values, "no "+key)
		case map[string]any, []any:
			values = append(values, key)
		default:
			values = append(values, fmt.Sprintf("%s=%v", key, f.Value))
		}
	}
	for _, list := range [][]string{values, keys} {
		line := "Set " + strings.Join(list, ", ") + " of " + name
		if len(line) <= longestSubject && plain(line) {
			return line
		}
	}
	return "Change " + name
}

// label is a field as people named it: in the path of a value, a backslash is theirs.
func label(key string) string {
	if value, ok := strings.CutPrefix(key, "spec.helm.values."); ok {
		return value
	}
	for _, prefix := range []string{"spec.parameters.", "spec.source.", "spec."} {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			return Plain(rest)
		}
	}
	return key
}

// plain says whether a text shows on one line as it is.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
}

// Sets says whether one of the fields sets a name, something in it, or what holds it.
func Sets(fields []Field, name string) bool {
	within := func(inner, outer string) bool { return strings.HasPrefix(inner+".", outer+".") }
	return slices.ContainsFunc(fields, func(f Field) bool {
		key := Plain(f.Key)
		return f.Value != nil && (within(key, name) || within(name, key))
	})
}
