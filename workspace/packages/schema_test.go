package packages_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

// published is where editors find the schema of package.yaml.
const published = "../../docs/schema/package.json"

func TestPublishedSchemaIsThatOfTheStructs(t *testing.T) {
	document := schema(t)
	if *update {
		if err := os.MkdirAll(filepath.Dir(published), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(published, document, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(document)); d != "" {
		t.Errorf("docs/schema/package.json is stale: go test ./workspace/packages -run Published -update\n%s", d)
	}
}

func TestTheSchemaTakesWhatTheReaderTakes(t *testing.T) {
	compiled := compile(t)
	archive, err := txtar.ParseFile("testdata/mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		if good := archive.Files[i].Name == "good.yaml"; good {
			if err := compiled.Validate(decoded(t, archive.Files[i].Data)); err != nil {
				t.Error(err)
			}
		}
	}
	err = fs.WalkDir(templates.Catalog(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(name) != packages.File {
			return err
		}
		data, err := fs.ReadFile(templates.Catalog(), name)
		if err != nil {
			return err
		}
		if err := compiled.Validate(decoded(t, data)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheSchemaRefusesWhatTheReaderRefuses(t *testing.T) {
	compiled := compile(t)
	for name, document := range map[string]string{
		"an unknown field": head + "  vresion: 1.2.3\n",
		"a missing name":   strings.Replace(head, "{name: web}", "{}", 1),
		"another kind":     strings.Replace(head, "kind: Package", "kind: Service", 1),
		"a wrong type":     head + "  questions: [{name: a, type: text}]\n",
		"a text for a map": head + "  steps: [{name: a, helm: chart}]\n",
	} {
		if err := compiled.Validate(decoded(t, []byte(document))); err == nil {
			t.Errorf("%s is taken", name)
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
	if err := c.AddResource("package.json", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// decoded is YAML as JSON has it.
func decoded(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// schema is the JSON Schema of package.yaml, from the structs and their comments.
func schema(t *testing.T) []byte {
	t.Helper()
	w := &writer{comments: comments(t, "kinds.go"), definitions: map[string]any{}}
	root := w.object(reflect.TypeFor[packages.Package]())
	properties := root["properties"].(map[string]any)
	properties["apiVersion"] = map[string]any{"const": fleet.APIVersion}
	properties["kind"] = map[string]any{"const": packages.Kind}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = packages.SchemaURL
	root["title"] = "package.yaml"
	root["$defs"] = w.definitions
	w.words("Question", "type", packages.Types()...)
	w.words("Terraform", "product", packages.ProductAny, packages.ProductTerraform, packages.ProductTofu)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

type writer struct {
	comments    map[string]string // "Type" and "Type.Field"
	definitions map[string]any
}

// words has a field be one of some.
func (w *writer) words(definition, field string, words ...string) {
	properties := w.definitions[definition].(map[string]any)["properties"].(map[string]any)
	properties[field].(map[string]any)["enum"] = words
}

func (w *writer) object(of reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case name == "-":
			continue
		case options == "inline":
			inner := w.object(f.Type)
			for key, value := range inner["properties"].(map[string]any) {
				properties[key] = value
			}
			required = append(required, inner["required"].([]string)...)
			continue
		case options != "omitempty":
			required = append(required, name)
		}
		property := w.value(f.Type)
		if text := w.comments[of.Name()+"."+f.Name]; text != "" {
			property["description"] = text
		}
		properties[name] = property
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	if text := w.comments[of.Name()]; text != "" {
		out["description"] = text
	}
	return out
}

func (w *writer) value(of reflect.Type) map[string]any {
	switch of.Kind() {
	case reflect.Pointer:
		return w.value(of.Elem())
	case reflect.Struct:
		if _, known := w.definitions[of.Name()]; !known {
			w.definitions[of.Name()] = nil // it may hold itself
			w.definitions[of.Name()] = w.object(of)
		}
		return map[string]any{"$ref": "#/$defs/" + of.Name()}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": w.value(of.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": w.value(of.Elem())}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.String:
		return map[string]any{"type": "string"}
	}
	return map[string]any{} // anything
}

// comments are those of a file's types and fields, each on one line.
func comments(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
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
		all[name.Name.Name] = oneLine(g.Doc)
		if s, ok := name.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, n := range f.Names {
					all[name.Name.Name+"."+n.Name] = oneLine(f.Doc)
				}
			}
		}
	}
	return all
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
