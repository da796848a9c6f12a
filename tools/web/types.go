package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is as much of JSON Schema as the description of /v1 uses.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Enum       []string           `json:"enum"`
	Items      *schema            `json:"items"`
	Values     *schema            `json:"additionalProperties"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
}

// types writes the types of /v1 as TypeScript.
func types(document []byte) ([]byte, error) {
	var described struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &described); err != nil {
		return nil, err
	}
	var out strings.Builder
	out.WriteString("// Written by `make web-types` from docs/api/openapi.json.\n")
	for _, name := range slices.Sorted(maps.Keys(described.Components.Schemas)) {
		s := described.Components.Schemas[name]
		if s.Type != "object" || s.Values != nil {
			fmt.Fprintf(&out, "\nexport type %s = %s;\n", name, s.expression())
			continue
		}
		fmt.Fprintf(&out, "\nexport interface %s {\n", name)
		for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
			mark := "?"
			if slices.Contains(s.Required, field) {
				mark = ""
			}
			fmt.Fprintf(&out, "  %s%s: %s;\n", field, mark, s.Properties[field].expression())
		}
		out.WriteString("}\n")
	}
	return []byte(out.String()), nil
}

// expression is the schema as the type of a field.
func (s *schema) expression() string {
	switch {
	case s.Ref != "":
		return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
	case len(s.Enum) > 0:
		quoted := make([]string, len(s.Enum))
		for i, word := range s.Enum {
			quoted[i] = fmt.Sprintf("%q", word)
		}
		return strings.Join(quoted, " | ")
	}
	switch s.Type {
	case "string", "boolean":
		return s.Type
	case "integer", "number":
		return "number"
	case "array":
		item := s.Items.expression()
		if strings.Contains(item, " ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case "object":
		if s.Values != nil {
			return "Record<string, " + s.Values.expression() + ">"
		}
		return "Record<string, unknown>"
	}
	return "unknown"
}
