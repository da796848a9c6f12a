package templates

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pluralsh/plural/workspace/fleet"
)

func values() map[string]string {
	return map[string]string{
		"name": "demo", "hubURL": "http://127.0.0.1:8080", "repoURL": "file:///srv/fleet.git", "branch": "main",
		"management": "mgmt", "repository": "4cyfb7qkz2nmx5w3",
	}
}

func TestRenderGivesTheInstallationsFilesInOrder(t *testing.T) {
	files, err := Render(Installation, values())
	if err != nil {
		t.Fatal(err)
	}
	var paths, blocks []string
	for _, f := range files {
		paths = append(paths, f.Path)
		if f.Block {
			blocks = append(blocks, f.Path)
		}
	}
	slices.Sort(paths)
	want := []string{".gitattributes", ".gitignore", "README.md", "clusters/README.md", "plural.yaml", "services/README.md", "sources/README.md"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{".gitattributes", ".gitignore"}, blocks); diff != "" {
		t.Error(diff)
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	one, _ := Render(Installation, values())
	two, _ := Render(Installation, values())
	if diff := cmp.Diff(one, two); diff != "" {
		t.Error(diff)
	}
}

func TestRenderRefusesAMissingValue(t *testing.T) {
	incomplete := values()
	delete(incomplete, "branch")
	if _, err := Render(Installation, incomplete); err == nil || !strings.Contains(err.Error(), "branch") {
		t.Errorf("want an error that names branch, got %v", err)
	}
}

func TestRenderRefusesAnUnknownScaffold(t *testing.T) {
	if _, err := Render("nosuch", values()); err == nil {
		t.Error("want an error")
	}
}

// FuzzWorkspaceKeepsItsValues holds that no name or URL can change what plural.yaml says beside its own field.
func FuzzWorkspaceKeepsItsValues(f *testing.F) {
	f.Add("demo", "http://x", "main")
	f.Add("a: b", "\"\n  - {", "#\u2028x")
	f.Fuzz(func(t *testing.T, name, url, branch string) {
		if !valid(name, url, branch) {
			return // no input that the property speaks of
		}
		files, err := Render(Installation, map[string]string{
			"name": name, "hubURL": url, "repoURL": "", "branch": branch,
			"management": "", "repository": "4cyfb7qkz2nmx5w3",
		})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == "plural.yaml" })
		var got fleet.Workspace
		if err := yaml.UnmarshalStrict(files[i].Content, &got); err != nil {
			t.Fatalf("%v\n%s", err, files[i].Content)
		}
		if got.Metadata.Name != name || got.Spec.Hub.URL != url || got.Spec.Repo.Branch != branch {
			t.Errorf("got %+v from\n%s", got, files[i].Content)
		}
	})
}

// valid leaves out what JSON, and so YAML, cannot say.
func valid(all ...string) bool {
	for _, s := range all {
		if strings.ToValidUTF8(s, "") != s || strings.ContainsFunc(s, func(r rune) bool {
			return r == 0x7f || r >= 0x80 && r < 0xa0 && r != 0x85 || r == 0xfffe || r == 0xffff
		}) {
			return false
		}
	}
	return true
}
