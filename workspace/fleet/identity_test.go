package fleet_test

import (
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/fleet"
)

func TestANameThatOthersCanTakeOverIsNotEnoughForAFederation(t *testing.T) {
	for name, spec := range map[string]string{
		"GitHub's issuer of an enterprise": "issuer: https://token.actions.githubusercontent.com/acme, claims: {sub: \"repo:acme/app:ref:refs/heads/main\"}",
		"GitLab of one's own":              "issuer: https://gitlab.example.com, claims: {sub: \"project_path:acme/app:ref_type:branch:ref:main\"}",
	} {
		fsys := fstest.MapFS{
			"plural.yaml":   {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: x}\nspec: {}\n")},
			"access/a.yaml": {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: ci}\nspec: {groups: [a]}\n---\napiVersion: plural.sh/v1alpha1\nkind: Federation\nmetadata: {name: f}\nspec: {user: ci, " + spec + "}\n")},
		}
		f, err := fleet.Load(fsys)
		if err == nil && len(f.Federations) == 1 {
			t.Errorf("%s: a name that others can take over is enough", name)
		} else {
			t.Log(name, err)
		}
	}
}
