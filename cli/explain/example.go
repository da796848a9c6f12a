package explain

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/docs"
)

// maxExample bounds an example, in lines.
const maxExample = 40

// example is what the reference shows of a place, with what stands around it; empty where it shows nothing.
func example(k kind, fields []string) (string, error) {
	pages, err := fs.Glob(docs.Spec(), "*.md")
	if err != nil {
		return "", err
	}
	own := path.Base(k.Page)
	slices.SortStableFunc(pages, func(a, b string) int { // the kind's own page is the first
		switch {
		case a == own:
			return -1
		case b == own:
			return 1
		}
		return 0
	})
	for _, page := range pages {
		text, err := fs.ReadFile(docs.Spec(), page)
		if err != nil {
			return "", err
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if shown := within(block, k.Title, fields); shown != "" {
				return shown, nil
			}
		}
	}
	return "", nil
}

// within is what a block shows of a place in its first document of a kind that has it.
func within(block, title string, fields []string) string {
	for decoder := yaml.NewDecoder(strings.NewReader(block)); ; {
		var document yaml.Node
		if decoder.Decode(&document) != nil || len(document.Content) == 0 {
			return "" // there are no more, or it is a part of one
		}
		root := document.Content[0]
		if of := at(root, "kind"); of == nil || of.Value != title {
			continue
		}
		cut, ok := only(root, fields)
		if !ok {
			continue
		}
		var out bytes.Buffer
		encoder := yaml.NewEncoder(&out)
		encoder.SetIndent(2)
		if err := errors.Join(encoder.Encode(cut), encoder.Close()); err == nil && strings.Count(out.String(), "\n") <= maxExample {
			return out.String()
		}
	}
}

func at(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// only is a value with nothing in it but what leads to a place. Of lists and maps it is the first entry that has it.
func only(n *yaml.Node, fields []string) (*yaml.Node, bool) {
	if len(fields) == 0 {
		return n, true
	}
	if value := at(n, fields[0]); value != nil {
		inner, ok := only(value, fields[1:])
		return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: fields[0]}, inner}}, ok
	}
	for i, item := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			continue
		}
		inner, ok := only(item, fields)
		switch {
		case !ok:
		case n.Kind == yaml.MappingNode:
			return &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{n.Content[i-1], inner}}, true
		case n.Kind == yaml.SequenceNode:
			return &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{inner}}, true
		}
	}
	return nil, false
}
