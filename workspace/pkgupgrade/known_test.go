package pkgupgrade_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/compose"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/pkgupgrade"
	"github.com/pluralsh/plural/workspace/solve"
)

// shelf is a universe of one catalog.
type shelf []solve.Version

func (s shelf) Versions(name string) ([]solve.Version, error) {
	var list []solve.Version
	for _, v := range s {
		if v.Name == name {
			list = append(list, v)
		}
	}
	return list, nil
}

func (s shelf) VersionsFrom(catalog, name string) ([]solve.Version, error) {
	list, err := s.Versions(name)
	if len(list) > 0 && list[0].Catalog != catalog {
		return nil, err
	}
	return list, err
}

func TestWhatIsInstalledStaysPossible(t *testing.T) {
	const document = "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: hub}\nspec: {version: 0.1.0, provides: [{name: brain}]}\n"
	w := &compose.World{
		Fleet: &fleet.Fleet{},
		Lock: &lockfile.Lock{Packages: []lockfile.Entry{
			{Name: "main-hub", Package: "hub", Catalog: "builtin", Version: "0.1.0"},
			{Name: "gone", Package: "gone", Catalog: "builtin", Version: "1.0.0"}, // its files are not there
		}},
		Repo: fstest.MapFS{"packages/main-hub/payload/package.yaml": {Data: []byte(document)}},
	}
	k, err := pkgupgrade.Known(w, shelf{{Name: "hub", Version: "0.2.0", Catalog: "builtin"}, {Name: "hub", Version: "0.0.9", Catalog: "builtin"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hub": "0.2.0 0.1.0 0.0.9", "brain": "0.1.0", "gone": "", "web": ""} {
		list, err := k.Versions(name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range list {
			got = append(got, v.Version)
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if list, err := k.VersionsFrom("other", "hub"); err != nil || len(list) > 0 {
		t.Errorf("another catalog has %v, %v", list, err)
	}
}

func TestAgreementIsNeededOnceForWhatBreaks(t *testing.T) {
	next := &packages.Package{Spec: packages.Spec{Version: "3.0.0", Breaking: []packages.Breaking{{Since: "2.0.0"}, {Since: "3.0.0"}}}}
	asks := &packages.Package{Spec: packages.Spec{Version: "1.1.0", NeedsApproval: true}}
	for name, c := range map[string]struct {
		next     *packages.Package
		from     string
		approved []string
		want     int // breaking versions; -1: no agreement
	}{
		"both break":                {next, "1.0.0", nil, 2},
		"one was agreed to":         {next, "1.0.0", []string{"2.0.0"}, 1},
		"each was agreed to":        {next, "1.0.0", []string{"2.0.0", "3.0.0"}, -1},
		"the version was agreed to": {next, "1.0.0", []string{"3.0.0"}, -1},
		"past the first":            {next, "2.1.0", nil, 1},
		"the same":                  {next, "3.0.0", nil, -1},
		"new":                       {next, "", nil, -1},
		"asks for it":               {asks, "1.0.0", nil, 0},
		"asked for it":              {asks, "1.0.0", []string{"1.1.0"}, -1},
	} {
		a := pkgupgrade.NeedsAgreement(c.next, "web", c.from, c.approved)
		if got := a != nil; got != (c.want >= 0) || got && len(a.Breaking) != c.want {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
