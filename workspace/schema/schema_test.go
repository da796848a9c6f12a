package schema_test

import (
	"encoding/json"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/schema"
)

func TestEverySchemaOfARepoIsFoundFromWhereItIsNamed(t *testing.T) {
	files, err := schema.Files()
	if err != nil {
		t.Fatal(err)
	}
	repo := fstest.MapFS{}
	for name, text := range files {
		if !json.Valid(text) {
			t.Errorf("%s is no JSON", name)
		}
		repo[name] = &fstest.MapFile{Data: text}
	}
	for file, name := range map[string]string{
		"plural.yaml": schema.Workspace, "services/web.yaml": schema.Service, "packages/dns/package.yaml": schema.Installation,
		".plural/seal.yaml": schema.Seal, "views.yaml": schema.Views, "notify/ops.yaml": schema.Notify,
	} {
		line := strings.TrimSuffix(string(schema.Line(repo, file, name)), "\n")
		_, to, _ := strings.Cut(line, "$schema=")
		if _, err := repo.Stat(path.Join(path.Dir(file), to)); err != nil {
			t.Errorf("%s names %q: %v", file, line, err)
		}
		if got := string(schema.Named([]byte(line + "\na: b\n"))); got != line+"\n" {
			t.Errorf("the line of %s is read as %q", file, got)
		}
		if line := schema.Line(fstest.MapFS{}, file, name); line != nil {
			t.Errorf("%s names a schema that is not there: %s", file, line)
		}
	}
}
