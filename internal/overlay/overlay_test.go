package overlay_test

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/internal/overlay"
)

func TestOverlayIsAFileSystem(t *testing.T) {
	base := fstest.MapFS{
		"kept/a":      {Data: []byte("a")},
		"changed/b":   {Data: []byte("old")},
		"changed/c/d": {Data: []byte("d")},
		"gone/e":      {Data: []byte("e")},
		"gone/f":      {Data: []byte("f")},
	}
	o := overlay.New(base, map[string][]byte{
		"changed/b": []byte("new"), "gone/e": nil, "made/x/y": []byte("y"), "top": {},
		"/absolute": []byte("x"), "../outside": []byte("x"), ".": nil,
	})
	if err := fstest.TestFS(o, "kept/a", "changed/b", "changed/c/d", "gone/f", "made/x/y", "top"); err != nil {
		t.Fatal(err)
	}
	content, err := fs.ReadFile(o, "changed/b")
	if err != nil || string(content) != "new" {
		t.Errorf("changed/b is %q, %v", content, err)
	}
	if _, err := fs.ReadFile(o, "gone/e"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was taken away gives %v", err)
	}
	var names []string
	err = fs.WalkDir(o, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"changed/b", "changed/c/d", "gone/f", "kept/a", "made/x/y", "top"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
