package up

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
)

func TestNoFleetIsMadeOfAHomeFolder(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	mine := filepath.Join(home, "mine")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mine, workspace.Manifest), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		repo          string
		named, refuse bool
	}{
		{home, true, true},
		{filepath.Join(home, "fleet"), false, true},
		{filepath.Join(home, "fleet"), true, false},
		{filepath.Join(home, "work", "fleet"), false, false},
		{mine, false, false}, // it is there
	} {
		err := (&options{named: tt.named}).awayFromHome(tt.repo)
		var told *ui.Err
		if errors.As(err, &told) != tt.refuse || tt.refuse && told.Fix == "" {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
