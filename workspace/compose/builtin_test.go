package compose

import (
	"errors"
	"io/fs"
	"regexp"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/packages"
)

// TestThePackagesThatComeWithTheProgramCompose installs all of them, answers what has no default, and wants only what waits for
// something outside to be left.
func TestThePackagesThatComeWithTheProgramCompose(t *testing.T) {
	catalog := templates.Catalog()
	names, err := fs.ReadDir(catalog, ".")
	if err != nil {
		t.Fatal(err)
	}
	repo, n := start(), 0
	for _, e := range names {
		if _, err := fs.Stat(catalog, e.Name()+"/"+packages.File); err != nil {
			continue // it has versions below, or is none
		}
		n++
		files, err := fs.Sub(catalog, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		vendored, err := Vendor(files, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range vendored {
			repo[name] = &fstest.MapFile{Data: text}
		}
		repo["packages/"+e.Name()+"/package.yaml"] = file(header + "kind: Installation\nmetadata: {name: " + e.Name() + "}\n")
	}
	if n < 2 {
		t.Fatalf("%d packages: are they found?", n)
	}
	all, err := All(world(t, repo), nil)
	for _, one := range flat(err) {
		var missing *MissingError
		if errors.As(one, &missing) {
			answer(t, repo, missing)
		}
	}
	if err != nil {
		all, err = All(world(t, repo), nil)
	}
	if err != nil || len(all) != n {
		t.Fatalf("%d of %d packages: %v", len(all), n, err)
	}
}

// answer writes an answer to each question that has none.
func answer(t *testing.T, repo fstest.MapFS, missing *MissingError) {
	t.Helper()
	plain, secret := map[string]any{}, map[string]any{}
	for _, q := range missing.Questions {
		switch q.Type {
		case packages.TypeSecret:
			secret[q.Name] = "0123456789abcdef0123456789abcdef"
		case packages.TypeInt, packages.TypeNumber:
			plain[q.Name] = 3
		case packages.TypeBool:
			plain[q.Name] = true
		case packages.TypeEnum:
			plain[q.Name] = q.Options[0]
		case packages.TypeList:
			plain[q.Name] = []any{"a"}
		case packages.TypeMap:
			plain[q.Name] = map[string]any{"a": "b"}
		default:
			plain[q.Name] = text(t, &q)
		}
	}
	for name, values := range map[string]map[string]any{"values.yaml": plain, "values.secret.yaml": secret} {
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		if len(values) > 0 {
			repo["packages/"+missing.Installation+"/"+name] = file(string(text))
		}
	}
}

// text is one that a question's pattern takes.
func text(t *testing.T, q *packages.Question) string {
	t.Helper()
	pattern := regexp.MustCompile(q.Pattern)
	for _, one := range []string{"a-project-1", "eu-central-1", "westeurope", "europe-west1", "00000000-0000-0000-0000-000000000000"} {
		if pattern.MatchString(one) {
			return one
		}
	}
	t.Fatalf("no text here answers %q, whose pattern is %s", q.Name, q.Pattern)
	return ""
}
