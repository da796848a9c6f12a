package secret

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLineEndOfASingleLineIsNoPartOfTheValue(t *testing.T) {
	for given, want := range map[string]string{
		"hunter2\n": "hunter2", "hunter2\r\n": "hunter2", "hunter2": "hunter2", "\n": "", "": "",
		"one\ntwo\n": "one\ntwo\n", "one\ntwo": "one\ntwo", "one\n\n": "one\n\n",
	} {
		if got := withoutLineEnd([]byte(given)); string(got) != want {
			t.Errorf("%q became %q, want %q", given, got, want)
		}
	}
}

func TestFilesAreNamedFromWhereThePersonIs(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(base, "fleet")
	if err := os.MkdirAll(filepath.Join(root, "secrets"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ dir, name, want string }{
		{root, "secrets/db.yaml", "secrets/db.yaml"},
		{filepath.Join(root, "secrets"), "db.yaml", "secrets/db.yaml"},
		{filepath.Join(root, "secrets"), "../plural.yaml", "plural.yaml"},
		{filepath.Join(link, "secrets"), "db.yaml", "secrets/db.yaml"},
		{base, filepath.Join(link, "secrets", "db.yaml"), "secrets/db.yaml"},
		{root, "new/folder/db.yaml", "new/folder/db.yaml"},
		{root, "../other.yaml", ""},
		{root, "..", ""},
		{root, ".", ""},
		{root, "/etc/passwd", ""},
	}
	for _, tt := range tests {
		got, err := within(root, tt.dir, tt.name)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s in %s: got %q, %v, want %q", tt.name, tt.dir, got, err, tt.want)
		}
	}
}
