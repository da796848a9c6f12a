package packages_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/packages"
)

var update = flag.Bool("update", false, "write golden files and the published schema anew")

// folder is a package of this document, with the folders that its steps name.
func folder(document string) fstest.MapFS {
	return fstest.MapFS{
		"package.yaml":       {Data: []byte(document)},
		"chart/Chart.yaml":   {Data: []byte("name: x\n")},
		"module/main.tf":     {Data: []byte("\n")},
		"manifests/all.yaml": {Data: []byte("{}\n")},
		"notes/readme.txt":   {Data: []byte("x")},
	}
}

const head = "apiVersion: plural.sh/v1alpha1\nkind: Package\nmetadata: {name: web}\nspec:\n  version: 1.2.3\n"

// TestEveryMistakeHasItsPlaceAndFix compares each document of testdata/mistakes.txtar with the mistakes that stand under it.
func TestEveryMistakeHasItsPlaceAndFix(t *testing.T) {
	const golden = "testdata/mistakes.txtar"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		document, want := archive.Files[i], &archive.Files[i+1]
		t.Run(strings.TrimSuffix(document.Name, ".yaml"), func(t *testing.T) {
			_, err := packages.Load(folder(string(document.Data)))
			var mistakes fleet.Errors
			if err != nil && !errors.As(err, &mistakes) {
				t.Fatalf("%v is no list of mistakes", err)
			}
			got := ""
			if err != nil {
				got = err.Error() + "\n"
			}
			if *update {
				want.Data = []byte(got)
			}
			if d := cmp.Diff(string(want.Data), got); d != "" {
				t.Error(d)
			}
		})
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFolderWithoutAPackageIsToldSo(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"nothing":   {},
		"empty":     {"package.yaml": {Data: []byte("# nothing\n")}},
		"two":       {"package.yaml": {Data: []byte(head + "---\n" + head)}},
		"elsewhere": {"package.yaml": {Data: []byte("apiVersion: plural.sh/v1alpha1\nkind: Installation\nmetadata: {name: x}\n")}},
		"version":   {"package.yaml": {Data: []byte("apiVersion: v1\nkind: Package\n")}},
		"long":      {"package.yaml": {Data: []byte(head + strings.Repeat("#", packages.MaxFile))}},
		"no YAML":   {"package.yaml": {Data: []byte("a: [\n")}},
	} {
		_, err := packages.Load(files)
		if mistakes := fleet.Errors(nil); !errors.As(err, &mistakes) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPackageThatIsADeviceIsNotOpened(t *testing.T) {
	device := fstest.MapFS{packages.File: {Data: []byte(head), Mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}}
	_, err := packages.Load(device)
	const want = "package.yaml: not a regular file: put the file itself here"
	if mistakes := fleet.Errors(nil); !errors.As(err, &mistakes) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNeedsFollowWhatIsRead(t *testing.T) {
	p, err := packages.Load(folder(head + `
  steps:
  - {name: vpc, terraform: {path: module}}
  - {name: db, needs: [vpc], terraform: {path: module, inputs: {net: ["${steps.vpc.outputs.id}"]}}}
  - {name: app, when: "${steps.vpc.outputs.ok}", helm: {path: chart, values: {host: "x ${steps.db.outputs.host}"}}}
  - {name: ready, wait: {services: [app]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for step, want := range map[string][]string{"vpc": nil, "db": {"vpc"}, "app": {"vpc", "db"}, "ready": {"app"}, "none": nil} {
		if d := cmp.Diff(want, p.Needs(step)); d != "" {
			t.Errorf("%s: %s", step, d)
		}
	}
}

func TestBreakingVersionsAreThoseThatAnUpgradeCrosses(t *testing.T) {
	p, err := packages.Load(folder(strings.Replace(head, "1.2.3", "3.1.0", 1) +
		"  breaking: [{since: 3.0.0, note: three}, {since: 2.0.0, note: two}, {since: 4.0.0, note: four}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"1.9.9": "two three", "2.0.0": "three", "2.0.0-rc.1": "two three", "3.0.0": "", "3.1.0": "", "5.0.0": "", "x": ""} {
		var notes []string
		for _, b := range p.BreakingFrom(from) {
			notes = append(notes, b.Note)
		}
		if got := strings.Join(notes, " "); got != want {
			t.Errorf("from %s: %q", from, got)
		}
	}
}

func TestANewPackageIsInOrder(t *testing.T) {
	files, err := packages.Scaffold("my-app")
	if err != nil {
		t.Fatal(err)
	}
	made := fstest.MapFS{}
	for name, data := range files {
		made[name] = &fstest.MapFile{Data: data}
	}
	problems, err := packages.Lint(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p.Error)
	}
}

func TestAdviceIsNoMistake(t *testing.T) {
	files := folder(head + `
  questions:
  - {name: adminPassword, type: string, default: x}
  - {name: lost, type: string, prompt: "Lost?"}
  - {name: size, type: int}
  steps:
  - {name: net, terraform: {path: module, inputs: {p: "${answers.adminPassword}", n: "${answers.size}"}}}
  - {name: app, helm: {path: chart, values: {image: "nginx:latest"}}}
  outputs: {host: {value: x}}
`)
	problems, err := packages.Lint(files)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		if !p.Advice {
			t.Errorf("a mistake: %v", p.Error)
		}
		got = append(got, p.Error.Message)
	}
	want := []string{
		"there is no README.md", "there is no description", `question "adminPassword" sounds like a secret`, `nothing reads the answer to "lost"`,
		`question "size" has no prompt`, "any version of terraform would be taken", "the chart goes into no namespace of its own",
		`image "nginx:latest" means another one every day`, `output "host" does not say what it is`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTheDigestIsOfPathsAndContents(t *testing.T) {
	base := fstest.MapFS{"a": {Data: []byte("1")}, "b/c": {Data: []byte("2")}}
	digest := func(files fs.FS) string {
		d, err := packages.Digest(files)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(base)
	const known = "sha256:"
	if !strings.HasPrefix(want, known) || len(want) != len(known)+64 {
		t.Errorf("digest %s", want)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"a": 0o640, "b/c": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), base[name].Data, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := digest(os.DirFS(dir)); got != want {
		t.Errorf("on disk %s, in memory %s", got, want)
	}
	for name, other := range map[string]fstest.MapFS{
		"content":    {"a": {Data: []byte("x")}, "b/c": base["b/c"]},
		"name":       {"A": base["a"], "b/c": base["b/c"]},
		"one less":   {"a": base["a"]},
		"moved text": {"a": {Data: []byte("12")}, "b/c": {}},
	} {
		if digest(other) == want {
			t.Errorf("another %s, the same digest", name)
		}
	}
}

func TestWhatNoPackageMayHoldIsRefused(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"a link":           {"a": {Mode: fs.ModeSymlink}},
		"a device":         {"a": {Mode: fs.ModeDevice}},
		"git's attributes": {"x/.gitattributes": {}},
		"a repository":     {"x/.GIT/config": {}},
		"a line break":     {"a\nb": {}},
		"a direction mark": {"a\u202eb": {}},
		"a backslash":      {`a\b`: {}},
		"a stream":         {"a:b": {}},
		"no UTF-8":         {"a\xff": {}},
		"a long path":      {strings.Repeat("a/", 300) + "b": {}},
		"a large file":     {"a": {Data: make([]byte, packages.MaxContent+1)}},
		"an executable":    {"a": {Mode: 0o755}},
		"names alike":      {"a/B": {}, "A/b": {}},
		"what is sealed":   {"a/b.secret.yaml": {}},
	} {
		_, err := packages.Digest(files)
		if mistakes := fleet.Errors(nil); !errors.As(err, &mistakes) || strings.ContainsAny(err.Error(), "\u202e") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPackageHasAnEnd(t *testing.T) {
	large := fstest.MapFS{}
	for i := range packages.MaxBytes/packages.MaxContent + 1 {
		large[fmt.Sprint(i)] = &fstest.MapFile{Data: make([]byte, packages.MaxContent)}
	}
	many := fstest.MapFS{}
	for i := range packages.MaxFiles + 1 {
		many[fmt.Sprint(i)] = &fstest.MapFile{}
	}
	for name, files := range map[string]fstest.MapFS{"large": large, "many": many} {
		if _, err := packages.Contents(files); err == nil || !strings.Contains(err.Error(), "the package holds more than") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/mistakes.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		f.Add(archive.Files[i].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := folder(string(data))
		p, err := packages.Load(files)
		problems, lintErr := packages.Lint(files)
		if lintErr != nil {
			t.Fatal(lintErr)
		}
		if err != nil {
			if mistakes := fleet.Errors(nil); !errors.As(err, &mistakes) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, problem := range problems {
			if !problem.Advice {
				t.Errorf("lint finds %v, load does not", problem.Error)
			}
		}
		if _, err := p.Answers(nil, nil); err != nil && strings.Contains(err.Error(), "\x00") {
			t.Error(err)
		}
		for i := range p.Spec.Steps {
			p.Needs(p.Spec.Steps[i].Name)
		}
	})
}

func TestWhatIsReadFromASecretIsOne(t *testing.T) {
	for output, want := range map[string]map[string]bool{"called": {"v1 ConfigMap": true, "v1 Secret": true, "acme.io/v1 Secret": true}, "other": {"v1 Secret": true}} {
		for _, kind := range []string{"v1 ConfigMap", "v1 Secret", "acme.io/v1 Secret"} {
			o := packages.WaitObject{SecretOutputs: []string{"called"}}
			o.APIVersion, o.Kind, _ = strings.Cut(kind, " ")
			if got := o.Secret(output); got != want[kind] {
				t.Errorf("%s of a %s: %v", output, kind, got)
			}
		}
	}
}
