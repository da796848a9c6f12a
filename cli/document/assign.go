package document

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Assigned reads KEY=VALUE, and KEY- for what is to be taken away, as fields. place is where a key stands in the document.
func Assigned(args []string, place func(key string) string) ([]yamledit.Field, error) {
	return assigned(args, place, func(text string) (any, error) { return text, nil })
}

// Valued is Assigned for values that may be more than texts, as Value reads them.
func Valued(args []string, place func(key string) string) ([]yamledit.Field, error) {
	return assigned(args, place, Value)
}

func assigned(args []string, place func(string) string, value func(string) (any, error)) ([]yamledit.Field, error) {
	var fields []yamledit.Field
	for _, arg := range args {
		key, text, ok := strings.Cut(arg, "=")
		var f yamledit.Field
		switch {
		case ok && key != "":
			v, err := value(text)
			if err != nil {
				return nil, &ui.Err{
					Msg: fmt.Sprintf("cannot read the value of %q", key), Cause: err.Error(), Fix: "write a text in quotes of YAML's, within those of the shell",
					Doc: ui.DocUsage,
				}
			}
			f = yamledit.Field{Key: place(key), Value: v}
		case !ok && len(arg) > 1 && strings.HasSuffix(arg, "-"):
			f.Key = place(strings.TrimSuffix(arg, "-"))
		default:
			return nil, &ui.Err{Msg: fmt.Sprintf("%q assigns nothing", arg), Fix: "write KEY=VALUE, or KEY- to take it away", Doc: ui.DocUsage}
		}
		for _, other := range fields {
			if other.Key == f.Key {
				return nil, &ui.Err{Msg: fmt.Sprintf("%q is given twice", strings.TrimSuffix(key, "-")), Fix: "give it once", Doc: ui.DocUsage}
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

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
	return decoded(n.Content[0])
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

// decoded is a list, a mapping or a text in quotes.
func decoded(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			v, err := decoded(item)
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
			v, err := decoded(n.Content[i+1])
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

// Nested is fields as the mapping that holds them, for a document that is not written yet.
func Nested(fields []yamledit.Field) (map[string]any, error) {
	out := map[string]any{}
	for _, f := range fields {
		if err := yamledit.Put(out, f); err != nil {
			return nil, &ui.Err{
				Msg: fmt.Sprintf("%q has no place", f.Key), Cause: err.Error(),
				Fix: "write PATH=VALUE, with dots between names and a backslash before a dot that is part of one", Doc: ui.DocUsage,
			}
		}
	}
	return out, nil
}

// Flag is a flag whose text is that of a field.
type Flag struct{ Name, Key, Value string }

// Given are the fields of those flags that were given. An empty text takes its field away.
func Given(flags *pflag.FlagSet, all []Flag) []yamledit.Field {
	var fields []yamledit.Field
	for _, one := range all {
		if !flags.Changed(one.Name) {
			continue
		}
		field := yamledit.Field{Key: one.Key}
		if one.Value != "" {
			field.Value = one.Value
		}
		fields = append(fields, field)
	}
	return fields
}
