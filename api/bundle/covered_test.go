package bundle

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestNothingInABundleLiesOutsideOfItsInputs(t *testing.T) {
	var archive bytes.Buffer
	tree := fstest.MapFS{
		"apps/web/deep/x": {Data: []byte("x")}, "apps/y": {Data: []byte("y")}, "empty": {Mode: fs.ModeDir | 0o755},
		"z": {Data: []byte("z")},
	}
	if err := Pack(&archive, tree, []string{"apps/web/deep", "apps/y", "empty", "z"}, Limits{}); err != nil {
		t.Fatal(err)
	}
	files, err := Unpack(&archive, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		stray  string
		inputs []string
	}{
		{"", []string{"apps/web/deep", "apps/y", "empty", "z"}},
		{"", []string{"apps", "empty", "z"}},
		{"", []string{"."}},
		{"empty", []string{"apps", "z"}},
		{"apps/y", []string{"apps/web", "empty", "z"}},
		{"apps/web/deep/x", []string{"apps/y", "empty", "z"}},
		{"z", []string{"apps", "empty"}},
	} {
		var outside *EntryError
		switch _, err := files.Key(tc.inputs); {
		case tc.stray == "" && err != nil:
			t.Errorf("%q: %v", tc.inputs, err)
		case tc.stray != "" && (!errors.As(err, &outside) || outside.Path != tc.stray):
			t.Errorf("%q: %v, want that %q is refused", tc.inputs, err, tc.stray)
		}
	}
}
