package docs_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/docs"
)

var update = flag.Bool("update", false, "write the schemas anew")

func TestTheSchemasAreThoseOfTheTypesThatAreRead(t *testing.T) {
	want := generated(t)
	if *update {
		for name, text := range want {
			if err := os.WriteFile(filepath.Join("schema", name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range want {
		have, err := os.ReadFile(filepath.Join("schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(have), string(text)); d != "" {
			t.Errorf("docs/schema/%s is stale: go test ./docs -update\n%s", name, d)
		}
	}
	files, err := fs.Glob(docs.Schemas(), "*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if want[name] == nil && name != "error.json" {
			t.Errorf("docs/schema/%s is of no type: delete it", name)
		}
	}
}

func TestEveryFieldOfTheSchemasSaysWhatItIs(t *testing.T) {
	for name, text := range generated(t) {
		var root map[string]any
		if err := json.Unmarshal(text, &root); err != nil {
			t.Fatal(err)
		}
		undescribed(t, name, root)
	}
}

// undescribed walks the fields of a schema. What only holds others needs no words.
func undescribed(t *testing.T, at string, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		property := p.(map[string]any)
		said, _ := property["description"].(string)
		if name != "metadata" && name != "kind" && name != "spec" && !strings.HasSuffix(said, ".") {
			t.Errorf("%s: %s: %q is no sentence", at, name, said)
		}
		undescribed(t, at+" "+name, property)
	}
	definitions, _ := schema["$defs"].(map[string]any)
	for name, d := range definitions {
		undescribed(t, at+" "+name, d.(map[string]any))
	}
}
