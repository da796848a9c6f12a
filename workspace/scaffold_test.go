package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/templates"
)

// scaffolded is a repo that was made with a README.md, a notes.md and an old.md.
func scaffolded(t *testing.T) (*Repo, string) {
	t.Helper()
	dir := t.TempDir()
	repo := initAt(t, Options{Dir: dir, Name: "demo"}).Repo
	for name, text := range map[string]string{"README.md": "# demo\n\none\ntwo\nthree\n", "notes.md": "a\nb\nc\n", "old.md": "x\n", "kept.md": "x\n"} {
		write(t, dir, name, text)
		write(t, dir, pristine(name), text)
	}
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "as it was made")
	return repo, dir
}

// newer is what a newer program gives.
func newer() []templates.File {
	return []templates.File{
		{Path: "README.md", Content: []byte("# demo\n\none\ntwo\nTHREE\n")},
		{Path: "notes.md", Content: []byte("a\nB\nc\n")},
		{Path: "docs/new.md", Content: []byte("new\n")},
		{Path: "foreign.md", Content: []byte("ours\n")},
		{Path: "plural.yaml", Content: nil},
	}
}

// upgrade upgrades to what a newer program gives; plural.yaml stays.
func upgrade(t *testing.T, repo *Repo) (*Upgraded, error) {
	t.Helper()
	files := newer()
	var err error
	if files[len(files)-1].Content, err = os.ReadFile(filepath.Join(repo.Root(), pristine("plural.yaml"))); err != nil {
		t.Fatal(err)
	}
	return repo.upgradeScaffold(context.Background(), files)
}

func content(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return "(none)"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnUpgradeOfTheScaffoldMergesIntoWhatPeopleWrote(t *testing.T) {
	repo, dir := scaffolded(t)
	write(t, dir, "README.md", "# demo of ours\n\none\ntwo\nthree\n")
	write(t, dir, "foreign.md", "mine\n")
	write(t, dir, "kept.md", "changed\n")
	gitIn(t, dir, "rm", "-q", "notes.md")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "what people did")
	u, err := upgrade(t, repo)
	if err != nil {
		t.Fatal(err)
	}
	want := &Upgraded{Changed: []string{"README.md", "clusters/README.md", "docs/new.md", "old.md", "services/README.md", "sources/README.md"}, Unknown: []string{"foreign.md"}, Commit: gitIn(t, dir, "rev-parse", "HEAD")}
	if diff := cmp.Diff(want, u); diff != "" {
		t.Error(diff)
	}
	got := map[string]string{}
	for _, name := range []string{"README.md", "notes.md", "old.md", "kept.md", "docs/new.md", "foreign.md", pristine("README.md"), pristine("notes.md"), pristine("old.md"), pristine("foreign.md")} {
		got[name] = content(t, dir, name)
	}
	if diff := cmp.Diff(map[string]string{
		"README.md": "# demo of ours\n\none\ntwo\nTHREE\n", "notes.md": "(none)", "old.md": "(none)", "kept.md": "changed\n", "docs/new.md": "new\n", "foreign.md": "mine\n",
		pristine("README.md"): "# demo\n\none\ntwo\nTHREE\n", pristine("notes.md"): "a\nB\nc\n", pristine("old.md"): "(none)", pristine("foreign.md"): "(none)",
	}, got); diff != "" {
		t.Error(diff)
	}
	if status := gitIn(t, dir, "status", "--porcelain"); status != "" {
		t.Errorf("not clean: %s", status)
	}
	again, err := upgrade(t, repo)
	if diff := cmp.Diff(&Upgraded{Unknown: []string{"foreign.md"}}, again); diff != "" || err != nil {
		t.Errorf("a second time: %v %s", err, diff)
	}
}

func TestAnUpgradeOfTheScaffoldShowsConflictsAsGitDoesAndCommitsNothing(t *testing.T) {
	repo, dir := scaffolded(t)
	write(t, dir, "README.md", "# demo\n\none\ntwo\n3\n")
	gitIn(t, dir, "commit", "-qam", "what people did")
	head := gitIn(t, dir, "rev-parse", "HEAD")
	u, err := upgrade(t, repo)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"README.md"}, u.Conflicts); diff != "" || u.Commit != "" || gitIn(t, dir, "rev-parse", "HEAD") != head {
		t.Errorf("commit %q %s", u.Commit, diff)
	}
	want := "# demo\n\none\ntwo\n<<<<<<< yours\n3\n||||||| as it was given\nthree\n=======\nTHREE\n>>>>>>> as it would be given now\n"
	if diff := cmp.Diff(want, content(t, dir, "README.md")); diff != "" {
		t.Error(diff)
	}
	if got := content(t, dir, "notes.md"); got != "a\nB\nc\n" {
		t.Errorf("what is in no conflict is %q", got)
	}
	// Somebody finishes the merge by hand; then there is nothing left to do.
	write(t, dir, "README.md", "# demo\n\none\ntwo\n3 and THREE\n")
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "finish")
	if again, err := upgrade(t, repo); err != nil || len(again.Changed)+len(again.Conflicts) > 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestAnUpgradeOfTheScaffoldLosesNothingThatIsNotCommitted(t *testing.T) {
	for name, text := range map[string]string{"conflict": "# demo\n\none\ntwo\n3\n", "none": "# mine\n\none\ntwo\nthree\n"} {
		t.Run(name, func(t *testing.T) {
			repo, dir := scaffolded(t)
			write(t, dir, "README.md", text)
			_, err := upgrade(t, repo)
			var refused *Error
			if !errors.As(err, &refused) || content(t, dir, "README.md") != text || content(t, dir, "notes.md") != "a\nb\nc\n" {
				t.Errorf("error = %v", err)
			}
		})
	}
}

func TestAnUpgradeOfTheScaffoldKeepsTheLineEndsOfAClone(t *testing.T) {
	merged, conflict := mergeText([]byte("a\r\nb\r\nc\r\n"), []byte("A\r\nb\r\nc\r\n"), []byte("a\nb\nC\n"))
	if conflict || string(merged) != "A\r\nb\r\nC\r\n" {
		t.Errorf("%q, %v", merged, conflict)
	}
}

func TestTheScaffoldOfTodayIsUpgradedToItself(t *testing.T) {
	dir := t.TempDir()
	opts := Options{Dir: dir, Name: "demo", HubURL: "https://hub.example.com", Branch: "main"}
	repo := initAt(t, opts).Repo
	u, err := repo.UpgradeScaffold(context.Background(), opts)
	if diff := cmp.Diff(&Upgraded{}, u); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
