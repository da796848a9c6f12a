package policy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// header explains a new file to whoever opens it.
const header = `# Which files of this repository are sealed, and for whom. The most specific pattern wins.
# * ? and [a-z] match within a folder's or file's name, ** matches any number of folders.
`

// New is the text of a first seal.yaml, with a fresh repository id.
func New(groups []Group, paths []Pattern) ([]byte, error) {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	root := mappingNode(
		field("apiVersion", plain(apiVersion)), field("kind", plain(kind)),
		field("metadata", flow(mappingNode(field("name", plain(name))))),
		field("spec", mappingNode(
			field("repository", quoted(hex.EncodeToString(id))), field("paths", &yaml.Node{Kind: yaml.SequenceNode}),
		)),
	)
	text, err := encode(root, true)
	if err != nil {
		return nil, err
	}
	text = append([]byte(header), text...)
	for _, g := range groups {
		if text, err = WithGroup(text, g); err != nil {
			return nil, err
		}
	}
	for _, p := range paths {
		if text, err = WithPattern(text, p.Pattern, p.Groups); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// WithGroup is the text of a seal.yaml in which the group has this selector, added or replaced. A nil selector takes the
// group's entry away. Comments stay.
func WithGroup(text []byte, g Group) ([]byte, error) {
	if err := CheckName(g.Name); err != nil {
		return nil, err
	}
	return edit(text, "groups", "name", g.Name, groupNode(g))
}

// WithPattern is the text of a seal.yaml in which the pattern names these groups, added or replaced. No groups take the
// pattern away. Comments stay.
func WithPattern(text []byte, pattern string, groups []string) ([]byte, error) {
	if err := checkPattern(pattern); err != nil {
		return nil, err
	}
	var entry *yaml.Node
	if len(groups) > 0 {
		entry = mappingNode(field("pattern", quoted(pattern)), field("groups", list(groups)))
	}
	return edit(text, "paths", "pattern", pattern, entry)
}

// edit replaces, adds or (entry nil) removes the entry of a list in spec whose field key has the given value.
func edit(text []byte, listName, key, value string, entry *yaml.Node) ([]byte, error) {
	if _, err := Parse(text); err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, syntaxError(err)
	}
	spec := lookup(document.Content[0], "spec")
	compact := isCompact(spec)
	entries := lookup(spec, listName)
	if entries == nil {
		entries = &yaml.Node{Kind: yaml.SequenceNode}
		spec.Content = slices.Insert(spec.Content, 2, field(listName, entries)...)
	}
	replace(entries, key, value, entry)
	edited, err := encode(&document, compact)
	if err != nil {
		return nil, err
	}
	if _, err := Parse(edited); err != nil {
		return nil, err
	}
	return edited, nil
}

func replace(entries *yaml.Node, key, value string, entry *yaml.Node) {
	at := slices.IndexFunc(entries.Content, func(n *yaml.Node) bool {
		field := lookup(n, key)
		return field != nil && field.Value == value
	})
	switch {
	case at < 0 && entry != nil:
		entries.Content = append(entries.Content, entry)
		entries.Style &^= yaml.FlowStyle
	case at >= 0 && entry == nil:
		entries.Content = slices.Delete(entries.Content, at, at+1)
	case at >= 0:
		update(entries.Content[at], entry)
	}
}

// update gives the mapping old the values of the mapping now, and keeps everything else of it.
func update(old, now *yaml.Node) {
	for i := 0; i+1 < len(now.Content); i += 2 {
		key, value := now.Content[i], now.Content[i+1]
		stands := lookup(old, key.Value)
		if stands == nil {
			old.Content = append(old.Content, key, value)
			continue
		}
		value.HeadComment, value.LineComment, value.FootComment = stands.HeadComment, stands.LineComment, stands.FootComment
		*stands = *value
	}
}

func groupNode(g Group) *yaml.Node {
	if g.Clusters == nil {
		return nil
	}
	s, clusters := g.Clusters, mappingNode()
	add := func(name string, value *yaml.Node) {
		clusters.Content = append(clusters.Content, field(name, value)...)
	}
	if s.All {
		add("all", plain("true"))
	}
	if len(s.Names) > 0 {
		add("names", list(s.Names))
	}
	if len(s.MatchLabels) > 0 {
		add("matchLabels", flow(dictionaryNode(s.MatchLabels)))
	}
	if len(s.MatchExpressions) > 0 {
		add("matchExpressions", requirements(s.MatchExpressions))
	}
	return mappingNode(field("name", quoted(g.Name)), field("clusters", clusters))
}

// isCompact says whether the lists of a mapping begin in the column of their keys.
func isCompact(n *yaml.Node) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 {
			return value.Column == key.Column
		}
	}
	return true
}

func encode(n *yaml.Node, compact bool) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if compact {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(n); err != nil {
		return nil, fmt.Errorf("write %s: %w", File, err)
	}
	if err := encoder.Close(); err != nil {
		return nil, fmt.Errorf("write %s: %w", File, err)
	}
	return out.Bytes(), nil
}
