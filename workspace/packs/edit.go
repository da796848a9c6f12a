package packs

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// put sets a value below a path of keys, in a text that is one mapping or nothing yet. The rest stays as it is, comments
// included.
func put(text []byte, path []string, value any) ([]byte, error) {
	return edit(text, func(n *yaml.Node) error {
		for _, key := range path[:len(path)-1] {
			inner := under(n, key)
			if inner == nil || isNull(inner) {
				inner = &yaml.Node{Kind: yaml.MappingNode}
				set(n, key, inner)
			}
			if inner.Kind != yaml.MappingNode {
				return fmt.Errorf("%s is not a mapping", key)
			}
			n = inner
		}
		var node yaml.Node
		if err := node.Encode(value); err != nil {
			return err
		}
		set(n, path[len(path)-1], &node)
		return nil
	})
}

// take removes a key of a text that is one mapping. The result is nil when none is left.
func take(text []byte, key string) ([]byte, error) {
	empty := false
	out, err := edit(text, func(n *yaml.Node) error {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				n.Content = append(n.Content[:i:i], n.Content[i+2:]...)
				break
			}
		}
		empty = len(n.Content) == 0
		return nil
	})
	if err != nil || empty {
		return nil, err
	}
	return out, nil
}

// edit changes the one mapping that a text is.
func edit(text []byte, change func(n *yaml.Node) error) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if document.Kind == 0 || len(document.Content) == 1 && isNull(document.Content[0]) {
		document.Kind, document.Content = yaml.DocumentNode, []*yaml.Node{root}
	} else {
		root = document.Content[0]
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("it is not a mapping")
	}
	if err := change(root); err != nil {
		return nil, err
	}
	if len(root.Content) > 0 {
		root.Style &^= yaml.FlowStyle // one answer a line, so that a diff shows it
	}
	return encode(&document)
}

func under(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func set(n *yaml.Node, key string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			value.HeadComment, value.LineComment, value.FootComment = n.Content[i+1].HeadComment, n.Content[i+1].LineComment, n.Content[i+1].FootComment
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
