package views_test

import (
	"flag"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/pluralsh/plural/workspace/views"
)

var update = flag.Bool("update", false, "rewrite testdata and what is published")

const head = "apiVersion: plural.sh/v1alpha1\nkind: Views\n"

func TestViewsComeByTheirKeys(t *testing.T) {
	text := head + "spec:\n  views:\n" +
		"  - {key: 3, name: what goes wrong in production, list: fleet, filter: 'env:prod -health:healthy @prod-*'}\n" +
		"  - {key: 1, name: sources, list: sources}\n"
	got, err := views.Load(fstest.MapFS{views.File: {Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	want := []views.View{
		{Key: 1, Name: "sources", List: "sources"},
		{Key: 3, Name: "what goes wrong in production", List: "fleet", Filter: "env:prod -health:healthy @prod-*"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutAFileThereAreNoViews(t *testing.T) {
	if got, err := views.Load(fstest.MapFS{}); got != nil || err != nil {
		t.Errorf("%v, %v", got, err)
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
		_, err := views.Parse(in.Data)
		if err == nil {
			t.Errorf("%s is taken", in.Name)
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

func TestAFileThatIsTooLargeIsNotRead(t *testing.T) {
	if _, err := views.Parse([]byte(strings.Repeat("# more\n", 20_000))); err == nil || !strings.Contains(err.Error(), "64 KiB") {
		t.Error(err)
	}
}

func FuzzViews(f *testing.F) {
	f.Add([]byte(head + "spec:\n  views:\n  - {key: 1, name: a, list: fleet, filter: 'x:y'}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := views.Parse(text)
		for i, v := range list {
			if err != nil || v.Key < 1 || v.Key > views.MaxKey || v.Name == "" || v.List == "" || i > 0 && list[i-1].Key == v.Key {
				t.Errorf("%+v, %v", v, err)
			}
		}
	})
}

func TestViewsThatAreADeviceAreNotOpened(t *testing.T) {
	device := fstest.MapFS{views.File: {Data: []byte(head + "spec: {views: []}\n"), Mode: fs.ModeDevice | fs.ModeCharDevice | 0o644}}
	if _, err := views.Load(device); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
