package fleet

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// examples are the YAML blocks of a page of docs/spec, as the files that their first lines name.
func examples(t *testing.T, page string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile("../../docs/spec/" + page)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(block, "```")
		name, _, _ := strings.Cut(strings.TrimPrefix(example, "# "), "\n")
		if files[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		files[name] = &fstest.MapFile{Data: []byte(example)}
	}
	return files
}

func TestTheExamplesOfTheSpecLoad(t *testing.T) {
	files := examples(t, "sources.md")
	files["plural.yaml"] = &fstest.MapFile{Data: []byte(workspaceYAML)}
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

func TestTheExamplesOfServicesLoad(t *testing.T) {
	files := examples(t, "service.md")
	for name, text := range map[string]string{
		"sources/charts.yaml":  "kind: Source\nmetadata: {name: charts}\nspec: {helm: {url: \"https://example.org\"}}\n",
		"clusters/edge-1.yaml": "kind: Cluster\nmetadata: {name: edge-1}\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte("apiVersion: plural.sh/v1alpha1\n" + text)}
	}
	f, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	web, ok := f.Service("web")
	if !ok || len(web.Spec.Tests) != 3 || len(web.Spec.Sync.Fields) != 3 || len(f.Services) < 4 {
		t.Errorf("%d services: are the examples found?", len(f.Services))
	}
}

func TestTheExamplesOfAccessLoad(t *testing.T) {
	files := examples(t, "access.md")
	files["plural.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {hub: {signingKeys: keys.yaml}}\n")}
	files["keys.yaml"] = &fstest.MapFile{}
	f, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Users) != 2 || len(f.Roles) != 1 || len(f.RoleBindings) != 1 || len(f.Providers) != 1 || len(f.Federations) != 1 ||
		len(f.Applications) != 1 {
		t.Errorf("%d users, %d roles, %d bindings, %d providers, %d federations, %d applications: are the examples found?",
			len(f.Users), len(f.Roles), len(f.RoleBindings), len(f.Providers), len(f.Federations), len(f.Applications))
	}
}

func TestTheExamplesOfNotificationsLoad(t *testing.T) {
	files := examples(t, "notify.md")
	files["plural.yaml"] = &fstest.MapFile{Data: []byte(workspaceYAML)}
	for _, name := range []string{"secrets/hub/ops.yaml", "secrets/hub/slack.yaml"} {
		files[name] = &fstest.MapFile{Data: []byte("x")}
	}
	f, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Sinks) != 2 || len(f.Routes) != 1 {
		t.Errorf("%d sinks, %d routes: are the examples found?", len(f.Sinks), len(f.Routes))
	}
}

func TestTheExamplesOfInstallationsLoad(t *testing.T) {
	files := examples(t, "installation.md")
	for name, text := range map[string]string{
		"sources/all.yaml":  "kind: Source\nmetadata: {name: platform}\nspec: {git: {url: \"https://example.org\"}}\n---\napiVersion: plural.sh/v1alpha1\nkind: Source\nmetadata: {name: packages}\nspec: {oci: {url: \"oci://example.org/packages\"}}\n",
		"clusters/all.yaml": "kind: Cluster\nmetadata: {name: home}\n---\napiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: edge-1}\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte("apiVersion: plural.sh/v1alpha1\n" + text)}
	}
	f, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	dns, ok := f.Installation("dns")
	if !ok || dns.PackageName() != "external-dns" || len(f.Installations) < 3 || len(f.Workspace.Spec.Catalogs) != 2 {
		t.Errorf("%d installations: are the examples found?", len(f.Installations))
	}
}

// TestTheSpecKnowsEveryField looks for the name of every field of a kind in its reference.
func TestTheSpecKnowsEveryField(t *testing.T) {
	for page, kinds := range map[string][]reflect.Type{
		"service.md": {reflect.TypeFor[ServiceSpec]()},
		"access.md": {
			reflect.TypeFor[UserSpec](), reflect.TypeFor[RoleSpec](), reflect.TypeFor[RoleBindingSpec](), reflect.TypeFor[ProviderSpec](),
			reflect.TypeFor[FederationSpec](),
		},
		"notify.md":       {reflect.TypeFor[SinkSpec](), reflect.TypeFor[RouteSpec]()},
		"installation.md": {reflect.TypeFor[InstallationSpec](), reflect.TypeFor[CatalogRef]()},
	} {
		text, err := os.ReadFile("../../docs/spec/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			for _, name := range fieldNames(kind) {
				// Those of a requirement stand in service.md, which the others refer to.
				if !strings.Contains(string(text), name) && !(page != "service.md" && (name == "key" || name == "operator" || name == "values")) {
					t.Errorf("%s says nothing of %s", page, name)
				}
			}
		}
	}
}

// fieldNames are the names of a struct's fields, at any depth.
func fieldNames(of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		names = append(append(names, name), fieldNames(of.Field(i).Type)...)
	}
	return names
}
