package docs_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/cli/tui/skins"
	"github.com/pluralsh/plural/cli/tui/usercommands"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/docs"
	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/views"
)

func TestTheSchemasTakeEveryExampleOfTheDocsAndTemplates(t *testing.T) {
	schemas, taken := compiled(t), map[string]int{}
	for where, text := range examples(t) {
		for _, d := range documents(t, text) {
			schema := schemaOf(t, d)
			taken[schema]++
			if err := schemas[schema].Validate(plain(t, d)); err != nil {
				t.Errorf("%s: %v", where, err)
			}
		}
	}
	for name := range kinds() {
		if taken[name] == 0 {
			t.Errorf("there is no example of %s: are they found?", name)
		}
	}
}

func TestTheSchemasTakeEveryFleetThatLoads(t *testing.T) {
	schemas, fleets := compiled(t), 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == ".git" || e.Name() == ".tools" || e.Name() == "node_modules"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".txtar"):
			return nil
		}
		archive, err := txtar.ParseFile("../" + name)
		if err != nil {
			return err
		}
		for _, repo := range fleetsIn(archive) {
			fleets++
			for file, f := range repo {
				for _, d := range documents(t, f.Data) {
					if err := schemas[schemaOf(t, d)].Validate(plain(t, d)); err != nil {
						t.Errorf("%s: %s: %v", name, file, err)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fleets < 5 {
		t.Errorf("%d fleets: are they found?", fleets)
	}
}

// fleetsIn are the installation repos of an archive that have no mistake: what of them the fleet is read from.
func fleetsIn(archive *txtar.Archive) []fstest.MapFS {
	var good []fstest.MapFS
	for _, f := range archive.Files {
		root, is := strings.CutSuffix(f.Name, "plural.yaml")
		if !is {
			continue
		}
		repo, ours := fstest.MapFS{}, fstest.MapFS{}
		for _, other := range archive.Files {
			name, inside := strings.CutPrefix(other.Name, root)
			if !inside || !fs.ValidPath(name) {
				continue
			}
			repo[name] = &fstest.MapFile{Data: other.Data}
			folder, _, _ := strings.Cut(name, "/")
			switch base := path.Base(name); {
			case !strings.HasSuffix(base, ".yaml"):
			case name == "plural.yaml" || strings.HasPrefix(name, "packages/") && (base == "package.yaml" || base == "services.yaml"),
				path.Dir(name) == folder && strings.Contains("clusters sources services access notify", folder):
				ours[name] = repo[name]
			}
		}
		if _, err := fleet.Load(repo); err == nil {
			good = append(good, ours)
		}
	}
	return good
}

func TestTheSchemasRefuseUnknownFieldsWhereTheReadersDo(t *testing.T) {
	schemas, refused := compiled(t), 0
	for where, text := range examples(t) {
		for _, d := range documents(t, text) {
			name := schemaOf(t, d)
			for _, place := range mappings(d) {
				content := place.Content
				place.Content = append(content[:len(content):len(content)], scalar("zzz"), scalar("x"))
				changed, err := yaml.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				bySchema, byReader := schemas[name].Validate(plain(t, d)) != nil, strings.Contains(complaint(t, name, changed), "zzz")
				if bySchema != byReader && name != "skin" { // whose schema leaves the names of roles open
					t.Errorf("%s: the schema refuses: %t, the reader: %t\n%s", where, bySchema, byReader, changed)
				}
				if bySchema {
					refused++
				}
				place.Content = content
			}
		}
	}
	if refused < 100 {
		t.Errorf("%d unknown fields were refused: are the examples found?", refused)
	}
}

// complaint is what the reader of a schema's files says of a document.
func complaint(t *testing.T, schema string, text []byte) string {
	t.Helper()
	files := fstest.MapFS{"plural.yaml": &fstest.MapFile{Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: x}\nspec: {}\n")}}
	var err error
	switch schema {
	case "package":
		_, err = packages.Load(fstest.MapFS{packages.File: &fstest.MapFile{Data: text}})
	case "views":
		_, err = views.Parse(text)
	case "commands":
		_, err = usercommands.Parse(usercommands.File, text, nil)
	case "skin":
		_, err = skins.Parse("skins/mine.yaml", text)
	case "seal":
		_, err = policy.Parse(text)
	default:
		files[home(t, schema)] = &fstest.MapFile{Data: text}
		_, err = fleet.Load(files)
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// home is where a document that a schema is about may lie.
func home(t *testing.T, schema string) string {
	t.Helper()
	return strings.ReplaceAll(kinds()[schema][0].files, "*", "x")
}

func TestTheSchemasRefuseWhatTheReadersRefuse(t *testing.T) {
	schemas := compiled(t)
	const service = "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\nspec: {source: {path: a}, clusters: {names: [b]}}\n"
	const view = "apiVersion: plural.sh/v1alpha1\nkind: Views\nspec:\n  views:\n  - {key: 1, name: a, list: fleet}\n"
	for name, tt := range map[string]struct{ schema, text, old, new string }{
		"another kind":           {"service", service, "kind: Service", "kind: Source"},
		"another version":        {"service", service, "v1alpha1", "v2"},
		"a missing field":        {"service", service, "source: {path: a}, ", ""},
		"a text for a list":      {"service", service, "[b]", "b"},
		"a word that is none":    {"service", service, "}}\n", "}, sync: {onDelete: keep}}\n"},
		"a number for a text":    {"service", service, "path: a", "path: 1"},
		"a text for a switch":    {"service", service, "}}\n", "}, suspend: \"yes\"}\n"},
		"a text for a number":    {"views", view, "key: 1", "key: x"},
		"a number out of bounds": {"views", view, "key: 1", "key: 10"},
		"a list that is none":    {"views", view, "list: fleet", "list: pods"},
	} {
		schema := schemas[tt.schema]
		good, bad := []byte(tt.text), []byte(strings.Replace(tt.text, tt.old, tt.new, 1))
		if err := schema.Validate(plain(t, documents(t, good)[0])); err != nil {
			t.Fatal(err)
		}
		if schema.Validate(plain(t, documents(t, bad)[0])) == nil {
			t.Errorf("%s: the schema takes it", name)
		}
		if complaint(t, tt.schema, bad) == complaint(t, tt.schema, good) {
			t.Errorf("%s: the reader takes it", name)
		}
	}
}

// compiled are the schemas by name.
func compiled(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := map[string]*jsonschema.Schema{}
	for name := range kinds() {
		file, err := docs.Schemas().Open(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource(name, document); err != nil {
			t.Fatal(err)
		}
		if all[name], err = c.Compile(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// examples are the documents of ours in the pages of docs, and in what new repos begin with, by where they stand.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{
		"cluster.yaml": []byte("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\nspec:\n  tags: {env: prod}\n" +
			"  parameters: {region: eu}\n  join: {hash: \"sha256:0\", expires: \"2027-01-31T00:00:00Z\"}\n"),
		"views.yaml": []byte("apiVersion: plural.sh/v1alpha1\nkind: Views\nspec:\n  views:\n  - {key: 1, name: a, list: fleet}\n"),
		"commands.yaml": []byte("apiVersion: plural.sh/v1alpha1\nkind: Commands\nspec:\n  commands:\n" +
			"  - {key: ctrl+o, name: look, scope: [cluster], run: 'echo \"$NAME\"'}\n"),
	}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		text, err := os.ReadFile(name)
		for i, block := range strings.Split(string(text), "```yaml\n")[1:] {
			example, _, _ := strings.Cut(block, "```")
			all[name+"#"+string(rune('a'+i))] = []byte(example)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := templates.Render(templates.Installation, map[string]string{
		"repository": "mfrggzdfmztwq2lk",
		"name":       "demo", "hubURL": "https://hub.example.com", "repoURL": "https://git.example.com/x", "branch": "main", "management": "home",
	})
	if err != nil {
		t.Fatal(err)
	}
	sample, err := templates.Files(templates.Sample)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, sample...) {
		if strings.HasSuffix(f.Path, ".yaml") {
			all["templates/"+f.Path] = f.Content
		}
	}
	err = fs.WalkDir(templates.Catalog(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Base(name) != packages.File {
			return err
		}
		all["catalog/"+name], err = fs.ReadFile(templates.Catalog(), name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// documents are those of a text that are ours.
func documents(t *testing.T, text []byte) []*yaml.Node {
	t.Helper()
	var ours []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		switch err := d.Decode(&document); {
		case errors.Is(err, io.EOF):
			return ours
		case err != nil:
			return nil // a fragment, or a template
		case strings.HasPrefix(valueAt(&document, "apiVersion"), "plural.sh/"):
			ours = append(ours, &document)
		}
	}
}

// valueAt is what a document has at its root.
func valueAt(document *yaml.Node, key string) string {
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return ""
	}
	content := document.Content[0].Content
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return content[i+1].Value
		}
	}
	return ""
}

// schemaOf is the schema of a document's kind.
func schemaOf(t *testing.T, document *yaml.Node) string {
	t.Helper()
	for name, list := range kinds() {
		for _, k := range list {
			if k.name == valueAt(document, "kind") {
				return name
			}
		}
	}
	t.Fatalf("no schema is of kind %q", valueAt(document, "kind"))
	return ""
}

// mappings are all of a document.
func mappings(n *yaml.Node) []*yaml.Node {
	var all []*yaml.Node
	if n.Kind == yaml.MappingNode {
		all = append(all, n)
	}
	for _, child := range n.Content {
		all = append(all, mappings(child)...)
	}
	return all
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// plain is a document as JSON has it.
func plain(t *testing.T, document *yaml.Node) any {
	t.Helper()
	var v any
	if err := document.Decode(&v); err != nil {
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
