package compose

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/overlay"
	"github.com/pluralsh/plural/workspace/packages"
)

const webPackage = header + "kind: Package\nmetadata: {name: web}\nspec:\n  version: 1.0.0\n  steps: [{name: a, manifests: {path: m}}]\n"

func TestAPackageIsVendoredAsItIs(t *testing.T) {
	payload := fstest.MapFS{"package.yaml": file(webPackage), "m/a.yaml": file("a: b\n"), "m/empty": file("")}
	got, err := Vendor(payload, "web")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"packages/web/payload/package.yaml": []byte(webPackage), "packages/web/payload/m/a.yaml": []byte("a: b\n"), "packages/web/payload/m/empty": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	repo := overlay.New(fstest.MapFS{}, got)
	inRepo, err := fs.Sub(repo, Payload("web"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := packages.Digest(payload)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := packages.Digest(inRepo); err != nil || after != before {
		t.Errorf("the digest becomes %s, %v", after, err)
	}
}

func TestWhatTheRepoWouldNotKeepIsNotVendored(t *testing.T) {
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"sealed":         {fstest.MapFS{"a/b.secret.yaml": file("x")}, "a/b.secret.yaml: it would be sealed"},
		"ignored":        {fstest.MapFS{"a/.gitignore": file("x")}, "a/.gitignore: a file of git itself"},
		"attributes":     {fstest.MapFS{".gitattributes": file("x")}, ".gitattributes: a file of git itself"},
		"executable":     {fstest.MapFS{"run.sh": {Data: []byte("x"), Mode: 0o755}}, "run.sh: an executable, which the installation repo does not keep as one: chmod -x"},
		"link":           {fstest.MapFS{"l": {Data: []byte("/etc"), Mode: fs.ModeSymlink}}, "l: not a regular file"},
		"large":          {fstest.MapFS{"l": file(strings.Repeat("x", packages.MaxContent+1))}, "larger than 3 MiB"},
		"alike":          {fstest.MapFS{"A.yaml": file("x"), "a.yaml": file("y")}, `not every machine can tell it from "A.yaml"`},
		"hostile name":   {fstest.MapFS{"a\nb": file("x")}, "characters that cannot be shown"},
		"Windows":        {fstest.MapFS{`a\b`: file("x")}, "not every machine can hold"},
		"inside of .git": {fstest.MapFS{".git/config": file("x")}, "a file of git itself"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Vendor(test.files, "web"); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestAnUpgradeKeepsWhatPeopleChanged(t *testing.T) {
	version := func(v string, files map[string]string) fstest.MapFS {
		m := fstest.MapFS{"package.yaml": file(strings.Replace(webPackage, "1.0.0", v, 1))}
		for name, text := range files {
			m[name] = file(text)
		}
		return m
	}
	base := version("1.0.0", map[string]string{"m/a.yaml": "a: 1\nb: 2\nc: 3\n", "m/gone.yaml": "x\n", "m/both.yaml": "x\n"})
	next := version("1.1.0", map[string]string{"m/a.yaml": "a: 1\nb: 2\nc: 30\n", "m/new.yaml": "y\n", "m/both.yaml": "theirs\n"})
	repo := fstest.MapFS{}
	for name, f := range version("1.0.0", map[string]string{"m/a.yaml": "a: 10\nb: 2\nc: 3\n", "m/gone.yaml": "x\n", "m/own.yaml": "z\n", "m/both.yaml": "ours\n"}) {
		repo[Payload("web")+"/"+name] = f
	}
	changes, conflicts, err := Upgrade(repo, "web", base, next)
	if err != nil {
		t.Fatal(err)
	}
	p := Payload("web") + "/"
	want := map[string][]byte{
		p + "package.yaml": next["package.yaml"].Data, p + "m/a.yaml": []byte("a: 10\nb: 2\nc: 30\n"), p + "m/gone.yaml": nil, p + "m/new.yaml": []byte("y\n"),
		p + "m/both.yaml": []byte("<<<<<<< yours\nours\n||||||| web 1.0.0\nx\n=======\ntheirs\n>>>>>>> web 1.1.0\n"),
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{p + "m/both.yaml"}, conflicts); diff != "" {
		t.Error(diff)
	}
	if changes, _, err := Upgrade(overlay.New(repo, changes), "web", next, next); err != nil || len(changes) > 0 {
		t.Errorf("an upgrade to itself changes %v, %v", changes, err)
	}
	next["m/x.secret.yaml"] = file("x")
	if _, _, err := Upgrade(repo, "web", base, next); err == nil {
		t.Error("what would not be kept is upgraded to")
	}
}

func TestWhatStepsGiveIsLearnedStepByStep(t *testing.T) {
	repo := start()
	learn := func(step string, given Values) {
		t.Helper()
		files, err := Learn(repo, "db", step, given)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if repo[name] = file(string(text)); text == nil {
				delete(repo, name)
			}
		}
	}
	learn("make", Values{Plain: map[string]any{"id": "vpc", "n": 3.0, "f": 0.5, "list": []any{1.0}}, Secret: map[string]any{"key": "s3cret"}})
	learn("other", Values{})
	learn("third", Values{Secret: map[string]any{"only": "x"}})
	learn("third", Values{Plain: map[string]any{"now": true}})
	got := map[string]string{}
	for name, f := range repo {
		if strings.HasPrefix(name, "packages/db/") {
			got[strings.TrimPrefix(name, "packages/db/")] = strings.TrimPrefix(string(f.Data), outputsHeader)
		}
	}
	want := map[string]string{
		"outputs.yaml":             "steps:\n  make:\n    f: 0.5\n    id: vpc\n    list:\n      - 1\n    \"n\": 3\n  other: {}\n  third:\n    now: true\nsecret:\n  make:\n    - key\n",
		"make.outputs.secret.yaml": "key: s3cret\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// fleetOf makes a repository with so many packages, each upon two before it.
func fleetOf(n int) fstest.MapFS {
	repo := maps.Clone(start())
	for i := range n {
		name := fmt.Sprintf("p%03d", i)
		dependencies := ""
		if i > 0 {
			dependencies = fmt.Sprintf("  dependencies: [{package: p%03d, version: \">=1\"}, {name: other, package: p%03d}]\n", i/2, i-1)
		}
		repo["packages/"+name+"/package.yaml"] = file(header + "kind: Installation\nmetadata: {name: " + name + "}\n")
		repo["packages/"+name+"/values.yaml"] = file("host: " + name + ".example.com\n")
		repo[Payload(name)+"/package.yaml"] = file(header + "kind: Package\nmetadata: {name: " + name + "}\nspec:\n  version: 1.0.0\n" + dependencies + `  questions:
    - {name: host, type: string, pattern: "^[a-z0-9.]+$"}
    - {name: replicas, type: int, default: 2, min: 1}
    - {name: size, type: enum, options: [small, large], default: small}
  steps:
    - name: crds
      manifests: {path: crds}
    - name: chart
      needs: [crds]
      helm: {path: chart, namespace: apps, values: {host: "${answers.host}", replicas: "${answers.replicas}", url: "https://${answers.host}/", large: "${answers.size == 'large'}"}}
    - name: ready
      needs: [chart]
      wait: {services: [chart], http: {url: "https://${answers.host}/healthz"}}
  outputs: {url: {value: "https://${answers.host}"}}
`)
		repo[Payload(name)+"/crds/a.yaml"] = file("a: b\n")
		repo[Payload(name)+"/chart/Chart.yaml"] = file("apiVersion: v2\nname: x\nversion: 1.0.0\n")
		repo[Payload(name)+"/chart/templates/a.yaml"] = file(strings.Repeat("# a template\n", 200))
	}
	return repo
}

// BenchmarkCompose composes a fleet of 500 packages from nothing but its files.
func BenchmarkCompose(b *testing.B) {
	dir := b.TempDir()
	if err := os.CopyFS(dir, fleetOf(500)); err != nil {
		b.Fatal(err)
	}
	repo := os.DirFS(dir)
	for b.Loop() {
		b.StopTimer()
		w := world(b, repo)
		b.StartTimer()
		all, err := All(w, nil)
		if err != nil || len(all) != 500 {
			b.Fatal(len(all), err)
		}
	}
	fmt.Fprintf(os.Stdout, "bench compose_500_packages_ms %.0f ms\n", b.Elapsed().Seconds()*1000/float64(b.N))
}

func TestAFleetOfManyPackagesComposesInOrder(t *testing.T) {
	all, err := All(world(t, fleetOf(60)), nil)
	if err != nil || len(all) != 60 {
		t.Fatal(len(all), err)
	}
	seen := map[string]bool{}
	for _, c := range all {
		for _, by := range c.DependsOn {
			if !seen[by] {
				t.Errorf("%s comes before %s", c.Name, by)
			}
		}
		seen[c.Name] = true
	}
}
