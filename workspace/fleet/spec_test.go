package fleet

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTheExamplesOfTheSpecLoad reads the YAML of docs/spec/sources.md as the files that its first lines name.
func TestTheExamplesOfTheSpecLoad(t *testing.T) {
	text, err := os.ReadFile("../../docs/spec/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"plural.yaml": {Data: []byte(workspaceYAML)}}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		name, _, _ := strings.Cut(strings.TrimPrefix(example, "# "), "\n")
		if files[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		files[name] = &fstest.MapFile{Data: []byte(example)}
	}
	for _, name := range []string{"secrets/hub/apps.yaml", "keys/alice.asc", "keys/allowed_signers", "keys/trusted_root.json"} {
		files[name] = &fstest.MapFile{Data: []byte("x")}
	}
	f, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i := range f.Sources {
		kinds[f.Sources[i].Kind()]++
	}
	if kinds["git"] < 3 || kinds["helm"] < 1 || kinds["oci"] < 2 || len(f.Services) < 4 {
		t.Errorf("%v sources and %d services: are the examples found?", kinds, len(f.Services))
	}
}
