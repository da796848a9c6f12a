package policy

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// lookup is the value under a key of a mapping, or nil.
func lookup(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func mappingNode(fields ...[]*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Content: slices.Concat(fields...)}
}

// field is a key and its value, for mappingNode.
func field(key string, value *yaml.Node) []*yaml.Node {
	return []*yaml.Node{quoted(key), value}
}

// plain is a scalar that is written as it is.
func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// quoted is text that YAML must not take for anything else: the encoder puts it in quotes where that is needed.
func quoted(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

func flow(n *yaml.Node) *yaml.Node {
	n.Style |= yaml.FlowStyle
	return n
}

func list(words []string) *yaml.Node {
	n := flow(&yaml.Node{Kind: yaml.SequenceNode})
	for _, w := range words {
		n.Content = append(n.Content, quoted(w))
	}
	return n
}

func dictionaryNode(m map[string]string) *yaml.Node {
	n := mappingNode()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		n.Content = append(n.Content, field(key, quoted(m[key]))...)
	}
	return n
}

func requirements(all []Requirement) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, r := range all {
		one := flow(mappingNode(field("key", quoted(r.Key)), field("operator", plain(r.Operator))))
		if len(r.Values) > 0 {
			one.Content = append(one.Content, field("values", list(r.Values))...)
		}
		n.Content = append(n.Content, one)
	}
	return n
}
