package resolve

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/api/bundle"
)

// only is the service web of that spec, on the cluster c.
func only(t testing.TB, spec string, contents map[string]string) Deployment {
	t.Helper()
	all := map[string]string{"plural.yaml": workspaceYAML, "clusters/c.yaml": cluster("c", "{}")}
	maps.Copy(all, contents)
	all["services/web.yaml"] = service("web", "{clusters: {names: [c]}, "+spec+"}")
	snap := committed(t, all)
	list, err := For(load(t, snap), "c", repos{"": snap})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d deployments, %v", len(list), err)
	}
	return list[0]
}

// carried is what an agent unpacks of a deployment's bundle, which it has found to be the one that was promised.
func carried(t testing.TB, d Deployment) map[string]string {
	t.Helper()
	if d.Hold != nil {
		t.Fatal(d.Hold)
	}
	var packed bytes.Buffer
	if err := bundle.Pack(&packed, d.Snapshot.FS(), d.Inputs, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	files, err := bundle.Unpack(&packed, bundle.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if key, err := files.Key(d.Inputs); err != nil || key != d.Bundle {
		t.Fatalf("the agent finds %q, %v; it was promised %q", key, err, d.Bundle)
	}
	content := map[string]string{}
	for _, e := range files.Entries() {
		text, err := fs.ReadFile(files, e.Path)
		if err != nil {
			t.Fatal(err)
		}
		content[e.Path] = string(text)
	}
	return content
}

func TestABundleHoldsWhatLinksLeadToInTheirPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		spec            string
		contents, wants map[string]string
	}{
		"manifests": {
			"source: {path: web}",
			map[string]string{
				"web/a.yaml": "link:../base/a.yaml", "web/more": "link:../base/deep", "web/chain.yaml": "link:a.yaml",
				"base/a.yaml": "a", "base/deep/b.yaml": "b", "base/deep/c.yaml": "link:../../other/c.yaml", "other/c.yaml": "c", "base/unseen.yaml": "x",
			},
			map[string]string{"web/a.yaml": "a", "web/chain.yaml": "a", "web/more/b.yaml": "b", "web/more/c.yaml": "c"},
		},
		"the service's folder itself": {
			"source: {path: now/web}",
			map[string]string{"now": "link:v2", "v2/web/a.yaml": "a", "v1/web/a.yaml": "old"},
			map[string]string{"now/web/a.yaml": "a"},
		},
		"kustomizations": {
			"source: {path: web}",
			map[string]string{
				"web/kustomization.yaml": "link:../common/k.yaml", "web/base": "link:../base", "web/patch.yaml": "link:../common/p.yaml",
				"common/k.yaml": "resources: [base]\npatches: [{path: patch.yaml}]\n", "common/p.yaml": "p",
				"base/kustomization.yaml": "resources: [x.yaml]\n", "base/x.yaml": "x", "base/unread.yaml": "",
			},
			map[string]string{
				"web/kustomization.yaml": "resources: [base]\npatches: [{path: patch.yaml}]\n", "web/patch.yaml": "p",
				"web/base/kustomization.yaml": "resources: [x.yaml]\n", "web/base/x.yaml": "x",
			},
		},
		"a chart": {
			"source: {path: web}, helm: {valuesFiles: [web/prod.yaml]}",
			map[string]string{
				"web/Chart.yaml": chartYAML, "web/prod.yaml": "link:../values/prod.yaml", "values/prod.yaml": "v: 1",
				"web/charts": "link:../vendored", "vendored/lib/Chart.yaml": chartYAML, "web/ci/broken.yaml": "link:../../gone",
				"web/.helmignore": "# comment\nignored/\n*.bak\n", "web/ignored/link": "link:/etc/passwd", "web/old.bak": "link:gone",
				"web/templates/kept.bak.yaml": "t",
			},
			map[string]string{
				"web/Chart.yaml": chartYAML, "web/prod.yaml": "v: 1", "web/charts/lib/Chart.yaml": chartYAML,
				"web/.helmignore": "# comment\nignored/\n*.bak\n", "web/templates/kept.bak.yaml": "t",
			},
		},
		"values by way of a link": {
			"source: {path: web}, helm: {valuesFiles: [values/prod.yaml]}",
			map[string]string{"web/Chart.yaml": chartYAML, "values": "link:envs/values", "envs/values/prod.yaml": "v: 1", "envs/values/x": ""},
			map[string]string{"web/Chart.yaml": chartYAML, "values/prod.yaml": "v: 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.wants, carried(t, only(t, test.spec, test.contents))); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAKeyChangesWithWhatALinkLeadsToAndNothingElse(t *testing.T) {
	before := map[string]string{
		"web/a.yaml": "link:../base/a.yaml", "web/deep": "link:../base/deep", "base/a.yaml": "a", "base/deep/b.yaml": "b", "base/x.yaml": "x",
		"again.yaml": "a",
	}
	was := only(t, "source: {path: web}", before)
	if diff := cmp.Diff([]string{"base/a.yaml", "base/deep"}, was.Links); diff != "" {
		t.Error(diff)
	}
	for name, test := range map[string]struct {
		change map[string]string
		same   bool
	}{
		"file":                       {map[string]string{"base/a.yaml": "b"}, false},
		"file below":                 {map[string]string{"base/deep/b.yaml": "c"}, false},
		"new file below":             {map[string]string{"base/deep/c.yaml": "c"}, false},
		"target":                     {map[string]string{"web/a.yaml": "link:../base/x.yaml"}, false},
		"file beside":                {map[string]string{"base/x.yaml": "y"}, true},
		"target of the same content": {map[string]string{"web/a.yaml": "link:../again.yaml"}, true},
		"a copy in the link's place": {map[string]string{"web/a.yaml": "a"}, true},
	} {
		after := maps.Clone(before)
		maps.Copy(after, test.change)
		if now := only(t, "source: {path: web}", after); (now.Key == was.Key) != test.same || now.Hold != nil {
			t.Errorf("%s: the key is the same: %v, want %v; %v", name, !test.same, test.same, now.Hold)
		}
	}
}

func TestALinkThatLeadsNowhereHoldsAServiceOnlyWhereItWouldBeMissed(t *testing.T) {
	kustomization := "resources: [x.yaml]\n"
	for name, test := range map[string]struct {
		spec     string
		contents map[string]string
		// warning and hold are a part of the words; neither: nothing is said.
		warning, hold string
	}{
		"a file that raw does not read": {"source: {path: web}", map[string]string{"web/a.yaml": "a", "web/notes.txt": "link:gone"}, `"web/notes.txt" is left out`, ""},
		"a hidden file":                 {"source: {path: web}", map[string]string{"web/a.yaml": "a", "web/.env.yaml": "link:gone"}, "", ""},
		"an excluded manifest":          {"source: {path: web}, exclude: [b.yaml]", map[string]string{"web/a.yaml": "a", "web/b.yaml": "link:gone"}, "", ""},
		"a manifest": {
			"source: {path: web}",
			map[string]string{"web/a.yaml": "a", "web/b.yaml": "link:../../gone"},
			"",
			`web/b.yaml: service web: "web/b.yaml" is a symbolic link to "../../gone", which leads out of the repository: put what it should lead to in its place, or leave it out: exclude: ["/b.yaml"]`,
		},
		"a chart's README":    {"source: {path: web}", map[string]string{"web/Chart.yaml": chartYAML, "web/README.md": "link:/tmp/x"}, `"web/README.md" is left out: "web/README.md" is a symbolic link to "/tmp/x"`, ""},
		"a chart's template":  {"source: {path: web}", map[string]string{"web/Chart.yaml": chartYAML, "web/templates/x.yaml": "link:gone"}, "", "leads to nothing"},
		"a subchart's values": {"source: {path: web}", map[string]string{"web/Chart.yaml": chartYAML, "web/charts/a/values.yaml": "link:gone"}, "", "leads to nothing"},
		"a subchart's notes":  {"source: {path: web}", map[string]string{"web/Chart.yaml": chartYAML, "web/charts/a/notes": "link:gone"}, "web/charts/a/notes", ""},
		"a file nobody refers to": {
			"source: {path: web}", map[string]string{"web/kustomization.yaml": kustomization, "web/x.yaml": "x", "web/y.yaml": "link:gone"}, "", "",
		},
		"a file that a kustomization names": {
			"source: {path: web}",
			map[string]string{"web/kustomization.yaml": kustomization, "web/x.yaml": "link:/etc/hosts"},
			"",
			`web/kustomization.yaml:1:13: service web: resources: "web/x.yaml" is a symbolic link to "/etc/hosts"`,
		},
		"a file that the service names":    {"source: {path: web}, include: [extra]", map[string]string{"web/a.yaml": "a", "extra": "link:gone"}, "", "leads to nothing"},
		"a file in a folder that it names": {"source: {path: web}, include: [extra]", map[string]string{"web/a.yaml": "a", "extra/x": "link:gone"}, `"extra/x" is left out`, ""},
		"the service's folder":             {"source: {path: web}", map[string]string{"web": "link:web", "a": ""}, "", "round in a circle"},
		"a folder that it is in":           {"source: {path: apps/web}", map[string]string{"apps/web/a.yaml": "a", "apps/web/up": "link:.."}, "is a folder that the link itself is in", ""},
		"a folder that it is in, later": {
			"source: {path: apps/web}",
			map[string]string{"apps/web/a.yaml": "a", "apps/web/other": "link:../other", "apps/other/back": "link:../web"},
			"is a folder that the link itself is in", "",
		},
		"a path that means another file": {
			"source: {path: over/web}",
			map[string]string{
				"over/web/kustomization.yaml": "resources: [base]\n", "over/web/base": "link:../../base",
				"base/kustomization.yaml": "resources: [../common]\n", "common/kustomization.yaml": "{}",
			},
			"", `base/kustomization.yaml:1:13: service web: resources: "../common" is another path from "over/web/base", where a symbolic link has this folder seen: refer to "base" itself`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := only(t, test.spec, test.contents)
			said := ""
			if d.Hold != nil {
				said = d.Hold.Error()
			} else {
				carried(t, d)
			}
			if !strings.Contains(said, test.hold) || (said == "") != (test.hold == "") {
				t.Errorf("held: %s, want %s", said, test.hold)
			}
			warnings := strings.Join(d.Warnings, "\n")
			if !strings.Contains(warnings, test.warning) || (warnings == "") != (test.warning == "") {
				t.Errorf("warnings: %s, want %s", warnings, test.warning)
			}
		})
	}
}

func TestLinksCannotMakeABundleOfMoreThanItsBounds(t *testing.T) {
	farm := map[string]string{"web/a.yaml": "a", "web/in": "link:../farm0"}
	for i := range 20 { // 2^20 files by way of 40 links
		for _, side := range []string{"l", "r"} {
			farm[fmt.Sprintf("farm%d/%s", i, side)] = fmt.Sprintf("link:../farm%d", i+1)
		}
	}
	farm["farm20/x.yaml"] = "x"
	large := map[string]string{"web/a.yaml": "a", "large/x.yaml": strings.Repeat("x", 20<<20)}
	folders := maps.Clone(large)
	for i := range 8 {
		large[fmt.Sprintf("web/%d.yaml", i)] = "link:../large/x.yaml"
		folders[fmt.Sprintf("web/%d", i)] = "link:../large"
	}
	many := map[string]string{"web/a.yaml": "a"}
	for i := range maxFollowed + 1 {
		many[fmt.Sprintf("web/%d.yaml", i)] = "link:a.yaml"
	}
	for name, test := range map[string]struct {
		spec, hold string
		contents   map[string]string
	}{
		"files":   {"source: {path: web}", "more than 1000 symbolic links", farm},
		"bytes":   {"source: {path: web}", "what symbolic links lead to has more than 128 MiB", large},
		"folders": {"source: {path: web}, renderer: cue", "what symbolic links lead to has more than 128 MiB", folders},
		"links":   {"source: {path: web}", "more than 1000 symbolic links", many},
	} {
		t.Run(name, func(t *testing.T) {
			contents := maps.Clone(test.contents)
			contents["plural.yaml"] = strings.Replace(workspaceYAML, "spec: {}", "spec: {plugins: [{name: cue}]}", 1)
			if d := only(t, test.spec, contents); d.Hold == nil || !strings.Contains(d.Hold.Error(), test.hold) {
				t.Errorf("held: %v, want %s", d.Hold, test.hold)
			}
		})
	}
}
