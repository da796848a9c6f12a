package main

import (
	"os"
	"path/filepath"
	"testing"
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
	if _, err := os.Stat("../../web/node_modules/preact"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the page's packages are not there: make web")
		}
		t.Skip("the page's packages are not there: make web")
	}
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
