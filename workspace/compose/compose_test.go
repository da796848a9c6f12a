package compose

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/pluralsh/plural/crypto/seal"
	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sealedHead is what a sealed file begins with.
const sealedHead = "age-encryption.org/v1\n"

const header = "apiVersion: plural.sh/v1alpha1\n"

// start is a repository that archives add to.
func start() fstest.MapFS {
	return fstest.MapFS{
		"plural.yaml": file(header + "kind: Workspace\nmetadata: {name: demo}\nspec: {hub: {url: \"https://hub.example.com\"}, repo: {url: \"https://git.example.com/fleet.git\", branch: main}, management: home}\n"),
		"clusters/all.yaml": file(header + "kind: Cluster\nmetadata: {name: home}\nspec: {tags: {env: ops}, parameters: {domain: home.example.com}}\n---\n" +
			header + "kind: Cluster\nmetadata: {name: edge-1}\nspec: {tags: {env: prod}}\n"),
		".plural/seal.yaml": file(header + "kind: Seal\nmetadata: {name: seal}\nspec:\n  repository: 0123456789abcdef0123456789abcdef\n  paths:\n  - {pattern: \"**/*.secret.yaml\", groups: [all]}\n"),
	}
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// read takes an archive apart: the repository and, beside it, what else a test says.
func read(t testing.TB, name string) (repo fstest.MapFS, rest map[string][]byte, archive *txtar.Archive) {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	repo, rest = start(), map[string][]byte{}
	for _, f := range archive.Files {
		switch {
		case f.Name == "want" || f.Name == "known" || f.Name == "options":
			rest[f.Name] = f.Data
		case string(f.Data) == "(none)\n":
			delete(repo, f.Name)
		default:
			repo[f.Name] = &fstest.MapFile{Data: bytes.ReplaceAll(f.Data, []byte("(sealed)\n"), []byte(sealedHead))}
		}
	}
	return repo, rest, archive
}

// locks makes the lock that a repository would have, where it has none: each dependency is satisfied by the installation of its
// name.
func locks(t testing.TB, repo fs.FS) *lockfile.Lock {
	t.Helper()
	l, err := lockfile.Load(repo)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(repo, "packages/*/payload/package.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			t.Fatal(err)
		}
		installation := strings.Split(name, "/")[1]
		p, err := packages.Parse(text)
		if _, there := l.Entry(installation); err != nil || there {
			continue
		}
		e := lockfile.Entry{Name: installation, Package: p.Metadata.Name, Catalog: "builtin", Version: p.Spec.Version, Requires: map[string]string{}}
		for i := range p.Spec.Dependencies {
			d := &p.Spec.Dependencies[i]
			if _, err := fs.Stat(repo, "packages/"+d.Package); err == nil {
				e.Requires[d.Key()] = d.Package
			}
		}
		l.Set(e)
	}
	return l
}

// world opens a repository, as whoever holds all keys.
func world(t testing.TB, repo fs.FS) *World {
	t.Helper()
	f, err := fleet.Load(repo)
	if err != nil {
		t.Fatal(err)
	}
	return &World{Fleet: f, Repo: repo, Lock: locks(t, repo), Stored: func(name string) (string, error) {
		text, err := fs.ReadFile(repo, name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return hash(text), err
	}}
}

// TestCompose composes the repository of each archive and compares everything with its file "want"; then it puts the result in
// place, and wants nothing to change any more.
func TestCompose(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives in testdata: %v", err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			repo, rest, archive := read(t, name)
			var known Outputs
			if text := rest["known"]; text != nil {
				if err := json.Unmarshal(text, &known); err != nil {
					t.Fatal(err)
				}
			}
			w := world(t, repo)
			w.Blind = strings.Contains(string(rest["options"]), "blind")
			all, err := All(w, known)
			got := show(all, err)
			if *update {
				for i := range archive.Files {
					if archive.Files[i].Name == "want" {
						archive.Files[i].Data = []byte(got)
					}
				}
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				rest["want"] = []byte(got)
			}
			if diff := cmp.Diff(string(rest["want"]), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err == nil {
				changesNothing(t, repo, w, all, known)
			}
		})
	}
}

