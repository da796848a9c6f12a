package document

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// Assigned reads KEY=VALUE, and KEY- for what is to be taken away, as fields. place is where a key stands in the document.
func Assigned(args []string, place func(key string) string) ([]yamledit.Field, error) {
	return assigned(args, place, func(text string) (any, error) { return text, nil })
}

// Valued is Assigned for values that may be more than texts, as yamledit.Value reads them.
func Valued(args []string, place func(key string) string) ([]yamledit.Field, error) {
	return assigned(args, place, yamledit.Value)
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
