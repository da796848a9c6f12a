package views_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/views"
)

func TestPublishedSchemaIsThatOfTheStructs(t *testing.T) {
	document := schema(t)
	if *update {
		write(t, published, document)
	}
	want, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(document)); d != "" {
		t.Errorf("docs/schema/views.json is stale: go test ./workspace/views -run Published -update\n%s", d)
	}
}

func TestTheSchemaTakesWhatTheReaderTakes(t *testing.T) {
	const good = head + "spec:\n  views:\n  - {key: 1, name: a, list: fleet, filter: 'env:prod'}\n  - {key: 9, name: b, list: events}\n"
	for name, tt := range map[string]struct {
		text string
		good bool
	}{
		"good":             {good, true},
		"an unknown field": {strings.Replace(good, "filter:", "filtre:", 1), false},
		"no name":          {strings.Replace(good, "name: a, ", "", 1), false},
		"another kind":     {strings.Replace(good, "kind: Views", "kind: Service", 1), false},
		"no such key":      {strings.Replace(good, "key: 9", "key: 10", 1), false},
		"no such list":     {strings.Replace(good, "list: events", "list: pods", 1), false},
		"a text for a key": {strings.Replace(good, "key: 9", "key: x", 1), false},
	} {
		var v any
		if err := yaml.Unmarshal([]byte(tt.text), &v); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compile(t).Validate(value); (err == nil) != tt.good {
			t.Errorf("%s: the schema says %v", name, err)
		}
		if _, err := views.Parse([]byte(tt.text)); (err == nil) != tt.good {
			t.Errorf("%s: the reader says %v", name, err)
		}
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("views.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("views.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// schema is the JSON Schema of views.yaml, from the structs and their comments.
func schema(t *testing.T) []byte {
	t.Helper()
	c := comments(t)
	root := object(reflect.TypeFor[views.Views](), c)
	properties := root["properties"].(map[string]any)
	properties["apiVersion"] = map[string]any{"const": fleet.APIVersion}
	properties["kind"] = map[string]any{"const": views.Kind}
	root["required"] = append([]string{"apiVersion", "kind"}, root["required"].([]string)...)
	root["$schema"], root["$id"], root["title"] = "https://json-schema.org/draft/2020-12/schema", views.SchemaURL, views.File
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func object(of reflect.Type, comments map[string]string) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if options == "inline" {
			continue
		}
		if options != "omitempty" {
			required = append(required, name)
		}
		property := value(f.Type, comments)
		switch of.Name() + "." + f.Name {
		case "View.Key":
			property["minimum"], property["maximum"] = 1, views.MaxKey
		case "View.List":
			property["enum"] = views.Lists()
		}
		if text := comments[of.Name()+"."+f.Name]; text != "" {
			property["description"] = text
		}
		properties[name] = property
	}
	return map[string]any{
		"type": "object", "additionalProperties": false, "properties": properties, "required": required, "description": comments[of.Name()],
	}
}

func value(of reflect.Type, comments map[string]string) map[string]any {
	switch of.Kind() { //nolint:exhaustive // of others there are none
	case reflect.Struct:
		return object(of, comments)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": value(of.Elem(), comments)}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	}
	return map[string]any{"type": "string"}
}

// comments are those of types and fields, each on one line.
func comments(t *testing.T) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "views.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, d := range parsed.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		name := g.Specs[0].(*ast.TypeSpec)
		all[name.Name.Name] = strings.Join(strings.Fields(g.Doc.Text()), " ")
		for _, f := range name.Type.(*ast.StructType).Fields.List {
			for _, n := range f.Names {
				all[name.Name.Name+"."+n.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
	}
	return all
}
