package docs_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/settings"
	"github.com/pluralsh/plural/cli/tui/skins"
	"github.com/pluralsh/plural/cli/tui/usercommands"
	"github.com/pluralsh/plural/docs"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/views"
)

const dialect = "https://json-schema.org/draft/2020-12/schema"

// kind is one kind of document that people write.
type kind struct {
	name string
	// files is where such documents lie, page what docs/spec says of them.
	files, page string
	of          reflect.Type
}

// schemas are the kinds by the schema that an editor has for their files.
func kinds() map[string][]kind {
	return map[string][]kind{
		"workspace":    {{"Workspace", "plural.yaml", "service.md", reflect.TypeFor[fleet.Workspace]()}},
		"cluster":      {{"Cluster", "clusters/*.yaml", "service.md", reflect.TypeFor[fleet.Cluster]()}},
		"source":       {{"Source", "sources/*.yaml", "sources.md", reflect.TypeFor[fleet.Source]()}},
		"service":      {{"Service", "services/*.yaml", "service.md", reflect.TypeFor[fleet.Service]()}},
		"installation": {{"Installation", "packages/*/package.yaml", "installation.md", reflect.TypeFor[fleet.Installation]()}},
		"access": {
			{"User", "access/*.yaml", "access.md", reflect.TypeFor[fleet.User]()},
			{"Role", "access/*.yaml", "access.md", reflect.TypeFor[fleet.Role]()},
			{"RoleBinding", "access/*.yaml", "access.md", reflect.TypeFor[fleet.RoleBinding]()},
			{"Provider", "access/*.yaml", "access.md", reflect.TypeFor[fleet.Provider]()},
			{"Federation", "access/*.yaml", "access.md", reflect.TypeFor[fleet.Federation]()},
			{"Application", "access/*.yaml", "access.md", reflect.TypeFor[fleet.Application]()},
		},
		"notify": {
			{"Sink", "notify/*.yaml", "notify.md", reflect.TypeFor[fleet.Sink]()},
			{"Route", "notify/*.yaml", "notify.md", reflect.TypeFor[fleet.Route]()},
		},
		"package":  {{packages.Kind, "package.yaml of a package", "package.md", reflect.TypeFor[packages.Package]()}},
		"views":    {{views.Kind, views.File, "", reflect.TypeFor[views.Views]()}},
		"seal":     {{"Seal", ".plural/seal.yaml", "crypto.md", reflect.TypeFor[seal]()}},
		"commands": {{usercommands.Kind, usercommands.File + " of your configuration", "", reflect.TypeFor[commands]()}},
		"skin":     {{skins.Kind, "skins/*.yaml of your configuration", "", reflect.TypeFor[skin]()}},
	}
}

// generated are the schemas by the name of their file.
func generated(t *testing.T) map[string][]byte {
	t.Helper()
	texts := comments(t)
	all := map[string][]byte{"config.json": settingsSchema(t)}
	for name, list := range kinds() {
		w := &writer{comments: texts, definitions: map[string]any{}}
		root := w.file(list)
		root["$schema"], root["$id"] = dialect, docs.SchemaURL+name+".json"
		if len(w.definitions) > 0 {
			root["$defs"] = w.definitions
		}
		all[name+".json"] = encode(t, root)
	}
	return all
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// settingsSchema is that of config.yaml, whose format is a list of settings.
func settingsSchema(t *testing.T) []byte {
	t.Helper()
	properties := map[string]any{}
	for _, s := range settings.All() {
		p := map[string]any{"type": "string", "description": s.About + "."}
		switch {
		case slices.Contains(s.Words, "true"):
			p["type"] = "boolean"
		case s.Words != nil:
			p["enum"] = s.Words
		}
		properties[string(s.Key)] = p
	}
	return encode(t, map[string]any{
		"$schema": dialect, "$id": docs.SchemaURL +
			"config.json", "title": "Settings", "x-files": "config.yaml of your configuration", "type": "object",
		"description": "What a person has set for the program: plural config.", "additionalProperties": false, "properties": properties,
	})
}

// seal is .plural/seal.yaml, which says who can open what.
type seal struct {
	fleet.TypeMeta `yaml:",inline"`
	// Metadata may be left out.
	Metadata *sealName `yaml:"metadata,omitempty"`
	Spec     sealSpec  `yaml:"spec"`
}

type sealName struct {
	// Name is always seal.
	Name string `yaml:"name" enum:"seal"`
}

// sealSpec says which files are sealed, and for whom.
type sealSpec struct {
	// Repository is the repository's identity: 32 hex digits in quotes, which plural crypto init makes.
	Repository string `yaml:"repository"`
	// Groups are those whose clusters a selector picks.
	Groups []sealGroup `yaml:"groups,omitempty"`
	// Paths are the patterns. The most specific one decides.
	Paths []sealPath `yaml:"paths"`
}

// sealGroup says which clusters belong to a group.
type sealGroup struct {
	// Name is the group's.
	Name string `yaml:"name"`
	// Clusters picks clusters for the group. Left out: none.
	Clusters *fleet.Selector `yaml:"clusters,omitempty"`
}

// sealPath says for whom files are sealed.
type sealPath struct {
	// Pattern is rooted at the repository's root: * ? and [a-z] match within a segment, ** matches whole segments.
	Pattern string `yaml:"pattern"`
	// Groups are one or more that can open the files.
	Groups []string `yaml:"groups"`
}

// commands is commands.yaml, by which a person adds commands to their console.
type commands struct {
	fleet.TypeMeta `yaml:",inline"`
	Spec           commandsSpec `yaml:"spec"`
}

// commandsSpec is everything that the file says.
type commandsSpec struct {
	// Commands are the commands, each with its key.
	Commands []usercommands.Command `yaml:"commands"`
}

// skin is skins/NAME.yaml, which says what a person's console looks like.
type skin struct {
	fleet.TypeMeta `yaml:",inline"`
	Spec           skinSpec `yaml:"spec"`
}

// skinSpec is everything that the file says.
type skinSpec struct {
	// Base is the skin that is built in of which this one is another.
	Base string `yaml:"base,omitempty"`
	// Styles are what roles look like.
	Styles map[string]string `yaml:"styles,omitempty"`
}

type writer struct {
	comments    map[string]string // "package.Type" and "package.Type.Field"
	definitions map[string]any
}

// file is the schema of files that hold documents of some kinds.
func (w *writer) file(list []kind) map[string]any {
	if len(list) == 1 {
		return w.kind(list[0])
	}
	names, rules := []string{}, []any{}
	for _, k := range list {
		names = append(names, k.name)
		w.definitions[k.name] = w.kind(k)
		rules = append(rules, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"kind": map[string]any{"const": k.name}}},
			"then": map[string]any{"$ref": "#/$defs/" + k.name},
		})
	}
	return map[string]any{
		"title": strings.Join(names, ", "), "type": "object", "required": []string{"kind"},
		"properties": map[string]any{"kind": map[string]any{"enum": names}}, "allOf": rules,
	}
}

