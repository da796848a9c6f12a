package validate

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/internal/needs"
)

func TestViewsOfTheConsoleAreCheckedWithTheRest(t *testing.T) {
	const head = "apiVersion: plural.sh/v1alpha1\nkind: "
	git := needs.Program(t, "git", "git")
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(head+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("plural.yaml", "Workspace\nmetadata: {name: acme}\nspec: {repo: {url: \"https://git.example.com/fleet.git\"}}\n")
	validate := func() (string, error) {
		var out bytes.Buffer
		cmd := NewCmdValidate(&cmdutil.Factory{
			IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out}, Now: time.Now,
			Getenv: func(name string) string { return map[string]string{"PLURAL_REPO": dir}[name] },
		})
		cmd.SetArgs(nil)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	write("views.yaml", "Views\nspec: {views: [{key: 1, name: all, list: fleet}]}\n")
	if out, err := validate(); err != nil || !strings.Contains(out, "acme is sound") {
		t.Errorf("%v: %s", err, out)
	}
	write("views.yaml", "Views\nspec: {views: [{key: 1, name: all, list: flet}]}\n")
	_, err := validate()
	told := (*ui.Err)(nil)
	if !errors.As(err, &told) || len(told.Problems) != 1 || told.Problems[0].Where != "views.yaml:3:42" || told.Problems[0].Fix != `did you mean "fleet"?` {
		t.Errorf("%+v", err)
	}
}
