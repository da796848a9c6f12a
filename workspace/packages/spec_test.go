package packages_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/packages"
)

const spec = "../../docs/spec/package.md"

func TestTheExamplesOfTheSpecLoad(t *testing.T) {
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```yaml\n")[1:]
	if len(examples) < 3 {
		t.Errorf("%d examples: are they found?", len(examples))
	}
	for _, block := range examples {
		example, _, _ := strings.Cut(block, "```")
		if _, err := packages.Load(folder(example)); err != nil {
			t.Errorf("%v", err)
		}
	}
}

func TestTheSpecKnowsEveryField(t *testing.T) {
	text, err := os.ReadFile(spec)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range fieldNames(reflect.TypeFor[packages.Spec](), map[reflect.Type]bool{}) {
		if !seen[name] && !strings.Contains(string(text), name) {
			t.Errorf("%s says nothing of %s", spec, name)
		}
		seen[name] = true
	}
}

func fieldNames(of reflect.Type, seen map[reflect.Type]bool) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] {
		return nil
	}
	seen[of] = true
	var names []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("yaml"), ",")
		names = append(append(names, name), fieldNames(of.Field(i).Type, seen)...)
	}
	return names
}
