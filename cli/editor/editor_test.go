package editor

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
)

func factory(env map[string]string) *cmdutil.Factory {
	return &cmdutil.Factory{
		IO:     &ui.Streams{In: strings.NewReader(""), Out: new(bytes.Buffer), ErrOut: new(bytes.Buffer)},
		Getenv: func(name string) string { return env[name] },
	}
}

func TestDraftIsPrivateAndLeavesNothing(t *testing.T) {
	runtime := t.TempDir()
	d, err := Open(factory(map[string]string{"XDG_RUNTIME_DIR": runtime}), "db.yaml", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{d.dir: 0o700, d.name: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	backup := d.name + "~"
	if err := os.Link(d.name, backup); err != nil { // an editor's own copy
		t.Fatal(err)
	}
	held, err := os.Open(d.name)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	d.Wipe()
	if left, err := os.ReadDir(runtime); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	content := make([]byte, 16)
	if n, _ := held.Read(content); strings.Contains(string(content[:n]), "secret") {
		t.Errorf("the file's blocks still hold %q", content[:n])
	}
}

func TestTheEditorIsAsManyWordsAsItsSettingHas(t *testing.T) {
	other := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(other, []byte("changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(factory(map[string]string{"XDG_RUNTIME_DIR": t.TempDir(), "EDITOR": "false", "VISUAL": "cp '" + other + "'"}), "x.yaml", []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Wipe()
	if err := d.Edit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if text, err := d.Text(100); err != nil || string(text) != "changed" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := d.Text(3); err == nil {
		t.Error("a text that is too long was read")
	}
}

func TestAnEditorThatFailsSaysWhichItWas(t *testing.T) {
	d, err := Open(factory(map[string]string{"XDG_RUNTIME_DIR": t.TempDir(), "EDITOR": "false -x"}), "x.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Wipe()
	if err := d.Edit(t.Context()); err == nil || !strings.Contains(err.Error(), "false -x") {
		t.Error(err)
	}
}

func TestWithoutATerminalNoEditorIsMadeUp(t *testing.T) {
	d, err := Open(factory(map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}), "x.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Wipe()
	if err := d.Edit(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody is at a terminal") {
		t.Error(err)
	}
}
