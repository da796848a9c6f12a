package skins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/tui/paint"
)

func head(spec string) string {
	return "apiVersion: plural.sh/v1alpha1\nkind: Skin\nspec:\n" + spec
}

func TestASkinOfOnesOwnChangesSomeRolesOfOneThatIsBuiltIn(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Folder), 0o700); err != nil {
		t.Fatal(err)
	}
	text := head("  base: light\n  styles: {good: \"bold #00ff88\", bad: \"black on 214\", key: bright-blue}\n")
	if err := os.WriteFile(filepath.Join(dir, Folder, "mine.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	skin, err := Load(dir, "mine")
	if err != nil {
		t.Fatal(err)
	}
	mine, light := paint.NewLook(paint.Options{Color: true, Dark: true, Skin: skin}), paint.NewLook(paint.Options{Color: true})
	for style, want := range map[paint.Style]string{
		paint.Good: "\x1b[0;1;38;2;0;255;136mx\x1b[m", paint.Bad: "\x1b[0;30;48;5;214mx\x1b[m", paint.Key: "\x1b[0;94mx\x1b[m",
		paint.Busy: light.Paint(paint.Busy, "x"),
	} {
		if got := mine.Paint(style, "x"); got != want {
			t.Errorf("style %d is %q, want %q", style, got, want)
		}
	}
	if got := paint.NewLook(paint.Options{Skin: skin}).Paint(paint.Good, "x"); got != "x" {
		t.Errorf("without colours it is %q", got)
	}
}

func TestSkinsThatAreBuiltInNeedNoFile(t *testing.T) {
	for name, want := range map[string]string{
		"": "\x1b[0;2mx\x1b[m", "dark": "\x1b[0;2mx\x1b[m", "high-contrast": "\x1b[0mx\x1b[m", "none": "x",
	} {
		skin, err := Load(t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got := paint.NewLook(paint.Options{Color: true, Dark: true, Skin: skin}).Paint(paint.Faint, "x"); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestAMistakeInASkinIsToldWithItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		head("  base: darkest\n"):                                 "skin.yaml:4:9: there is no skin \"darkest\"",
		head("  styles: {goood: red}\n"):                          "skin.yaml:4:",
		head("  styles: {good: reddish}\n"):                       "\"reddish\" is no colour",
		head("  styles: {good: \"red on\"}\n"):                    "says no colour",
		head("  styles: {good: \"#12345g\"}\n"):                   "\"#12345g\" is no colour",
		"apiVersion: plural.sh/v1alpha1\nkind: Views\nspec: {}\n": "does not belong here",
	} {
		if _, err := Parse("skin.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	for _, name := range []string{"nosuch", "../own", "a/b"} {
		if _, err := Load(t.TempDir(), name); err == nil ||
			!strings.Contains(err.Error(), "choose one of auto, dark, light, high-contrast, none") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
