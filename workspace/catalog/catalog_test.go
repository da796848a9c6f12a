package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/templates"
	"github.com/pluralsh/plural/workspace/packages"
	"github.com/pluralsh/plural/workspace/solve"
)

// document is package.yaml with more below its spec.
func document(name, version, more string) string {
	return fmt.Sprintf("apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: %s}\nspec:\n  version: %s\n%s", name, version, more)
}

// content is a package with something to deliver.
func content(name, version, more string) fstest.MapFS {
	return fstest.MapFS{
		packages.File:      {Data: []byte(document(name, version, more+"  steps:\n  - {name: app, manifests: {path: app}}\n"))},
		"app/service.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n")},
	}
}

// below puts packages into folders of one file system.
func below(folders map[string]fstest.MapFS) fstest.MapFS {
	all := fstest.MapFS{}
	for dir, files := range folders {
		for name, file := range files {
			all[path.Join(dir, name)] = file
		}
	}
	return all
}

// listed is what a catalog says of a package.
func listed(t *testing.T, c Catalog, name string) string {
	t.Helper()
	list, err := c.Versions(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		text := e.Version
		if e.Problem != nil {
			text += " (" + e.Problem.Error() + ")"
		} else if e.Package.Spec.Version != e.Version || !strings.HasPrefix(e.Digest, "sha256:") {
			t.Errorf("entry %+v", e)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// opened holds a payload against what it was made of.
func opened(t *testing.T, c Catalog, name, version string, want fs.FS) *Payload {
	t.Helper()
	p, err := c.Open(t.Context(), name, version)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := packages.Digest(want)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := packages.Digest(p.Files); err != nil || again != digest || p.Digest != digest || p.Package.Metadata.Name != name {
		t.Errorf("%s %s has the digests %s and %s, %v; want %s", name, version, p.Digest, again, err, digest)
	}
	return p
}

func TestAFolderHoldsOneVersionOrSeveralOfAPackage(t *testing.T) {
	t.Parallel()
	web, old, now := content("web", "1.0.0", ""), content("db", "1.9.0", ""), content("db", "1.10.0", "")
	c := Folder("own", below(map[string]fstest.MapFS{
		"web": web, "db/1.9.0": old, "db/1.10.0": now, "db/1.10.0/app/more": {"x.yaml": {Data: []byte("{}")}},
		".": {"README.md": {Data: []byte("# Packages")}, "docs/index.md": {Data: []byte("text")}},
	}))
	now["app/more/x.yaml"] = &fstest.MapFile{Data: []byte("{}")}
	names, err := c.Packages(t.Context())
	if err != nil || !slices.Equal(names, []string{"db", "web"}) {
		t.Errorf("packages %v, %v", names, err)
	}
	if got := listed(t, c, "db"); got != "1.10.0, 1.9.0" {
		t.Errorf("versions of db: %s", got)
	}
	if got := listed(t, c, "docs") + listed(t, c, "nothing") + listed(t, c, "README.md") + listed(t, c, "../x"); got != "" {
		t.Errorf("versions of what is no package: %s", got)
	}
	opened(t, c, "web", "1.0.0", web)
	opened(t, c, "db", "1.9.0", old)
	opened(t, c, "db", "1.10.0", now)
	for _, tc := range []struct{ name, version, want string }{
		{"db", "2.0.0", "catalog own has no db 2.0.0: the newest that it has is 1.10.0"},
		{"cache", "1.0.0", "catalog own has no package cache: plural package search lists what there is"},
	} {
		_, err := c.Open(t.Context(), tc.name, tc.version)
		var none *NotFoundError
		if !errors.As(err, &none) || err.Error() != tc.want {
			t.Errorf("%s %s: %v", tc.name, tc.version, err)
		}
	}
}

func TestABrokenVersionHidesNoOther(t *testing.T) {
	t.Parallel()
	c := Folder("own", below(map[string]fstest.MapFS{
		"db/1.0.0": content("db", "1.0.0", ""), "db/1.1.0": {packages.File: {Data: []byte("spec: {")}},
		"db/1.2.0": content("db", "1.2.1", ""), "db/line-2": content("db", "2.0.0", ""), "db/3.0.0": content("cache", "3.0.0", ""),
		"twice/a": content("twice", "1.0.0", ""), "twice/b": content("twice", "1.0.0", ""),
	}))
	got := listed(t, c, "db")
	for _, want := range []string{
		"2.0.0, ", ", 1.0.0", `3.0.0 (db/3.0.0: the package is called "cache", and lies in the folder of "db": rename one of them)`,
		"1.2.1 (db/1.2.0: the package is version 1.2.1: rename its folder)", "1.1.0 (db/1.1.0: package.yaml:",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
	if _, err := c.Open(t.Context(), "db", "1.1.0"); err == nil || !strings.Contains(err.Error(), "catalog own: db/1.1.0: package.yaml:") {
		t.Errorf("%v", err)
	}
	if got := listed(t, c, "twice"); got != "1.0.0 (two folders of twice are version 1.0.0)" {
		t.Error(got)
	}
	// A link cannot be part of a package, wherever the catalog lies.
	linked := content("linked", "1.0.0", "")
	linked["app/passwd"] = &fstest.MapFile{Data: []byte("/etc/passwd"), Mode: fs.ModeSymlink}
	if got := listed(t, Folder("own", below(map[string]fstest.MapFS{"linked": linked})), "linked"); !strings.Contains(got, "passwd") {
		t.Error(got)
	}
}

// down is a catalog that does not answer.
type down struct{ Catalog }

var errDown = errors.New("nobody is there")

func (down) Packages(context.Context) ([]string, error)        { return nil, errDown }
func (down) Versions(context.Context, string) ([]Entry, error) { return nil, errDown }
func (down) Open(context.Context, string, string) (*Payload, error) {
	return nil, errDown
}

func TestAPackageBelongsToTheFirstCatalogThatHasItsName(t *testing.T) {
	t.Parallel()
	ours := content("web", "1.0.0", "")
	own := Folder("own", below(map[string]fstest.MapFS{"web": ours}))
	theirs := Folder("theirs", below(map[string]fstest.MapFS{"web": content("web", "9.0.0", ""), "db": content("db", "1.0.0", "")}))
	s := All(own, theirs)
	names, err := s.Packages(t.Context())
	if err != nil || fmt.Sprint(names) != "map[db:theirs web:own]" {
		t.Errorf("packages %v, %v", names, err)
	}
	for _, tc := range []struct{ catalog, name, want string }{
		{"", "web", "own 1.0.0"}, {"theirs", "web", "theirs 9.0.0"}, {"", "db", "theirs 1.0.0"}, {"own", "db", "own"}, {"", "none", ""},
	} {
		list, from, err := s.Versions(t.Context(), tc.catalog, tc.name)
		got := from
		for _, e := range list {
			got += " " + e.Version
		}
		if err != nil || got != tc.want {
			t.Errorf("%s of %q: %q, %v", tc.name, tc.catalog, got, err)
		}
	}
	if _, _, err := s.Versions(t.Context(), "other", "web"); err == nil || !strings.Contains(err.Error(), "spec.catalogs of plural.yaml") {
		t.Errorf("%v", err)
	}
	// One that is away must not be stood in for by one behind it, and is not missed where it is not needed.
	if _, _, err := All(down{own}, theirs).Versions(t.Context(), "", "web"); !errors.Is(err, errDown) {
		t.Errorf("%v", err)
	}
	if _, _, err := All(own, down{theirs}).Versions(t.Context(), "", "web"); err != nil {
		t.Error(err)
	}
	digest, err := packages.Digest(ours)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Open(t.Context(), "", "web", "1.0.0", digest); err != nil || p.Digest != digest {
		t.Errorf("%v", err)
	}
	_, err = s.Open(t.Context(), "own", "web", "1.0.0", "sha256:"+strings.Repeat("0", 64))
	var changed *DigestError
	if !errors.As(err, &changed) || changed.Have != digest || !strings.Contains(err.Error(), "a version never changes") {
		t.Errorf("%v", err)
	}
	if _, err := s.Open(t.Context(), "", "none", "1.0.0", ""); err == nil || !strings.Contains(err.Error(), "own, theirs has no package none") {
		t.Errorf("%v", err)
	}
}

func TestVersionsAreSolvedOverCatalogs(t *testing.T) {
	t.Parallel()
	s := All(
		Folder("own", below(map[string]fstest.MapFS{
			"web":  content("web", "1.0.0", "  dependencies: [{package: ingress, version: '>=1'}, {package: db, version: '<2'}]\n"),
			"db/1": content("db", "1.0.0", ""), "db/2": content("db", "2.0.0", ""), "db/3": {packages.File: {Data: []byte("nonsense")}},
			"broken": {packages.File: {Data: []byte("nonsense")}},
		})),
		Folder("builtin", below(map[string]fstest.MapFS{
			"traefik": content("traefik", "3.0.0", "  provides: [{name: ingress, version: 1.2.0}]\n"), "db/1": content("db", "1.5.0", ""),
		})),
	)
	solution, err := solve.Solve([]solve.Want{{Name: "web", By: "me"}}, s.Universe(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range solution.Picks {
		got = append(got, p.Name+" "+p.Version+" of "+p.Catalog)
	}
	if want := "db 1.0.0 of own, traefik 3.0.0 of builtin, web 1.0.0 of own"; strings.Join(got, ", ") != want {
		t.Errorf("picked %v", got)
	}
	_, err = solve.Solve([]solve.Want{{Name: "traefic", By: "me"}}, s.Universe(t.Context()), nil)
	if err == nil || !strings.Contains(err.Error(), "did you mean traefik?") {
		t.Errorf("%v", err)
	}
	_, err = solve.Solve([]solve.Want{{Name: "broken", By: "me"}}, s.Universe(t.Context()), nil)
	if err == nil || !strings.Contains(err.Error(), "catalog own: broken: package.yaml") {
		t.Errorf("%v", err)
	}
}

func TestTheProgramsOwnCatalogCanBeUsed(t *testing.T) {
	t.Parallel()
	c := Folder("builtin", templates.Catalog())
	names, err := c.Packages(t.Context())
	if err != nil || !slices.Contains(names, "hub") || !slices.Contains(names, "agent") {
		t.Fatalf("packages %v, %v", names, err)
	}
	for _, name := range names {
		list, err := c.Versions(t.Context(), name)
		if err != nil || len(list) == 0 {
			t.Fatalf("%s: %v", name, err)
		}
		for _, e := range list {
			if e.Problem != nil {
				t.Errorf("%s: %v", name, e.Problem)
				continue
			}
			if _, err := c.Open(t.Context(), name, e.Version); err != nil {
				t.Error(err)
			}
			// What a registry would keep of it must read back as the same.
			text, err := json.Marshal(e.Package)
			if err != nil {
				t.Fatal(err)
			}
			again, err := packages.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := same(again, e.Package); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
