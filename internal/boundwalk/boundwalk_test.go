package boundwalk

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/pluralsh/plural/test/support/walktest"
)

func TestWalkEnds(t *testing.T) {
	met := 0
	err := Dir(walktest.Bomb{}, "a", 1_000, func(string, fs.DirEntry, error) error { met++; return nil })
	var many *TooManyError
	if !errors.As(err, &many) || met > 1_000 || !strings.Contains(err.Error(), `"a" holds more than 1000`) || many.Fix() == "" {
		t.Errorf("after %d entries: %v", met, err)
	}
}

func TestWalkMeetsWhatIsThere(t *testing.T) {
	files := fstest.MapFS{"a/b/c": {}, "a/d": {}, "e": {}, strings.Repeat("deep/", MaxDepth) + "x": {}, "more/" + strings.Repeat("deep/", MaxDepth) + "x": {}}
	var met []string
	note := func(name string, entry fs.DirEntry, err error) error {
		met = append(met, name)
		return err
	}
	if err := Dir(files, "a", 4, note); err != nil || strings.Join(met, " ") != "a a/b a/b/c a/d" {
		t.Errorf("met %q, %v", met, err)
	}
	if err := Dir(files, "a", 3, note); err == nil {
		t.Error("four are no more than three")
	}
	if err := Dir(files, "deep", 1_000, note); err != nil {
		t.Errorf("as deep as may be: %v", err)
	}
	if err := Dir(files, "more", 1_000, note); err == nil {
		t.Error("one deeper is too deep")
	}
}
