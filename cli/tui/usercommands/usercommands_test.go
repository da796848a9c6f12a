package usercommands_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/cli/tui/usercommands"
)

var update = flag.Bool("update", false, "rewrite testdata")

const head = "apiVersion: plural.sh/v1alpha1\nkind: Commands\nspec:\n  commands:\n"

func TestCommandsComeFromTheFolderOfTheirPerson(t *testing.T) {
	dir := t.TempDir()
	if got, err := usercommands.Load(dir, nil); got != nil || err != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	text := head + "  - {key: alt+1, name: pods of, scope: [deployment, cluster], run: 'kubectl get pods -n \"$NAMESPACE\"', terminal: true}\n"
	if err := os.WriteFile(filepath.Join(dir, usercommands.File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := usercommands.Load(dir, map[string]string{"d": "describe"})
	if err != nil {
		t.Fatal(err)
	}
	want := []usercommands.Command{{
		Key: "alt+1", Name: "pods of", Scope: []string{"deployment", "cluster"}, Run: `kubectl get pods -n "$NAMESPACE"`, Terminal: true,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each file of the archive is followed by what is told of it.
func TestEachMistakeHasItsPlaceItsCauseAndItsFix(t *testing.T) {
	const file = "testdata/mistakes.txtar"
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := txtar.Archive{Comment: archive.Comment}
	for i := 0; i < len(archive.Files); i += 2 {
		in := archive.Files[i]
		list, err := usercommands.Parse(usercommands.File, in.Data, map[string]string{"d": "describe", "delete": "delete"})
		if err == nil || list != nil {
			t.Errorf("%s is taken: %v", in.Name, list)
			continue
		}
		got.Files = append(got.Files, in, txtar.File{Name: "told of " + in.Name, Data: []byte(err.Error() + "\n")})
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(&got))); diff != "" && !*update {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}