// kind is the schema of one document.
func (w *writer) kind(k kind) map[string]any {
	out := w.object(k.of)
	properties := out["properties"].(map[string]any)
	properties["apiVersion"].(map[string]any)["const"] = fleet.APIVersion
	properties["kind"].(map[string]any)["const"] = k.name
	out["title"], out["x-files"] = k.name, k.files
	if k.page != "" {
		out["x-page"] = "docs/spec/" + k.page
	}
	return out
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
			maps.Copy(properties, inner["properties"].(map[string]any))
			required = append(required, inner["required"].([]string)...)
			continue
		case options != "omitempty":
			required = append(required, name)
		}
		properties[name] = w.field(of, f)
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
	if text := w.text(of, of, ""); text != "" {
		out["description"] = text
	}
	return out
}

// field is one property, with what its tags say of it.
func (w *writer) field(of reflect.Type, f reflect.StructField) map[string]any {
	property := w.value(f.Type)
	if text := w.text(of, of, f.Name); text != "" {
		property["description"] = text
	}
	if words := f.Tag.Get("enum"); words != "" {
		holder := property
		if f.Type.Kind() == reflect.Slice {
			holder = property["items"].(map[string]any)
		}
		holder["enum"] = strings.Split(words, ",")
	}
	if f.Tag.Get("scalar") == "number" {
		holder := property
		if f.Type.Kind() == reflect.Slice {
			holder = property["items"].(map[string]any)
		}
		holder["type"] = []string{"string", "integer"}
	}
	if value, ok := f.Tag.Lookup("default"); ok {
		property["default"] = typed(f.Type, value)
	}
	switch of.Name() + "." + f.Name {
	case "View.Key":
		property["minimum"], property["maximum"] = 1, views.MaxKey
	case "Command.Scope":
		property["items"].(map[string]any)["enum"] = usercommands.Scopes()
	}
	return property
}

// typed is the text of a default as a value of its type.
func typed(of reflect.Type, text string) any {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of.Kind() { //nolint:exhaustive // there are no other defaults
	case reflect.Bool:
		return text == "true"
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		return n
	}
	return text
}

func (w *writer) value(of reflect.Type) map[string]any {
	switch of.Kind() { //nolint:exhaustive // the strict reader takes no others
	case reflect.Pointer:
		return w.value(of.Elem())
	case reflect.Struct:
		if strings.HasSuffix(of.Name(), "Spec") && of.Name() != "Spec" {
			return w.object(of) // stands in one place
		}
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

var word = regexp.MustCompile(`[A-Za-z]+`)

// text is the comment of a type, or of one of its fields, in which fields have the names that people write.
func (w *writer) text(of, holder reflect.Type, field string) string {
	names := map[string]string{}
	for i := range holder.NumField() {
		f := holder.Field(i)
		if name, options, _ := strings.Cut(f.Tag.Get("yaml"), ","); name != "-" && options != "inline" {
			names[f.Name] = name
		}
	}
	key := path.Base(of.PkgPath()) + "." + of.Name()
	if field != "" {
		key += "." + field
	}
	return word.ReplaceAllStringFunc(w.comments[key], func(w string) string {
		if name, ok := names[w]; ok {
			return name
		}
		return w
	})
}

// comments are those of types and fields, each on one line.
func comments(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range []string{
		"workspace/fleet", "workspace/packages", "workspace/views", "internal/selector", "internal/kubeaccess", "cli/tui/usercommands", "docs",
	} {
		files, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			of := path.Base(folder)
			if strings.HasSuffix(file, "_test.go") {
				of += "_test"
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				read(all, of, d)
			}
		}
	}
	return all
}

func read(all map[string]string, folder string, d ast.Decl) {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.TYPE {
		return
	}
	spec := g.Specs[0].(*ast.TypeSpec)
	name := folder + "." + spec.Name.Name
	all[name] = oneLine(g.Doc)
	ast.Inspect(spec.Type, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok {
			for _, field := range f.Names {
				all[name+"."+field.Name] = oneLine(f.Doc)
			}
		}
		return true
	})
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
