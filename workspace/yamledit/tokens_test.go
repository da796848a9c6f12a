package yamledit_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/yamledit"
)

func access(text string) fstest.MapFS {
	files := fstest.MapFS{"plural.yaml": {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")}}
	if text != "" {
		files["access/ada.yaml"] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func TestTokensChangeAndNothingElse(t *testing.T) {
	one := fleet.UserToken{Name: "one", Hash: fleet.HashToken("1")}
	two := fleet.UserToken{Name: "two", Hash: fleet.HashToken("2"), Expires: "2027-01-31T00:00:00Z"}
	const head = "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: ada} # her\n"
	oneLine, twoLine := `{name: "one", hash: "`+one.Hash+`"}`, `{name: "two", hash: "`+two.Hash+`", expires: "`+two.Expires+`"}`
	role := "apiVersion: plural.sh/v1alpha1\nkind: Role\nmetadata: {name: ada}\nspec: {fleet: [view]}\n"
	tests := map[string]struct {
		before string
		tokens []fleet.UserToken
		want   string
	}{
		"a new user": {"", []fleet.UserToken{one}, "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: \"ada\"}\nspec:\n" +
			"  groups: [\"staff\"]\n  tokens:\n    - " + oneLine + "\n"},
		"a new user behind a role": {role, []fleet.UserToken{one}, role + "---\napiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: \"ada\"}\nspec:\n" +
			"  groups: [\"staff\"]\n  tokens:\n    - " + oneLine + "\n"},
		"the first token":        {head + "spec:\n  groups: [a] # why\n", []fleet.UserToken{one}, head + "spec:\n  groups: [a] # why\n  tokens:\n    - " + oneLine + "\n"},
		"one more":               {head + "spec:\n  tokens:\n    - " + oneLine + "\n", []fleet.UserToken{one, two}, head + "spec:\n  tokens:\n    - " + oneLine + "\n    - " + twoLine + "\n"},
		"one less":               {head + "spec:\n  groups: [a]\n  tokens:\n    - " + oneLine + "\n    - " + twoLine + "\n", []fleet.UserToken{two}, head + "spec:\n  groups: [a]\n  tokens:\n    - " + twoLine + "\n"},
		"the same":               {head + "spec: {tokens: [" + oneLine + "]}\n", []fleet.UserToken{one}, head + "spec: {tokens: [" + oneLine + "]}\n"},
		"behind a role":          {role + "---\n" + head + "spec:\n  tokens:\n    - " + oneLine + "\n", []fleet.UserToken{two}, role + "---\n" + head + "spec:\n  tokens:\n    - " + twoLine + "\n"},
		"without a spec":         {head, []fleet.UserToken{one}, head + "spec:\n  tokens:\n    - " + oneLine + "\n"},
		"in one line":            {head + "spec: {groups: [a]}\n", []fleet.UserToken{one}, ""},
		"none left":              {head + "spec:\n  groups: [a]\n  tokens:\n    - " + oneLine + "\n", nil, head + "spec:\n  groups: [a]\n"},
		"none left, and no spec": {head + "spec:\n  tokens:\n    - " + oneLine + "\n", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			files := access(test.before)
			c, err := yamledit.Tokens(files, "ada", []string{"staff"}, test.tokens)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(c.After)); diff != "" && test.want != "" {
				t.Error(diff)
			}
			f, err := fleet.Load(overlay.New(files, map[string][]byte{c.File: c.After}))
			if err != nil {
				t.Fatal(err)
			}
			if u, ok := f.User("ada"); !ok || !cmp.Equal(u.Spec.Tokens, test.tokens) {
				t.Errorf("the user has %v", u.Spec.Tokens)
			}
			if strings.Count(string(c.After), "# her") != strings.Count(test.before, "# her") {
				t.Error("a comment went")
			}
		})
	}
}

func TestTokensOfABadNameAreNoChange(t *testing.T) {
	for _, name := range []string{"../x", "Ada", "a b", "operator"} {
		if c, err := yamledit.Tokens(access(""), name, nil, []fleet.UserToken{{Name: "one", Hash: fleet.HashToken("1")}}); err == nil {
			t.Errorf("%q: %s", name, c.File)
		}
	}
}
