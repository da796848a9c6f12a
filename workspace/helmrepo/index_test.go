package helmrepo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const helmIndex = `apiVersion: v1
entries:
  alpine:
  - created: "2016-10-06T16:23:20.499814565-06:00"
    description: Deploy a basic Alpine Linux pod
    digest: 99c76e403d752c84ead610644d4b1c2f2b453a74b921f422b9dcb8a7c8b559cd
    name: alpine
    urls:
    - https://charts.example.com/alpine-0.2.0.tgz
    version: 0.2.0
  - digest: sha256:515c58e5f79d8b2913a10cb400ebb6fa9c77fe813287afbacf1a0b897cd78727
    description: |-
      Many lines
      - of text
      version: 9.9.9

      # no comment
    name: alpine
    urls:
    - alpine-0.1.0.tgz
    - https://mirror.example.com/alpine-0.1.0.tgz
    version: 0.1.0
  nginx:
  - name: nginx
    urls: [nginx-1.10.tgz]
    version: 1.10
  - name: nginx
    removed: true
    version: 1.9.0
  other:
  - version: 7.0.0
generated: "2016-10-06T16:23:20.499029981-06:00"
`

func wantedOf(names ...string) map[string]bool {
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	return wanted
}

// releases is what was read, or the error.
func releases(t testing.TB, text string, wanted ...string) map[string][]release {
	t.Helper()
	charts, err := readIndex(strings.NewReader(text), wantedOf(wanted...))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]release{}
	for name, list := range charts {
		got[name] = list.releases
		if list.skipped != nil {
			t.Errorf("%s: %v", name, list.skipped)
		}
	}
	return got
}

