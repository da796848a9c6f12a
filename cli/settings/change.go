package settings

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Set is text with a setting in it. Comments and other settings stay as they are.
func Set(text []byte, key Key, value string) ([]byte, error) {
	s, ok := Find(key)
	if !ok {
		return nil, fmt.Errorf("there is no setting %q", string(key))
	}
	if err := s.Check(value); err != nil {
		return nil, err
	}
	scalar := &yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: "!!str"}
	if s.isTruth() {
		scalar.Tag = "!!bool"
	}
	return edit(text, func(fields *yaml.Node) {
		if i := find(fields, key); i >= 0 {
			scalar.LineComment = fields.Content[i+1].LineComment
			fields.Content[i+1] = scalar
			return
		}
		fields.Content = append(fields.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: string(key)}, scalar)
	})
}

// Unset is text without a setting.
func Unset(text []byte, key Key) ([]byte, error) {
	return edit(text, func(fields *yaml.Node) {
		if i := find(fields, key); i >= 0 {
			fields.Content = append(fields.Content[:i], fields.Content[i+2:]...)
		}
	})
}

func (s Setting) isTruth() bool { return len(s.Words) == 2 && s.Words[0] == "true" }

// find is where the key stands among a mapping's content; -1: nowhere.
func find(fields *yaml.Node, key Key) int {
	for i := 0; i+1 < len(fields.Content); i += 2 {
		if fields.Content[i].Value == string(key) {
			return i
		}
	}
	return -1
}

// edit changes the mapping that a text is.
func edit(text []byte, change func(fields *yaml.Node)) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode { // nothing but comments
		doc = yaml.Node{Kind: yaml.DocumentNode, HeadComment: doc.HeadComment, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	fields := doc.Content[0]
	change(fields)
	if len(fields.Content) == 0 {
		return []byte(comments(doc.HeadComment)), nil
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("write settings: %w", err)
	}
	return b.Bytes(), enc.Close()
}

func comments(text string) string {
	if text == "" {
		return ""
	}
	return text + "\n"
}
