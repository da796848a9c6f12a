package cmdutil

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/workspace"
)

// inRepo is a factory in an installation repo whose plural.yaml names a hub, and whose services are broken.
func inRepo(t *testing.T, env map[string]string) *Factory {
	t.Helper()
	dir := t.TempDir()
	manifest := "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {hub: {url: \"https://from.repo\"}}\n"
	for name, text := range map[string]string{"plural.yaml": manifest, "services/broken.yaml": "]"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env["PLURAL_CONFIG_DIR"] = filepath.Join(dir, "config")
	return &Factory{
		Globals: Globals{Dir: filepath.Join(dir, "services")}, IO: &ui.Streams{},
		Getenv: func(name string) string { return env[name] },
	}
}

func TestHubIsTakenFromFlagThenEnvironmentThenRepo(t *testing.T) {
	env := map[string]string{"PLURAL_HUB": "https://from.env"}
	f := inRepo(t, env)
	f.Hub = "https://from.flag"
	for _, want := range []string{"https://from.flag", "https://from.env", "https://from.repo"} {
		if got, err := f.HubAddress(); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if f.Hub == "" {
			delete(env, "PLURAL_HUB")
		}
		f.Hub = ""
	}
}

func TestTokenIsTakenFromEnvironmentThenFileThenStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PLURAL_TOKEN": "from-env", "PLURAL_TOKEN_FILE": file, "PLURAL_HUB": "https://from.repo"}
	f := inRepo(t, env)
	if err := f.Hosts().Save("https://from.repo", "from-store"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ want, drop string }{{"from-env", "PLURAL_TOKEN"}, {"from-file", "PLURAL_TOKEN_FILE"}, {"from-store", ""}} {
		if got, err := f.HubToken("https://from.repo/"); err != nil || got != step.want {
			t.Errorf("got %q, %v, want %q", got, err, step.want)
		}
		delete(env, step.drop)
	}
}

func TestRepoOutsideOneSaysWhatToDo(t *testing.T) {
	f := &Factory{Globals: Globals{Dir: t.TempDir()}, Getenv: func(string) string { return "" }}
	_, err := f.Repo()
	var told *ui.Err
	if !errors.As(err, &told) || told.Fix == "" || !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestExplainSetsARefusalsFixApart(t *testing.T) {
	err := Explain(errors.Join(&workspace.Error{Message: "HEAD is detached", Fix: "git switch BRANCH"}))
	var told *ui.Err
	if !errors.As(err, &told) || told.Msg != "HEAD is detached" || told.Fix != "git switch BRANCH" {
		t.Errorf("got %+v", told)
	}
}

func TestWhatAClusterDoesNotHaveIsLookedForThere(t *testing.T) {
	for cluster, want := range map[string]string{"edge-1": "plural service tree NAME", "": "plural status"} {
		var told *ui.Err
		err := Explain(&client.Error{Status: http.StatusNotFound, Message: `pods "web-0" not found`, Cluster: cluster})
		if !errors.As(err, &told) || !strings.Contains(told.Fix, want) {
			t.Errorf("%q: got %+v", cluster, told)
		}
	}
}
