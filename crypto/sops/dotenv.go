package sops

import (
	"bytes"
	"strings"
)

// parseDotenv reads KEY=value lines, in which sops writes a line break of a value as \n.
func parseDotenv(data []byte) (*document, error) {
	var tree branch
	meta := map[string]string{}
	for line := range strings.SplitSeq(string(data), "\n") {
		if line == "" || line == "\r" {
			continue
		}
		if text, ok := strings.CutPrefix(line, "#"); ok {
			tree = append(tree, item{comment: &comment{text: text}})
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, damaged("it has a line that is neither KEY=value nor a comment")
		}
		value = strings.ReplaceAll(value, `\n`, "\n")
		if strings.HasPrefix(key, metadataKey+"_") {
			meta[key] = strings.TrimSuffix(value, "\r")
			continue
		}
		tree = append(tree, item{key: key, value: &leaf{value: value}})
	}
	if err := unique(tree); err != nil {
		return nil, err
	}
	return &document{tree: []branch{tree}, fields: flatFields(meta), print: func() ([]byte, error) { return printDotenv(tree) }}, nil
}

func printDotenv(tree branch) ([]byte, error) {
	var out bytes.Buffer
	for _, it := range tree {
		if it.comment != nil {
			out.WriteString("#" + it.comment.text + "\n")
			continue
		}
		value, ok := it.value.(*leaf)
		if !ok {
			return nil, damaged("%q is no single value", it.key)
		}
		text, err := bytesOf(value.value)
		if err != nil {
			return nil, damaged("%q is no value that sops knows", it.key)
		}
		out.WriteString(it.key + "=" + strings.ReplaceAll(string(text), "\n", `\n`) + "\n")
	}
	return out.Bytes(), nil
}