func TestAnIndexIsReadInEveryFormThatServersWrite(t *testing.T) {
	want := map[string][]release{
		"alpine": {
			{
				Version: "0.2.0", URLs: []string{"https://charts.example.com/alpine-0.2.0.tgz"},
				Digest: "99c76e403d752c84ead610644d4b1c2f2b453a74b921f422b9dcb8a7c8b559cd",
			},
			{
				Version: "0.1.0", URLs: []string{"alpine-0.1.0.tgz", "https://mirror.example.com/alpine-0.1.0.tgz"},
				Digest: "sha256:515c58e5f79d8b2913a10cb400ebb6fa9c77fe813287afbacf1a0b897cd78727",
			},
		},
		"nginx": {{Version: "1.10", URLs: []string{"nginx-1.10.tgz"}}},
	}
	var tree any
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(helmIndex, "version: 1.10", `version: "1.10"`)), &tree); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.MarshalIndent(tree, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	var wide bytes.Buffer
	encoder := yaml.NewEncoder(&wide)
	encoder.SetIndent(7)
	if err := encoder.Encode(tree); err != nil {
		t.Fatal(err)
	}
	flow, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	lists := "  - created: x\n  - created: y"
	for name, text := range map[string]string{
		"helm": helmIndex, "json": string(encoded), "wide": wide.String(), "flow": "# a comment\n" + string(flow),
		"crlf": strings.ReplaceAll(helmIndex, "\n", "\r\n"), "document": "---\n" + helmIndex + "---\nentries: {}\n", "mark": "\ufeff" + helmIndex,
		"quoted":  strings.NewReplacer("  alpine:", `  "alpine": # a comment`, "  nginx:", "  'nginx':", "entries:", `"entries":`).Replace(helmIndex),
		"around":  "annotations:\n- a: b\n  c: d\nmore:\n" + lists + "\n" + helmIndex + "serverInfo: {}\n",
		"compact": strings.ReplaceAll(strings.ReplaceAll(helmIndex, "  - ", "  -   "), "    ", "      "),
		"anchor":  strings.ReplaceAll(helmIndex, "entries:", "entries: !!map"),
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, releases(t, text, "alpine", "nginx", "missing")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnUnreadableVersionIsLeftOutAndNoted(t *testing.T) {
	text := "entries:\n  a:\n  - version: [1]\n  - version: 2.0.0\n  - {\n  - version: &x 3.0.0\n    home: *x\n" +
		"  - version: 4.0.0\n  - " + strings.Repeat("x", maxItem) + "\n  - version: 5.0.0\n"
	charts, err := readIndex(strings.NewReader(text), wantedOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range charts["a"].releases {
		got = append(got, r.Version)
	}
	if want := []string{"2.0.0", "4.0.0", "5.0.0"}; !cmp.Equal(got, want) {
		t.Errorf("versions = %q, want %q", got, want)
	}
	if err := charts["a"].skipped; err == nil || !strings.Contains(err.Error(), "index.yaml:3:") {
		t.Errorf("noted: %v", err)
	}
}

func TestWhatIsNoIndexSaysWhereAndWhy(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":        {"", "empty"},
		"blank":          {strings.Repeat("\n", 2*maxItem), "empty"},
		"page":           {"<html><body>Sign in</body></html>", "index"},
		"other yaml":     {"apiVersion: v1\nkind: List\n", "entries"},
		"other json":     {`{"apiVersion":"v1"}`, "entries"},
		"list":           {"- a\n- b\n", "index"},
		"twice":          {"entries: {}\nentries:\n  a:\n", "twice"},
		"chart twice":    {"entries:\n  a:\n  - version: 1\n  a:\n  - version: 2\n", "index.yaml:4"},
		"cut json":       {`{"entries":{"a":[{"version":"1.0.0"}`, "EOF"},
		"anchors":        {"entries:\n  a: &a\n  - version: 1.0.0\n  b: *a\n", "anchors"},
		"large, strange": {"entries: !!map\n" + strings.Repeat("  a: []\n", maxLoose/8), "index.yaml:1: is not laid out"},
		"deep json":      {`{"x":` + strings.Repeat("[", 1<<20), "deeper"},
		"long json":      {`{"x":"` + strings.Repeat("x", 1<<20), "one place"},
		"deep yaml":      {"x: !!a\nentries: !!map " + strings.Repeat("[", 2000) + strings.Repeat("]", 2000), ""},
		"versions":       {"entries:\n  a:\n" + strings.Repeat("  - version: 1\n", maxVersions+1), "versions of one chart"},
	} {
		t.Run(name, func(t *testing.T) {
			charts, err := readIndex(strings.NewReader(tc.text), wantedOf("a", "b"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("charts %v, error %v, want %q", charts, err, tc.want)
			}
		})
	}
}

func TestAliasBombsAreRefusedUnexpanded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	item := "  - version: 1.0.0\n    " + strings.ReplaceAll(strings.TrimSpace(bomb.String()), "\n", "\n    ") + "\n    urls: *a12\n"
	charts, err := readIndex(strings.NewReader(bomb.String()+"entries:\n  a:\n"+item), wantedOf("a"))
	if err != nil {
		t.Fatal(err)
	}
	if l := charts["a"]; len(l.releases) != 0 || l.skipped == nil || !strings.Contains(l.skipped.Error(), "anchors") {
		t.Errorf("bomb inside a version: %+v", l)
	}
	if _, err := readIndex(strings.NewReader(bomb.String()+"entries: {a: [*a12]}\n"), wantedOf("a")); err == nil {
		t.Error("a bomb in flow style was read")
	}
}

// largeIndex has the size and shape of the largest public ones: many charts with two hundred versions each.
func largeIndex(size int) []byte {
	const version = `  - annotations:
      category: Database
      images: |
%s    apiVersion: v2
    appVersion: %d.0.0
    created: "2026-01-01T00:00:00Z"
    dependencies:
    - name: common
      repository: oci://registry.example.com/charts
      version: 2.x.x
    digest: %064x
    home: https://example.com
    keywords:
    - a
    - b
    name: chart
    urls:
    - https://charts.example.com/chart-%d.0.0.tgz
    version: %d.0.0
`
	images := strings.Repeat("        - name: image\n          image: registry.example.com/some/image:1.2.3\n", 12)
	var versions, b bytes.Buffer
	for v := range 200 {
		fmt.Fprintf(&versions, version, images, v, v, v, v)
	}
	b.WriteString("apiVersion: v1\nentries:\n")
	for chart := 0; b.Len() < size; chart++ {
		fmt.Fprintf(&b, "  chart-%d:\n", chart)
		b.Write(versions.Bytes())
	}
	return b.Bytes()
}

func TestALargeIndexTakesLittleMemory(t *testing.T) {
	index := largeIndex(50 << 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	charts, err := readIndex(bytes.NewReader(index), wantedOf("chart-1", "chart-20"))
	runtime.ReadMemStats(&after)
	if err != nil || len(charts["chart-1"].releases) != 200 || len(charts["chart-20"].releases) != 200 {
		t.Fatalf("charts %v, error %v", charts, err)
	}
	// All that was ever allocated, of which the collector has had most back meanwhile.
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 64 {
		t.Errorf("reading %d MB allocated %d MB", len(index)>>20, mb)
	} else {
		t.Logf("reading %d MB allocated %d MB, %d MB of it at once", len(index)>>20, mb, int64(after.HeapSys-before.HeapSys)>>20)
	}
}

func BenchmarkReadIndex(b *testing.B) {
	index := largeIndex(20 << 20)
	b.SetBytes(int64(len(index)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readIndex(bytes.NewReader(index), wantedOf("chart-1")); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(helmIndex))
	f.Add([]byte(`{"entries":{"a":[{"version":"1.0.0","urls":["x"]}]}}`))
	f.Add([]byte("entries:\n  a:\n  - version: \"1\n   2\"\n  b: []\n"))
	f.Add([]byte("---\nentries:\n    a:\n        - version: >\n            x\n\n           urls:\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		wanted := wantedOf("a", "alpine", "nginx")
		charts, err := readIndex(bytes.NewReader(data), wanted)
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		// What was read line by line, a YAML parser reads from the whole, of which "---" is an end.
		if whole, err := readLoose(data, wanted); err == nil && !bytes.Contains(data, []byte("---")) {
			for name := range wanted {
				if one, other := charts[name], whole[name]; !alike(one, other) {
					t.Errorf("%s: %+v line by line, %+v as a whole", name, one, other)
				}
			}
		}
		for name, list := range charts {
			if !wanted[name] {
				t.Errorf("chart %q was not asked for", name)
			}
			for _, r := range list.releases {
				if r.Removed {
					t.Errorf("%+v was removed", r)
				}
			}
		}
	})
}

// alike compares what two readers made of one chart; entries that one of them passed over are not compared.
func alike(one, other *listing) bool {
	if one == nil || other == nil {
		return one == other
	}
	if one.skipped != nil || other.skipped != nil {
		return true
	}
	return slices.EqualFunc(one.releases, other.releases, func(a, b release) bool { return cmp.Equal(a, b) })
}
