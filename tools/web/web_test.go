package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

func TestTheTypesOfThePageAreThoseOfTheAPI(t *testing.T) {
	document, err := os.ReadFile("../../docs/api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := types(document)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../web/src/v1.ts")
	if err != nil || string(got) != string(want) {
		t.Errorf("web/src/v1.ts is not what docs/api/openapi.json says (%v): make web-types", err)
	}
}

func TestTwoBuildsAreTheSameBytes(t *testing.T) {
	needPackages(t)
	var built [2]map[string]string
	for i := range built {
		out, err := os.MkdirTemp(t.TempDir(), "somewhere")
		if err != nil {
			t.Fatal(err)
		}
		if err := bundle("../../web", out); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(out, "*.gz"))
		if err != nil || len(files) != 3 {
			t.Fatal(files, err)
		}
		built[i] = map[string]string{}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			built[i][filepath.Base(name)] = string(text)
		}
	}
	for name, text := range built[0] {
		if built[1][name] != text {
			t.Errorf("%s is not the same in two builds", name)
		}
	}
}

// needPackages leaves a test out where npm's packages of the page are not, but not in CI.
func needPackages(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../web/node_modules/preact"); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("the page's packages are not there: make web")
	}
	t.Skip("the page's packages are not there: make web")
}

// TestThePageMakesTheRightOfWhatItIsTold runs the tests in web/test, by node.
func TestThePageMakesTheRightOfWhatItIsTold(t *testing.T) {
	needPackages(t)
	out := filepath.Join(t.TempDir(), "units.mjs")
	built := api.Build(api.BuildOptions{
		EntryPoints: []string{"../../web/test/units.test.ts"}, Outfile: out, Write: true, Bundle: true, Platform: api.PlatformNode, Format: api.FormatESModule,
		LogLevel: api.LogLevelWarning,
	})
	if len(built.Errors) > 0 {
		t.Fatal("the tests cannot be bundled")
	}
	if said, err := exec.CommandContext(t.Context(), "node", "--test", out).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
