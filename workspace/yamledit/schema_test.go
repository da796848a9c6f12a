package yamledit_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

// withSchemas is an installation repo that keeps the schemas of services and of access.
func withSchemas() fstest.MapFS {
	return fstest.MapFS{
		"plural.yaml":                 {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")},
		".plural/schema/service.json": {Data: []byte("{}")},
		".plural/schema/access.json":  {Data: []byte("{}")},
		"clusters/edge-1.yaml":        {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n")},
		"apps/web/web.yaml":           {Data: []byte("a: b\n")},
	}
}

func service(name string) *fleet.Service {
	return &fleet.Service{
		Metadata: fleet.Metadata{Name: name},
		Spec:     fleet.ServiceSpec{Source: fleet.SourceRef{Path: "apps/web"}, Clusters: fleet.Selector{Names: []string{"edge-1"}}},
	}
}

const serviceSchema = "# yaml-language-server: $schema=../.plural/schema/service.json\n"

func TestANewFileNamesItsSchemaWhereTheRepoKeepsIt(t *testing.T) {
	repo := withSchemas()
	c, err := yamledit.Create(repo, service("web"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(c.After), serviceSchema+"apiVersion:") {
		t.Errorf("the file begins otherwise:\n%s", c.After)
	}
	tokens, err := yamledit.Tokens(repo, "ada", nil, []fleet.UserToken{{Name: "laptop", Hash: fleet.HashToken("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(tokens.After), "# yaml-language-server: $schema=../.plural/schema/access.json\napiVersion:") {
		t.Errorf("the file begins otherwise:\n%s", tokens.After)
	}
	delete(repo, ".plural/schema/service.json")
	if c, err = yamledit.Create(repo, service("web")); err != nil || strings.Contains(string(c.After), "yaml-language-server") {
		t.Errorf("a schema is named that is not there: %v\n%s", err, c.After)
	}
}

func TestAFileNamesItsSchemaStillAfterEveryChange(t *testing.T) {
	repo := withSchemas()
	at := func(c *yamledit.Change, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		repo = overlaid(t, repo, c)
		if text := string(c.After); strings.Count(text, serviceSchema) != 1 || !strings.HasPrefix(text, serviceSchema) {
			t.Errorf("the line is not the first, once:\n%s", text)
		}
		return string(c.After)
	}
	at(yamledit.Create(repo, service("web")))
	at(yamledit.Set(repo, yamledit.Document{Kind: yamledit.Service, Name: "web"}, yamledit.Field{Key: "spec.parameters.replicas", Value: "3"}))
	at(yamledit.Suspend(repo, "web", true))
	at(yamledit.Suspend(repo, "web", false))
	both := strings.ReplaceAll(string(repo["services/web.yaml"].Data), serviceSchema, "")
	repo["services/web.yaml"].Data = []byte(serviceSchema + both + "---\n" + strings.ReplaceAll(both, "name: web", "name: api"))
	if left := at(yamledit.Delete(repo, yamledit.Document{Kind: yamledit.Service, Name: "web"})); !strings.Contains(left, "name: api") {
		t.Errorf("the other document is gone:\n%s", left)
	}
}

// overlaid is a repo after a change.
func overlaid(t *testing.T, repo fstest.MapFS, c *yamledit.Change) fstest.MapFS {
	t.Helper()
	after := fstest.MapFS{c.File: {Data: c.After}}
	for name, file := range repo {
		if name != c.File {
			after[name] = file
		}
	}
	return after
}
