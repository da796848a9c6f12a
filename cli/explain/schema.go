package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/pluralsh/plural/docs"
)

// schema is what is read of a JSON Schema.
type schema struct {
	Ref         string             `json:"$ref"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Type        words              `json:"type"`
	Enum        []any              `json:"enum"`
	Const       any                `json:"const"`
	Default     any                `json:"default"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	Values      *values            `json:"additionalProperties"`
	Defs        map[string]*schema `json:"$defs"`
	Files       string             `json:"x-files"`
	Page        string             `json:"x-page"`
}

// words are one text or several.
type words []string

func (w *words) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return json.Unmarshal(text, (*[]string)(w))
	}
	*w = make(words, 1)
	return json.Unmarshal(text, &(*w)[0])
}

// values is the schema of a map's values; false, that there are none, is nothing.
type values struct{ *schema }

func (v *values) UnmarshalJSON(text []byte) error {
	if string(text) == "false" {
		return nil
	}
	return json.Unmarshal(text, &v.schema)
}

// kind is a kind of document, with the definitions that its schema refers to.
type kind struct {
	*schema
	defs map[string]*schema
}

// name is how people write a kind in a path.
func (k kind) name() string { return strings.ToLower(k.Title) }

// kinds are all that people write, sorted by name.
func kinds() ([]kind, error) {
	var all []kind
	err := fs.WalkDir(docs.Schemas(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Schemas(), name)
		if err != nil {
			return err
		}
		var root schema
		if err := json.Unmarshal(text, &root); err != nil {
			return fmt.Errorf("read schema %s: %w", name, err)
		}
		for _, s := range append(slices.Collect(maps.Values(root.Defs)), &root) {
			if s.Files != "" {
				all = append(all, kind{s, root.Defs})
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b kind) int { return strings.Compare(a.Title, b.Title) })
	return all, err
}

// resolve is what a schema refers to.
func (k kind) resolve(s *schema) *schema {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		return k.defs[name]
	}
	return s
}

// object is the one whose fields stand at a place: of a list its items, of a map its values. Nil: there are no fields.
func (k kind) object(s *schema) *schema {
	for s = k.resolve(s); s != nil && s.Properties == nil; s = k.resolve(s) {
		switch {
		case s.Items != nil:
			s = s.Items
		case s.Values != nil && s.Values.schema != nil:
			s = s.Values.schema
		default:
			return nil
		}
	}
	return s
}

// typeOf is how a schema's type is called.
func typeOf(s *schema) string {
	switch {
	case s.Ref != "":
		return strings.TrimPrefix(s.Ref, "#/$defs/")
	case s.Items != nil:
		return "[]" + typeOf(s.Items)
	case s.Values != nil && s.Values.schema != nil:
		return "map[string]" + typeOf(s.Values.schema)
	case len(s.Type) == 0:
		return "any"
	}
	return strings.Join(s.Type, " or ")
}
