package arch

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

func TestGitIsStartedInOneRoom(t *testing.T) {
	const room = "internal/gitexec/"
	start := regexp.MustCompile(`exec\.Command(Context)?\([^"\n]*"git"`)
	found := 0
	fsys := os.DirFS(root)
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(fsys, name)
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		switch {
		case err != nil || !start.Match(text):
		case strings.HasPrefix(name, room):
			found++
		default:
			t.Errorf("%s starts git by itself: %s knows what no repository may have it do", name, room)
		}
		return err
	})
	if err != nil || found != 1 {
		t.Errorf("%s has %d places that start git, not one: %v", room, found, err)
	}
}
