package sops

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"go.yaml.in/yaml/v3"
)

// openYAML opens a file of one or more documents. sops repeats its metadata in each document of a file that it sealed as
// a whole; documents with other metadata were sealed apart, and those without any were not sealed: they stay as they are.
func openYAML(data []byte, ids []age.Identity) ([]byte, error) {
	nodes, err := readDocuments(data)
	if err != nil {
		return nil, err
	}
	files, err := sealedTogether(nodes)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := file.open(ids); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	for _, node := range nodes {
		sweep(node)
		if err := encoder.Encode(node); err != nil {
			return nil, damaged("it cannot be written as YAML again")
		}
	}
	if err := encoder.Close(); err != nil {
		return nil, damaged("it cannot be written as YAML again")
	}
	return out.Bytes(), nil
}

func readDocuments(data []byte) ([]*yaml.Node, error) {
	var nodes []*yaml.Node
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		node := new(yaml.Node)
		err := decoder.Decode(node)
		if errors.Is(err, io.EOF) {
			return nodes, nil
		}
		if err != nil {
			return nil, damaged("it is not YAML: %v", err)
		}
		nodes = append(nodes, node)
	}
}

// sealedTogether takes the metadata out of the documents, and puts those with the same MAC into one file.
func sealedTogether(nodes []*yaml.Node) ([]*document, error) {
	var files []*document
	byMAC := map[string]*document{}
	for _, node := range nodes {
		root, meta := takeMetadata(node)
		if meta == nil {
			continue
		}
		fields, err := yamlFields(meta)
		if err != nil {
			return nil, err
		}
		file := byMAC[fields("mac")]
		if file == nil {
			file = &document{fields: fields}
			byMAC[fields("mac")] = file
			files = append(files, file)
		}
		tree, err := yamlBranch(root, node, 0)
		if err != nil {
			return nil, err
		}
		file.tree = append(file.tree, tree)
	}
	if len(files) == 0 {
		return nil, damaged("it has no sops metadata")
	}
	return files, nil
}

// takeMetadata takes the value of the document's key "sops" out of it, if it has one.
func takeMetadata(doc *yaml.Node) (root, meta *yaml.Node) {
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil
	}
	root = doc.Content[0]
	for i := 0; i < len(root.Content); i += 2 {
		if key := root.Content[i]; key.Kind == yaml.ScalarNode && key.Value == metadataKey {
			meta = root.Content[i+1]
			root.Content = slices.Delete(root.Content, i, i+2)
			return root, meta
		}
	}
	return root, nil
}

func yamlFields(meta *yaml.Node) (fields, error) {
	if meta.Kind != yaml.MappingNode {
		return nil, damaged("its key sops is not sops' metadata")
	}
	tree, err := yamlBranch(meta, nil, 0)
	if err != nil {
		return nil, err
	}
	return treeFields(tree), nil
}

// yamlBranch is a mapping with its comments in the order in which sops counts them. The comments of outer, a document, come
// around those of the mapping.
func yamlBranch(node, outer *yaml.Node, depth int) (branch, error) {
	if depth > maxDepth {
		return nil, &UnsupportedError{"deeper nesting than anybody writes", fixSize}
	}
	var b branch
	if outer != nil {
		b = b.said(&outer.HeadComment).said(&outer.LineComment)
	}
	b = b.said(&node.HeadComment).said(&node.LineComment)
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" && key.ShortTag() != "!!merge" {
			return nil, damaged("line %d: a key is not a text", key.Line)
		}
		scalar := value.Kind == yaml.ScalarNode
		b = b.said(&key.HeadComment).said(&key.LineComment)
		if scalar {
			b = b.said(&value.HeadComment).said(&value.LineComment)
		}
		v, err := yamlValue(value, depth+1)
		if err != nil {
			return nil, err
		}
		b = append(b, item{key: key.Value, value: v})
		if scalar {
			b = b.said(&value.FootComment)
		}
		b = b.said(&key.FootComment)
	}
	b = b.said(&node.FootComment)
	if outer != nil {
		b = b.said(&outer.FootComment)
	}
	return b, unique(b)
}

func yamlValue(node *yaml.Node, depth int) (any, error) {
	switch {
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		return nil, damaged("line %d: it has an anchor or an alias, which sops never writes", node.Line)
	case node.Kind == yaml.MappingNode:
		return yamlBranch(node, nil, depth)
	case node.Kind == yaml.SequenceNode:
		return yamlList(node, depth)
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return nil, damaged("line %d: its value is not of the type that it claims", node.Line)
	}
	return &leaf{value: value, put: func(v any) error { return replace(node, v) }}, nil
}

func yamlList(node *yaml.Node, depth int) (list, error) {
	if depth > maxDepth {
		return nil, &UnsupportedError{"deeper nesting than anybody writes", fixSize}
	}
	var l list
	l = l.said(&node.HeadComment).said(&node.LineComment)
	for _, child := range node.Content {
		l = l.said(&child.HeadComment).said(&child.LineComment)
		v, err := yamlValue(child, depth+1)
		if err != nil {
			return nil, err
		}
		if scalar, ok := v.(*leaf); ok {
			scalar.drop = func() { child.Kind = dropped }
		}
		l = append(l, v).said(&child.FootComment)
	}
	return l.said(&node.FootComment), nil
}

// replace gives a scalar a new value, and the style that this value needs.
func replace(node *yaml.Node, value any) error {
	if raw, ok := value.([]byte); ok {
		value = string(raw)
	}
	fresh := new(yaml.Node)
	if err := fresh.Encode(value); err != nil {
		return damaged("line %d: its value is not one that YAML can hold", node.Line)
	}
	if _, ok := value.(float64); ok && !strings.ContainsAny(fresh.Value, ".eE") {
		fresh.Tag, fresh.Value = "!!float", fresh.Value+".0" // or it would be read as an integer
	}
	node.Kind, node.Tag, node.Value, node.Style = fresh.Kind, fresh.Tag, fresh.Value, fresh.Style
	return nil
}

// dropped marks a node that is to leave its sequence.
const dropped yaml.Kind = 0

// sweep takes out what was dropped.
func sweep(node *yaml.Node) {
	node.Content = slices.DeleteFunc(node.Content, func(n *yaml.Node) bool { return n.Kind == dropped })
	for _, child := range node.Content {
		sweep(child)
	}
}

func (b branch) said(text *string) branch {
	for _, c := range lines(text) {
		b = append(b, item{comment: c})
	}
	return b
}

func (l list) said(text *string) list {
	for _, c := range lines(text) {
		l = append(l, c)
	}
	return l
}

// lines are a node's comments, each of which can be replaced in the node's text.
func lines(text *string) []*comment {
	if *text == "" {
		return nil
	}
	all := strings.Split(*text, "\n")
	var found []*comment
	for i, line := range all {
		if line == "" {
			continue
		}
		found = append(found, &comment{text: line[1:], put: func(plain string) {
			all[i] = "#" + plain
			*text = strings.Join(all, "\n")
		}})
	}
	return found
}
