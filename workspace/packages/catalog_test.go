package packages_test

import (
	"io/fs"
	"testing"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/packages"
)

func TestThePackagesOfTheProgramAreInOrder(t *testing.T) {
	entries, err := fs.ReadDir(templates.Catalog(), ".")
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d packages: %v", len(entries), err)
	}
	for _, e := range entries {
		files, err := fs.Sub(templates.Catalog(), e.Name())
		if err != nil {
			t.Fatal(err)
		}
		problems, err := packages.Lint(files)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if p.Advice {
				t.Logf("%s/%v", e.Name(), p.Error)
			} else {
				t.Errorf("%s/%v", e.Name(), p.Error)
			}
		}
		p, err := packages.Load(files)
		if err == nil && p.Metadata.Name != e.Name() {
			t.Errorf("folder %s holds package %s", e.Name(), p.Metadata.Name)
		}
	}
}
