package settings

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const aliases = "aliases"

// alias is the key under which an alias stands among the settings.
func alias(name string) Key { return Key(aliases + "." + name) }

// Aliases are the command lines by the names that stand for them.
func (s Settings) Aliases() map[string]string {
	lines := map[string]string{}
	for key, line := range s {
		if name, ok := strings.CutPrefix(string(key), aliases+"."); ok {
			lines[name] = line
		}
	}
	return lines
}

// SetAlias is text with an alias in it.
func SetAlias(text []byte, name, line string) ([]byte, error) {
	return edit(text, func(fields *yaml.Node) {
		at := find(fields, aliases)
		if at < 0 {
			at = len(fields.Content)
			fields.Content = append(fields.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: aliases}, &yaml.Node{Kind: yaml.MappingNode})
		}
		lines, value := fields.Content[at+1], &yaml.Node{Kind: yaml.ScalarNode, Value: line, Tag: "!!str"}
		if i := find(lines, Key(name)); i >= 0 {
			lines.Content[i+1] = value
			return
		}
		lines.Content = append(lines.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Tag: "!!str"}, value)
	})
}

// UnsetAlias is text without an alias.
func UnsetAlias(text []byte, name string) ([]byte, error) {
	return edit(text, func(fields *yaml.Node) {
		at := find(fields, aliases)
		if at < 0 {
			return
		}
		lines := fields.Content[at+1]
		if i := find(lines, Key(name)); i >= 0 {
			lines.Content = slices.Delete(lines.Content, i, i+2)
		}
		if len(lines.Content) == 0 {
			fields.Content = slices.Delete(fields.Content, at, at+2)
		}
	})
}
