package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestASettingIsPutIntoTheFileAndCommentsStay(t *testing.T) {
	const text = "# mine\nhub: https://old.example.com # home\ncolor: never\n"
	got, err := Set([]byte(text), Hub, "https://new.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = Set(got, ASCII, "true"); err != nil {
		t.Fatal(err)
	}
	if got, err = Unset(got, Color); err != nil {
		t.Fatal(err)
	}
	want := "# mine\nhub: https://new.example.com # home\nascii: true\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestSettingsAreReadAsTheyWereSaved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if set, err := Load(dir); err != nil || len(set) != 0 {
		t.Fatalf("without a file: %v %v", set, err)
	}
	var text []byte
	want := Settings{
		Hub: "https://hub.example.com", Output: "yaml", Color: "never", Pager: "less -R", Editor: "code --wait", ASCII: "true",
		NoUpdateNotifier: "true",
	}
	var err error
	for key, value := range want {
		if text, err = Set(text, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := Save(dir, text); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if info, err := os.Stat(Path(dir)); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	for key := range want {
		if text, err = Unset(text, key); err != nil {
			t.Fatal(err)
		}
	}
	if len(text) != 0 {
		t.Errorf("left: %q", text)
	}
}

func TestMistakesInTheFileHaveTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"colour: never\n":                      `c.yaml:1:1: unknown field "colour": did you mean "color"?`,
		"\ncolor: red\n":                       `c.yaml:2`,
		"output: name\n":                       "it is one of table, wide, json, yaml",
		"hub: https://me:secret@example.com":   "carries a credential",
		"hub: example.com":                     "https://HOST",
		"ascii: perhaps":                       "c.yaml:1",
		"color: auto\n---\nhub: https://a.b\n": "second document",
	} {
		_, err := Parse("c.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestWhatCannotBeIsNotSet(t *testing.T) {
	for key, value := range map[Key]string{Color: "red", Hub: "ftp://x", ASCII: "yes", Pager: "", "nothing": "x"} {
		if text, err := Set(nil, key, value); err == nil {
			t.Errorf("%s=%s became %q", key, value, text)
		}
	}
	if err := Save(t.TempDir(), []byte("color: red\n")); err == nil {
		t.Error("a file with a mistake was saved")
	}
}

func FuzzWhatIsSetIsRead(f *testing.F) {
	f.Add("less -R")
	f.Add("a: b # c\n\t")
	f.Add("true")
	f.Fuzz(func(t *testing.T, value string) {
		text, err := Set([]byte("# a comment\ncolor: never\n"), Pager, value)
		if err != nil {
			return
		}
		set, err := Parse("c.yaml", text)
		if err != nil {
			return // what strict YAML does not hold is refused by Save
		}
		if set[Pager] != value || set[Color] != "never" {
			t.Errorf("%q came back as %q from %q", value, set[Pager], text)
		}
	})
}
