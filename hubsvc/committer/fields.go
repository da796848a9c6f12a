package committer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/hubsvc/api"
	"github.com/pluralsh/plural/workspace/yamledit"
)

const (
	// valuesKey is where Helm values stand in a service.
	valuesKey = "spec.helm.values."
	// maxDepth bounds how deep a value goes.
	maxDepth = 32
)

// fieldsOf are the fields of a service that a request names, in a fixed order.
func fieldsOf(r *v1.SetRequest) ([]yamledit.Field, error) {
	var fields []yamledit.Field
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		if name == "" {
			return nil, badField("a parameter has no name", "send {\"parameters\": {\"NAME\": \"VALUE\"}}")
		}
		f := yamledit.Field{Key: yamledit.Key("spec", "parameters", name)}
		if value := r.Parameters[name]; value != nil {
			f.Value = *value
		}
		fields = append(fields, f)
	}
	values, err := valuesOf(r)
	if err != nil {
		return nil, err
	}
	fields = append(fields, values...)
	if r.Ref != nil {
		f := yamledit.Field{Key: "spec.source.ref"}
		if *r.Ref != "" {
			f.Value = *r.Ref
		}
		fields = append(fields, f)
	}
	if r.Clusters != nil {
		selector, err := selectorOf(r.Clusters)
		if err != nil {
			return nil, err
		}
		fields = append(fields, yamledit.Field{Key: "spec.clusters", Value: selector})
	}
	if len(fields) == 0 {
		return nil, badField("nothing says what to change", "send parameters, values, valueTexts, ref or clusters")
	}
	return fields, nil
}

func valuesOf(r *v1.SetRequest) ([]yamledit.Field, error) {
	read := map[string]any{}
	for path, value := range r.Values {
		plain, err := plainValue(value, 0)
		if err != nil {
			return nil, badField(fmt.Sprintf("the value of %q %s", path, err),
				"send a text, a number, true or false, a list or an object of them, or null")
		}
		read[path] = plain
	}
	for path, text := range r.ValueTexts {
		if _, twice := read[path]; twice {
			return nil, badField(fmt.Sprintf("%q is given twice", path), "give it in values or in valueTexts")
		}
		value, err := yamledit.Value(text)
		if err != nil {
			return nil, badField(fmt.Sprintf("cannot read the value of %q: %s", path, err), "write a text in quotes of YAML's")
		}
		read[path] = value
	}
	var fields []yamledit.Field
	for _, path := range slices.Sorted(maps.Keys(read)) {
		if !goodPath(path) {
			return nil, badField(fmt.Sprintf("%q is no path of a Helm value", path),
				"write names with dots between them, and a backslash before a dot that is part of one")
		}
		fields = append(fields, yamledit.Field{Key: valuesKey + path, Value: read[path]})
	}
	return fields, nil
}

// goodPath says whether each name of a path has a letter.
func goodPath(path string) bool {
	odd := func(r rune) bool { return !strconv.IsPrint(r) }
	if !utf8.ValidString(path) || strings.HasSuffix(path, `\`) || strings.ContainsFunc(path, odd) {
		return false
	}
	for name := range strings.SplitSeq(strings.ReplaceAll(path, `\.`, "x"), ".") {
		if name == "" {
			return false
		}
	}
	return true
}

// plainValue is a value of JSON as it is written into a file.
func plainValue(value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("is more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case nil, string, bool:
		return v, nil
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n, nil
		}
		if f, err := v.Float64(); err == nil && !math.IsInf(f, 0) {
			return f, nil
		}
		return nil, fmt.Errorf("is a number that is too large: %.40q", v.String())
	case []any:
		list := make([]any, len(v))
		for i := range v {
			item, err := plainValue(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = item
		}
		return list, nil
	case map[string]any:
		mapping := make(map[string]any, len(v))
		for name := range v {
			item, err := plainValue(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			mapping[name] = item
		}
		return mapping, nil
	}
	return nil, fmt.Errorf("is a %T", value)
}

// selectorOf is where a service runs, as its file says it.
func selectorOf(c *v1.ClusterSelector) (map[string]any, error) {
	out := map[string]any{}
	if len(c.Names) > 0 {
		names := make([]any, len(c.Names))
		for i, name := range c.Names {
			names[i] = name
		}
		out["names"] = names
	}
	if len(c.MatchLabels) > 0 {
		labels := map[string]any{}
		for key, value := range c.MatchLabels {
			labels[key] = value
		}
		out["matchLabels"] = labels
	}
	if len(out) == 0 {
		return nil, badField("clusters name none, and no tags",
			"give names or matchLabels; to have it run nowhere, suspend it, or plural service delete in a clone")
	}
	return out, nil
}

func badField(message, fix string) error {
	return &api.Refused{Status: http.StatusBadRequest, Message: message, Fix: fix}
}