// changesNothing puts what was composed in place and composes again: as it was told, and from the files alone.
func changesNothing(t *testing.T, repo fs.FS, w *World, all []*Composed, known Outputs) {
	t.Helper()
	changes := map[string][]byte{}
	for _, c := range all {
		for name, text := range c.Files {
			changes[name] = text
		}
	}
	after := overlay.New(repo, changes)
	next := world(t, after)
	next.Blind = w.Blind
	for _, known := range []Outputs{known, nil} {
		again, err := All(next, known)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range again {
			if len(c.Files) > 0 {
				t.Errorf("%s still wants to change %v", c.Name, keysOf(c.Files))
			}
			for j := range c.Steps {
				before, now := all[i].Steps[j].Digest, c.Steps[j].Digest
				if before != "" && before != now {
					t.Errorf("%s/%s has another digest", c.Name, c.Steps[j].Name)
				}
				if sealed := len(all[i].Steps[j].Waiting) == 0 && !c.Steps[j].Skipped; sealed && now == "" {
					t.Errorf("%s/%s has no digest", c.Name, c.Steps[j].Name)
				}
			}
		}
	}
}

// show writes down what was composed.
func show(all []*Composed, err error) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, c := range all {
		line("%s %s%s", c.Name, c.Version, list(" after ", c.DependsOn))
		for _, s := range c.Steps {
			says := ""
			switch {
			case s.Skipped:
				says = " skipped"
			case s.Terraform != nil:
				shown := *s.Terraform
				text, _ := json.Marshal(shown)
				says = " " + string(text) + list(" secret ", s.SecretInputs)
			case s.Wait != nil:
				text, _ := json.Marshal(s.Wait)
				says = " " + string(text)
			}
			for i := range s.Services {
				says += " " + s.Services[i].Metadata.Name
			}
			if s.Digest == "" && !s.Skipped && len(s.Waiting) == 0 {
				says += " (no digest)"
			}
			line("  %s %s%s%s%s", s.Kind, s.Name, says, list(" needs ", s.Needs), list(" waiting for ", s.Waiting))
		}
		if len(c.Outputs.Plain)+len(c.Outputs.Secret) > 0 {
			text, _ := json.Marshal(c.Outputs)
			line("  gives %s", text)
		}
	}
	for _, c := range all {
		for _, name := range keysOf(c.Files) {
			if c.Files[name] == nil {
				line("\n%s removes %s", c.Name, name)
				continue
			}
			line("\n%s writes %s\n%s", c.Name, name, strings.TrimSuffix(string(c.Files[name]), "\n"))
		}
	}
	if err != nil {
		line("error: %v", err)
		for _, one := range flat(err) {
			var fixed interface{ Fix() string }
			if errors.As(one, &fixed) {
				line("fix: %s", fixed.Fix())
			}
		}
	}
	return b.String()
}

// flat are the single errors of a joined one.
func flat(err error) []error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, flat(one)...)
	}
	return all
}

func list(word string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return word + strings.Join(names, ", ")
}

func TestSealedFilesOfTheTestsLookSealed(t *testing.T) {
	if !seal.IsSealed([]byte(sealedHead)) {
		t.Error("they do not")
	}
}

// TestASecretIsNeverPartOfADigest changes a secret and, apart from that, what git keeps of it.
func TestASecretIsNeverPartOfADigest(t *testing.T) {
	digests := func(secret, stored string) []string {
		repo, _, _ := read(t, "testdata/secrets.txtar")
		changes := map[string][]byte{"packages/db/values.secret.yaml": []byte("password: " + secret + "\n")}
		for range 2 { // the second time, the sealed values are in place
			all, err := All(world(t, overlay.New(repo, changes)), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				for name, text := range c.Files {
					changes[name] = text
				}
			}
		}
		w := world(t, overlay.New(repo, changes))
		w.Stored = func(name string) (string, error) { return stored + name, nil }
		all, err := All(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, c := range all {
			for _, s := range c.Steps {
				list = append(list, s.Digest)
			}
		}
		return list
	}
	if diff := cmp.Diff(digests("hunter2", "a"), digests("hunter3", "a")); diff != "" {
		t.Errorf("the secret is in a digest: %s", diff)
	}
	before, after := digests("hunter2", "a"), digests("hunter2", "b")
	if slices.Equal(before, after) {
		t.Error("what git keeps is in no digest")
	}
}
