package history_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/history"
)

// repo is a repository that the program git made.
type repo struct {
	tb  testing.TB
	dir string
}

func newRepo(tb testing.TB) *repo {
	tb.Helper()
	r := &repo{tb, tb.TempDir()}
	tb.Setenv("HOME", r.dir)
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) git(args ...string) string {
	r.tb.Helper()
	cmd := exec.CommandContext(r.tb.Context(), "git", append([]string{"-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.tb.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, in pairs of path and content (an empty one removes it), and commits them.
func (r *repo) commit(subject string, files ...string) string {
	r.tb.Helper()
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(r.dir, files[i])
		if files[i+1] == "" {
			r.git("rm", "-q", files[i])
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			r.tb.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(files[i+1]), 0o644); err != nil {
			r.tb.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", subject)
	return r.git("rev-parse", "HEAD")
}

func (r *repo) log() *history.Log {
	r.tb.Helper()
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		r.tb.Fatal(err)
	}
	return history.Of(g.Storer)
}

func (r *repo) read(q history.Query) *history.Page {
	r.tb.Helper()
	if q.From == "" {
		q.From = r.git("rev-parse", "HEAD")
	}
	page, err := r.log().Read(r.tb.Context(), q)
	if err != nil {
		r.tb.Fatal(err)
	}
	return page
}

func subjects(list []history.Revision) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Subject)
	}
	return out
}

func TestAHistoryIsTheStepsOfTheBranchThatChangedTheScope(t *testing.T) {
	r := newRepo(t)
	r.commit("one", "services/web.yaml", "1", "README.md", "1")
	r.commit("two", "services/api.yaml", "1")
	r.commit("three", "README.md", "2")
	r.git("checkout", "-qb", "side")
	r.commit("four", "apps/web/a.yaml", "1")
	r.commit("five", "apps/web/a.yaml", "2", "services/web.yaml", "2")
	r.git("checkout", "-q", "main")
	r.commit("six", "README.md", "3")
	r.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
	r.commit("seven", "apps/web/a.yaml", "", "apps/web/b.yaml", "1")
	r.commit("eight", "apps/webshop/a.yaml", "1")
	for _, tt := range []struct {
		name  string
		scope history.Scope
		want  []string
	}{
		{"everything", history.Scope{}, []string{"eight", "seven", "merge side", "six", "three", "two", "one"}},
		{"a file", history.Paths("services/web.yaml"), []string{"merge side", "one"}},
		{"a folder", history.Paths("apps/web"), []string{"seven", "merge side"}},
		{"both", history.Paths("apps/web", "services/web.yaml", "apps/web/a.yaml"), []string{"seven", "merge side", "one"}},
		{"nothing", history.Paths("no/such"), nil},
		{"the root", history.Paths("apps", "."), []string{"eight", "seven", "merge side", "six", "three", "two", "one"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, subjects(r.read(history.Query{Scope: tt.scope}).Items)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	merge := r.read(history.Query{Scope: history.Paths("apps", "services")}).Items[2]
	if !merge.Merge || !slices.Equal(merge.Files, []string{"apps/web/a.yaml", "services/web.yaml"}) || merge.Author != "ada" {
		t.Errorf("the merge is told as %+v", merge)
	}
	seven := r.read(history.Query{Scope: history.Paths("apps/web")}).Items[0]
	if !slices.Equal(seven.Files, []string{"apps/web/a.yaml", "apps/web/b.yaml"}) {
		t.Errorf("a renamed file is told as %v", seven.Files)
	}
}

func TestOnlyAWholeIDIsACommit(t *testing.T) {
	r := newRepo(t)
	id := r.commit("One", "a", "1")
	for _, name := range []string{id + "-x", id + "00", id[:39], strings.ToUpper(id)} {
		r.git("update-ref", "refs/tags/"+name, id)
		if _, err := r.log().Revision(t.Context(), name); err == nil {
			t.Errorf("%s is taken for a commit", name)
		}
		if held, err := r.log().Holds(id, name); err == nil && held {
			t.Errorf("%s is taken for an ancestor", name)
		}
	}
	if _, err := r.log().Revision(t.Context(), id); err != nil {
		t.Error(err)
	}
}

func TestAHistoryComesInPages(t *testing.T) {
	r := newRepo(t)
	var want []string
	for i := range 12 {
		subject := fmt.Sprintf("step %d", i)
		r.commit(subject, "a", subject, "other", fmt.Sprint(i/2))
		want = append(want, subject)
	}
	slices.Reverse(want)
	var got []string
	for next := r.git("rev-parse", "HEAD"); next != ""; {
		page := r.read(history.Query{From: next, Scope: history.Paths("a"), Limit: 5})
		if len(page.Items) > 5 {
			t.Fatalf("a page of %d", len(page.Items))
		}
		got, next = append(got, subjects(page.Items)...), page.Next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if page := r.read(history.Query{Walk: 3, Scope: history.Paths("nothing")}); len(page.Items) != 0 || page.Next == "" {
		t.Errorf("a bounded walk ends at %q with %v", page.Next, page.Items)
	}
}

func TestManyFilesAreCounted(t *testing.T) {
	r := newRepo(t)
	var files []string
	for i := range history.MaxFiles + 7 {
		files = append(files, fmt.Sprintf("clusters/c%03d.yaml", i), "x")
	}
	r.commit("all", files...)
	if got := r.read(history.Query{}).Items[0]; len(got.Files) != history.MaxFiles || got.LeftOut != 7 {
		t.Errorf("%d files, %d left out", len(got.Files), got.LeftOut)
	}
}

func TestAShallowCloneSaysThatThereIsMore(t *testing.T) {
	r := newRepo(t)
	for i := range 5 {
		r.commit(fmt.Sprint(i), "a", fmt.Sprint(i))
	}
	clone := &repo{t, filepath.Join(t.TempDir(), "clone")}
	r.git("-c", "protocol.file.allow=always", "clone", "-q", "--depth", "2", "file://"+r.dir, clone.dir)
	page := clone.read(history.Query{})
	if !page.Cut || !slices.Equal(subjects(page.Items), []string{"4"}) {
		t.Errorf("%v, cut: %v", subjects(page.Items), page.Cut)
	}
}

// The program git says the same of any history.
func TestAHistoryIsWhatGitSays(t *testing.T) {
	r := newRepo(t)
	paths := []string{"a", "b/c", "b/d/e", "b/d/f", "g"}
	for i := range 40 {
		if i%7 == 3 {
			r.git("checkout", "-qb", fmt.Sprint("side", i))
			r.commit(fmt.Sprint("side ", i), paths[i%len(paths)], fmt.Sprint("side", i))
			r.git("checkout", "-q", "main")
			r.git("merge", "-q", "--no-ff", "-m", fmt.Sprint("merge ", i), fmt.Sprint("side", i))
			continue
		}
		r.commit(fmt.Sprint("step ", i), paths[i%len(paths)], fmt.Sprint(i), paths[i*i%len(paths)], fmt.Sprint(i))
	}
	for _, path := range append(paths, "b", "b/d") {
		want := strings.Split(r.git("log", "--first-parent", "--diff-merges=first-parent", "-s", "--format=%s", "--", path), "\n")
		if diff := cmp.Diff(want, subjects(r.read(history.Query{Scope: history.Paths(path), Limit: 100}).Items)); diff != "" {
			t.Errorf("%s (-git +ours):\n%s", path, diff)
		}
	}
}

// revert has git take a commit back.
func (r *repo) revert(commit string, options ...string) string {
	r.tb.Helper()
	r.git(append(append([]string{"revert", "--no-edit"}, options...), commit)...)
	return r.git("rev-parse", "HEAD")
}

func (r *repo) undoable() string {
	r.tb.Helper()
	found, err := r.log().Undoable(r.tb.Context(), r.git("rev-parse", "HEAD"), history.Paths("fleet"))
	if err != nil {
		r.tb.Fatal(err)
	}
	if found == nil {
		return "nothing"
	}
	return found.Subject
}

func (r *repo) redoable() string {
	r.tb.Helper()
	found, err := r.log().Redoable(r.tb.Context(), r.git("rev-parse", "HEAD"), history.Paths("fleet"))
	if err != nil {
		r.tb.Fatal(err)
	}
	if found == nil {
		return "nothing"
	}
	return found.Subject
}

func TestWhatIsUndoneIsNotUndoneAgain(t *testing.T) {
	r := newRepo(t)
	r.commit("start", "README.md", "1")
	if got := r.undoable(); got != "nothing" {
		t.Errorf("without a change: %s", got)
	}
	one := r.commit("one", "fleet/a", "1")
	two := r.commit("two", "fleet/b", "1")
	r.commit("aside", "README.md", "2")
	step := func(what, undo, redo string) {
		t.Helper()
		if got := r.undoable(); got != undo {
			t.Errorf("%s: undo takes back %s, want %s", what, got, undo)
		}
		if got := r.redoable(); got != redo {
			t.Errorf("%s: redo takes back %s, want %s", what, got, redo)
		}
	}
	step("at first", "two", "nothing")
	undoTwo := r.revert(two)
	step("once undone", "one", `Revert "two"`)
	undoOne := r.revert(one)
	step("twice undone", "nothing", `Revert "one"`)
	r.revert(undoOne)
	step("once redone", "one", `Revert "two"`)
	redoTwo := r.revert(undoTwo)
	step("all redone", "two", "nothing")
	r.revert(redoTwo)
	if got := r.undoable(); got != "one" {
		t.Errorf("an undo of a redo: undo takes back %s", got)
	}
	r.commit("three", "fleet/c", "1")
	step("a new change", "three", "nothing")
}

func TestAPullRequestThatUndoesIsAnUndo(t *testing.T) {
	r := newRepo(t)
	r.commit("start", "fleet/a", "1")
	r.commit("one", "fleet/a", "2")
	two := r.commit("two", "fleet/a", "3")
	r.git("checkout", "-qb", "plural/undo")
	r.revert(two)
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--no-ff", "-m", "Merge pull request #1", "plural/undo")
	if got := r.undoable(); got != "one" {
		t.Errorf("undo takes back %s", got)
	}
	page := r.read(history.Query{})
	if by := history.Undone(page.Items)[two]; by != page.Items[0].ID || page.Items[0].Reverts != two {
		t.Errorf("undone by %q", by)
	}
}

func TestAServiceIsMadeOfItsFileAndWhatItReads(t *testing.T) {
	service := "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: web}\nspec:\n" +
		"  source: {path: apps/web}\n  clusters: {}\n  secrets: [{name: db, from: secrets/db.yaml}]\n  include: [shared/x]\n"
	list, err := fleet.ReadServices("services/all.yaml", []byte(service))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet.Fleet{Services: list}
	scope := history.Service(f, "web", nil)
	for path, want := range map[string]bool{
		"services/all.yaml": true, "services/web.yaml": false, "apps/web/a/b.yaml": true, "apps/web2": false, "secrets/db.yaml": true,
		"secrets/other.yaml": false, "shared/x/y": true, "shared": false, "apps": false,
	} {
		if got := scope.Holds(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	if !history.Service(f, "gone", nil).Holds("services/gone.yaml") {
		t.Error("a service that is gone is looked for nowhere")
	}
	whole := history.Fleet(f, nil)
	for path, want := range map[string]bool{"clusters/a.yaml": true, "apps/web/x": true, "README.md": false, ".plural/seal.yaml": true, "plural.yaml": true} {
		if got := whole.Holds(path); got != want {
			t.Errorf("fleet: %s: %v", path, got)
		}
	}
}

// BenchmarkHistory reads how one service came to be out of a history of 5,000 commits.
func BenchmarkHistory(b *testing.B) {
	r := newRepo(b)
	var script strings.Builder
	for i := range 5000 {
		text := fmt.Sprint("replicas: ", i)
		fmt.Fprintf(&script, "commit refs/heads/main\ncommitter ada <ada@example.com> %d +0000\ndata 4\nstep\n", 1_700_000_000+i)
		fmt.Fprintf(&script, "M 100644 inline services/s%03d.yaml\ndata %d\n%s\n", i%200, len(text), text)
		fmt.Fprintf(&script, "M 100644 inline apps/a%02d/deployment.yaml\ndata %d\n%s\n", i%50, len(text), text)
	}
	cmd := exec.CommandContext(b.Context(), "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(script.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	r.git("gc", "-q")
	head := r.git("rev-parse", "main")
	q := history.Query{From: head, Scope: history.Paths("services/s007.yaml", "apps/a07"), Limit: 1000}
	for b.Loop() {
		if page := r.read(q); len(page.Items) != 100 {
			b.Fatalf("%d commits", len(page.Items))
		}
	}
	fmt.Printf("bench history_5000_commits_ms %.4g ms\n", float64(b.Elapsed().Milliseconds())/float64(b.N)) //nolint:forbidigo // what make bench reads
}
