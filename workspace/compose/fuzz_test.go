package compose

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/lockfile"
	"github.com/pluralsh/plural/workspace/packages"
)

// FuzzCompose composes whatever somebody calls a package, with whatever somebody answers.
func FuzzCompose(f *testing.F) {
	for _, name := range []string{"secrets", "clusters", "errors"} {
		repo, _, _ := read(f, "testdata/"+name+".txtar")
		for path, file := range repo {
			if dir, ok := strings.CutSuffix(path, "/payload/package.yaml"); ok {
				var values, services []byte
				if v := repo[dir+"/values.yaml"]; v != nil {
					values = v.Data
				}
				if v := repo[dir+"/services.yaml"]; v != nil {
					services = v.Data
				}
				f.Add(file.Data, values, services)
			}
		}
	}
	base := start()
	parsed, err := fleet.Load(base)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pkg, values, services []byte) {
		repo := maps.Clone(base)
		for name, text := range map[string][]byte{
			"package.yaml": []byte("x"), "values.yaml": values, "values.secret.yaml": []byte("password: hunter2\ntoken: hunter2\n"),
			"services.yaml": services, "outputs.yaml": values, "payload/package.yaml": pkg, "payload/m/a.yaml": nil, "payload/m/a.tf": nil,
			"payload/tf/a.tf": nil, "payload/chart/Chart.yaml": nil, "payload/manifests/a.yaml": nil,
		} {
			repo["packages/x/"+name] = &fstest.MapFile{Data: text}
		}
		p, err := packages.Parse(pkg)
		if err != nil {
			return
		}
		fl := *parsed
		fl.Installations = []fleet.Installation{{Metadata: fleet.Metadata{Name: "x"}, Spec: fleet.InstallationSpec{Package: p.Metadata.Name}}}
		lock := &lockfile.Lock{Packages: []lockfile.Entry{{Name: "x", Package: p.Metadata.Name, Version: p.Spec.Version}}}
		for _, blind := range []bool{false, true} {
			c, err := Installation(&World{Fleet: &fl, Repo: repo, Lock: lock, Blind: blind}, "x", nil)
			if err != nil {
				if strings.Contains(err.Error(), "hunter2") && !strings.Contains(string(pkg)+string(values)+string(services), "hunter") {
					t.Errorf("an error tells a secret: %v", err)
				}
				continue
			}
			for name, text := range c.Files {
				clear := !strings.HasSuffix(name, ".secret.yaml")
				if clear && strings.Contains(string(text), "hunter2") && !strings.Contains(string(pkg)+string(values)+string(services), "hunter") {
					t.Errorf("%s holds a secret: %s", name, text)
				}
			}
		}
	})
}
