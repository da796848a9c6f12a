package solve

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pluralsh/plural/workspace/packages"
)

var update = flag.Bool("update", false, "write what came out as what is expected")

// TestScripts solves each of testdata, whose files say which packages there are, what is wanted and what comes of it.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal(err, "no scripts")
	}
	for _, name := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			part := func(name string) *txtar.File {
				for i := range script.Files {
					if script.Files[i].Name == name {
						return &script.Files[i]
					}
				}
				return &txtar.File{}
			}
			locked := map[string]string{}
			for line := range lines(part("locked").Data) {
				as, version, _ := strings.Cut(line, " ")
				locked[as] = version
			}
			u := readUniverse(t, part("packages").Data)
			got := describe(Solve(readWants(part("wants").Data), u, locked))
			for range 5 { // maps are walked in another order each time
				if again := describe(Solve(readWants(part("wants").Data), u, locked)); again != got {
					t.Fatalf("once\n%s\nand once\n%s", got, again)
				}
			}
			if *update {
				part("comes").Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(part("comes").Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// describe shows a solution with who asked, or an error.
func describe(s *Solution, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, p := range s.Picks {
		fmt.Fprintf(&b, "%s", p.As)
		if p.As != p.Name {
			fmt.Fprintf(&b, " = %s", p.Name)
		}
		fmt.Fprintf(&b, " %s", p.Version)
		if p.Catalog != "" {
			fmt.Fprintf(&b, " of %s", p.Catalog)
		}
		fmt.Fprintf(&b, " for %s", strings.Join(p.For, ", "))
		for _, key := range slices.Sorted(maps.Keys(p.Satisfies)) {
			fmt.Fprintf(&b, "; %s is %s", key, p.Satisfies[key])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func lines(data []byte) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(string(data)) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// list is a universe that is known in full.
type list []Version

func (l list) Versions(name string) ([]Version, error) {
	if own, _ := l.VersionsFrom("", name); len(own) > 0 {
		return own, nil
	}
	var providers []Version
	for _, v := range l {
		if slices.ContainsFunc(v.Provides, func(p packages.Provided) bool { return p.Name == name }) {
			providers = append(providers, v)
		}
	}
	return providers, nil
}

// VersionsFrom takes the first catalog that has the package where none is named.
func (l list) VersionsFrom(catalog, name string) ([]Version, error) {
	var own []Version
	for _, v := range l {
		if v.Name == name && (catalog == "" || v.Catalog == catalog) && (len(own) == 0 || own[0].Catalog == v.Catalog) {
			own = append(own, v)
		}
	}
	return own, nil
}

func (l list) Names() []string {
	var names []string
	for _, v := range l {
		names = append(names, v.Name)
	}
	return names
}

// readUniverse takes lines of NAME VERSION [of CATALOG] [provides NAME [VERSION], ...] [: DEPENDENCY; ...], in which a
// dependency is [optional] [KEY = ] NAME [RANGE] [| NAME [RANGE]].
func readUniverse(t testing.TB, data []byte) list {
	t.Helper()
	var all list
	for line := range lines(data) {
		head, tail, _ := strings.Cut(line, ":")
		head, provides, _ := strings.Cut(head, " provides ")
		words := strings.Fields(head)
		v := Version{Name: words[0], Version: words[1]}
		if len(words) == 4 {
			v.Catalog = words[3]
		}
		for p := range strings.SplitSeq(provides, ",") {
			if words := strings.Fields(p); len(words) > 0 {
				v.Provides = append(v.Provides, packages.Provided{Name: words[0], Version: strings.Join(words[1:], "")})
			}
		}
		for d := range strings.SplitSeq(tail, ";") {
			if d = strings.TrimSpace(d); d != "" {
				v.Dependencies = append(v.Dependencies, readDependency(d))
			}
		}
		all = append(all, v)
	}
	return all
}

func readDependency(text string) packages.Dependency {
	var d packages.Dependency
	text, d.Optional = strings.CutPrefix(text, "optional ")
	if key, rest, named := strings.Cut(text, " = "); named {
		d.Name, text = key, rest
	}
	for a := range strings.SplitSeq(text, "|") {
		name, versions, _ := strings.Cut(strings.TrimSpace(a), " ")
		d.AnyOf = append(d.AnyOf, packages.Alternative{Package: name, Version: versions})
	}
	if len(d.AnyOf) == 1 {
		d.Package, d.Version, d.AnyOf = d.AnyOf[0].Package, d.AnyOf[0].Version, nil
	}
	return d
}

// readWants takes lines of BY: NAME [RANGE] [, as NAME] [, of CATALOG] [, locked VERSION].
func readWants(data []byte) []Want {
	var all []Want
	for line := range lines(data) {
		by, rest, _ := strings.Cut(line, ": ")
		parts := strings.Split(rest, ", ")
		w := Want{By: by}
		w.Name, w.Range, _ = strings.Cut(parts[0], " ")
		for _, p := range parts[1:] {
			switch key, value, _ := strings.Cut(p, " "); key {
			case "as":
				w.As = value
			case "of":
				w.Catalog = value
			case "locked":
				w.Locked = value
			}
		}
		all = append(all, w)
	}
	return all
}
