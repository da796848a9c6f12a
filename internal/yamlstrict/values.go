package yamlstrict

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// object decodes fields of free shape.
func (d *Document) object(n *yaml.Node, path string) map[string]any {
	m := make(map[string]any, len(n.Content)/2)
	d.pairs(n, path, func(key, val *yaml.Node) {
		m[key.Value] = d.anything(val, join(path, key.Value))
	})
	return m
}

// anything decodes a value of free shape into what encoding/json would make of it, except that whole numbers keep
// their exact value: nil, bool, int, int64, uint64, float64, string, []any, map[string]any.
func (d *Document) anything(n *yaml.Node, path string) any {
	n = target(n)
	d.record(path, n)
	switch n.Kind {
	case yaml.MappingNode:
		return d.object(n, path)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = d.anything(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return list
	}
	return d.scalar(n, path)
}

// scalar refuses what YAML readers disagree on, rather than let a chart see another value than its author meant.
func (d *Document) scalar(n *yaml.Node, path string) any {
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!str":
		if n.Style == 0 && isOldBool(n.Value) {
			d.Faults.Add(d.At(n), "write true or false, or put it in quotes", "%s is true or false to some YAML readers, text to others%s", Quote(n.Value), in(path))
		}
		return n.Value
	case "!!timestamp":
		return n.Value
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int", "!!float":
		return d.number(n, path)
	}
	d.Faults.Add(d.At(n), "remove the tag", "tag %s is not supported%s", Quote(n.Tag), in(path))
	return nil
}

func (d *Document) number(n *yaml.Node, path string) any {
	var v any
	if err := n.Decode(&v); err != nil {
		d.Faults.Add(d.At(n), "put it in quotes", "%s is not a number%s", Quote(n.Value), in(path))
		return nil
	}
	f, isFloat := v.(float64)
	if !isFloat {
		return v
	}
	if math.IsNaN(f) || math.IsInf(f, 0) || !strings.ContainsAny(n.Value, ".eE") {
		d.Faults.Add(d.At(n), "put it in quotes", "the number %s cannot be kept exactly%s", Quote(n.Value), in(path))
	}
	return f
}

// isOldBool says whether s is a boolean in YAML 1.1 only.
func isOldBool(s string) bool {
	switch strings.ToLower(s) {
	case "y", "yes", "on", "n", "no", "off":
		return true
	}
	return false
}
