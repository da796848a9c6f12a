package kubeschema

import (
	"encoding/base64"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// place is where documents of schemas are said to lie. Nothing does: whoever loads one has it.
const place = "kubeschema:///"

// newCompiler compiles documents that loader has, and no others.
func newCompiler(loader jsonschema.URLLoader) *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft4) // exclusiveMinimum is a boolean, as Kubernetes has it
	c.UseLoader(loader)
	c.RegisterFormat(&jsonschema.Format{Name: "byte", Validate: isBase64})
	for _, f := range formats() {
		c.RegisterFormat(f)
	}
	c.AssertFormat()
	return c
}

func isBase64(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	_, err := base64.StdEncoding.DecodeString(text)
	return err
}

// Defined are the forms of the kinds that a CustomResourceDefinition serves. Of one that is malformed, none.
func Defined(definition map[string]any) (schema.GroupKind, map[schema.GroupVersionKind]*Form) {
	group, _, _ := unstructured.NestedString(definition, "spec", "group")
	kind, _, _ := unstructured.NestedString(definition, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedFieldNoCopy(definition, "spec", "versions")
	open, _, _ := unstructured.NestedBool(definition, "spec", "preserveUnknownFields")
	list, _ := versions.([]any)
	forms := map[schema.GroupVersionKind]*Form{}
	for _, item := range list {
		version, _ := item.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); served && name != "" {
			forms[schema.GroupVersionKind{Group: group, Version: name, Kind: kind}] = customForm(version, open)
		}
	}
	return schema.GroupKind{Group: group, Kind: kind}, forms
}

// customForm is what the objects of one version of a CustomResourceDefinition look like. One without a schema takes all, and so does
// one whose schema makes no sense, of which the API server tells. It is compiled when it is needed: some are large.
func customForm(version map[string]any, open bool) *Form {
	_, status, _ := unstructured.NestedMap(version, "subresources", "status")
	written, _, _ := unstructured.NestedFieldNoCopy(version, "schema", "openAPIV3Schema")
	root, _ := written.(map[string]any)
	if root == nil || open {
		return &Form{compile: func() *jsonschema.Schema { return nil }}
	}
	return &Form{status: !status, compile: sync.OnceValue(func() *jsonschema.Schema {
		schema := structural(root)
		if properties, ok := schema["properties"].(map[string]any); ok {
			addIdentity(properties)
		}
		compiler := newCompiler(jsonschema.SchemeURLLoader{})
		if compiler.AddResource(place, schema) != nil {
			return nil
		}
		compiled, err := compiler.Compile(place)
		if err != nil {
			return nil
		}
		return compiled
	})}
}

// addIdentity adds the fields that every object has.
func addIdentity(properties map[string]any) {
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		properties[name] = map[string]any{}
	}
}

// sameWords mean in a structural schema what they mean in JSON Schema. References are no part of it.
func sameWords() []string {
	return []string{
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
	}
}

// structural is a node of a structural schema as JSON Schema: it takes no fields but its own, which the API server would drop or
// refuse.
func structural(node map[string]any) map[string]any {
	out := translate(node, true)
	properties, hasProperties := out["properties"].(map[string]any)
	embedded := node["x-kubernetes-embedded-resource"] == true
	if embedded && hasProperties {
		addIdentity(properties)
	}
	if hasProperties && out["additionalProperties"] == nil && node["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	// What has a default is filled in before anything is asked for.
	if required, ok := out["required"].([]any); ok {
		written, _ := node["properties"].(map[string]any)
		required = slices.DeleteFunc(slices.Clone(required), func(name any) bool {
			key, _ := name.(string)
			property, _ := written[key].(map[string]any)
			_, filled := property["default"]
			return filled
		})
		if out["required"] = required; len(required) == 0 {
			delete(out, "required")
		}
	}
	return out
}

// translate is a node without what structural adds. Below allOf, anyOf, oneOf and not, where nothing is closed, that is all.
func translate(node map[string]any, closed bool) map[string]any {
	inner := structural
	if !closed {
		inner = func(node map[string]any) map[string]any { return translate(node, false) }
	}
	out := map[string]any{}
	for _, key := range sameWords() {
		if value, ok := node[key]; ok {
			out[key] = value
		}
	}
	if required, ok := node["required"].([]any); ok && len(required) > 0 {
		out["required"] = required
	}
	if node["format"] == "byte" {
		out["format"] = "byte"
	}
	switch kind, _ := node["type"].(string); {
	case node["x-kubernetes-int-or-string"] == true:
		out["type"] = []any{"integer", "string", "null"}
	case kind != "": // null is dropped where it is not allowed
		out["type"] = []any{kind, "null"}
	}
	if enum, ok := node["enum"].([]any); ok && len(enum) > 0 {
		out["enum"] = append(slices.Clone(enum), nil)
	}
	if properties, ok := node["properties"].(map[string]any); ok {
		translated := make(map[string]any, len(properties))
		for name, property := range properties {
			if property, ok := property.(map[string]any); ok {
				translated[name] = inner(property)
			}
		}
		out["properties"] = translated
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		switch value := node[key].(type) {
		case bool:
			out[key] = value
		case map[string]any:
			if key == "not" {
				out[key] = translate(value, false)
			} else {
				out[key] = inner(value)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		branches, _ := node[key].([]any)
		var translated []any
		for _, branch := range branches {
			if branch, ok := branch.(map[string]any); ok {
				translated = append(translated, translate(branch, false))
			}
		}
		if len(translated) > 0 && !(node["x-kubernetes-int-or-string"] == true && key == "anyOf") {
			out[key] = translated
		}
	}
	return out
}

// Versions are the versions of forms, the most mature last.
func Versions(forms map[schema.GroupVersionKind]*Form) []string {
	var names []string
	for kind := range forms {
		names = append(names, kind.Version)
	}
	slices.SortFunc(names, version.CompareKubeAwareVersionStrings)
	return names
}
