package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/workspace/snapshot"
)

func openMirror(t testing.TB, dir string) *Mirror {
	t.Helper()
	m, err := Open(dir)
	must(t, err)
	return m
}

func fetch(t testing.TB, m *Mirror, from Upstream, refs ...string) []string {
	t.Helper()
	changed, err := m.Fetch(t.Context(), from, refs)
	must(t, err)
	return changed
}

func content(t testing.TB, m *Mirror, ref, name string) string {
	t.Helper()
	s, err := m.Snapshot(ref)
	must(t, err)
	data, err := fs.ReadFile(s.FS(), name)
	must(t, err)
	return string(data)
}

func TestMirrorFollowsBranchTagCommitAndHead(t *testing.T) {
	o := newOrigin(t)
	first := o.commit("a", "1")
	o.git("tag", "-a", "v1", "-m", "one")
	o.git("checkout", "-q", "-b", "side")
	o.commit("a", "side")
	o.git("checkout", "-q", "main")
	second := o.commit("a", "2")
	m := openMirror(t, t.TempDir())
	refs := []string{"", "HEAD", "main", "side", "v1", "refs/tags/v1", second, first}
	if changed := fetch(t, m, o, refs...); len(changed) != len(refs) {
		t.Errorf("changed = %q", changed)
	}
	for ref, want := range map[string]string{"": "2", "HEAD": "2", "main": "2", "side": "side", "v1": "1", "refs/tags/v1": "1", second: "2", first: "1"} {
		if got := content(t, m, ref, "a"); got != want {
			t.Errorf("%q has %q, want %q", ref, got, want)
		}
	}
	if got := m.Tips()["v1"]; got.Commit != first || got.ID != o.git("rev-parse", "v1") {
		t.Errorf("v1 = %+v, want the tag's id and the commit %s", got, first)
	}
	if changed := fetch(t, m, o, refs...); len(changed) != 0 || o.sent != 1 {
		t.Errorf("changed = %q where nothing did; %d packs sent", changed, o.sent)
	}
}

func TestMovedAndDeletedRefs(t *testing.T) {
	o := newOrigin(t)
	back := o.commit("a", "1")
	o.commit("a", "2")
	o.git("tag", "v1")
	o.git("branch", "side")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main", "v1", "side")
	o.git("reset", "-q", "--hard", back)
	o.commit("a", "3")
	o.git("tag", "-f", "v1")
	o.git("branch", "-D", "side")
	changed, err := m.Fetch(t.Context(), o, []string{"main", "v1", "side"})
	var gone *RefError
	if !errors.As(err, &gone) || gone.Ref != "side" || !slices.Equal(changed, []string{"main", "v1"}) {
		t.Errorf("Fetch = %q, %v", changed, err)
	}
	o.git("reset", "-q", "--hard", back)
	fetch(t, m, o, "main", "v1")
	if got := content(t, m, "main", "a") + content(t, m, "v1", "a") + content(t, m, "side", "a"); got != "132" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorServesAfterRestartWhileTheUpstreamIsAway(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	dir := t.TempDir()
	fetch(t, openMirror(t, dir), o, "main")
	o.down = errors.New("no route")
	m := openMirror(t, dir)
	if got := content(t, m, "main", "a"); got != "1" || m.Fetched().IsZero() {
		t.Errorf("content = %q, fetched %v", got, m.Fetched())
	}
	if _, err := m.Fetch(t.Context(), o, []string{"main"}); !errors.Is(err, o.down) {
		t.Errorf("Fetch: %v", err)
	}
	o.down = nil
	o.commit("a", "2")
	fetch(t, m, o, "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestABadTreeIsRefusedAndNotSentAgain(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	blob := o.git("rev-parse", "HEAD:a")
	bad := o.rawTree(treeLine(t, "100644", "..", blob))
	root := o.rawTree(treeLine(t, "40000", "apps", bad))
	refused := o.git("commit-tree", "-m", "bad", root)
	o.git("update-ref", "refs/heads/main", refused)
	for range 2 {
		_, err := m.Fetch(t.Context(), o, []string{"main"})
		var tree *snapshot.TreeError
		if !errors.As(err, &tree) || tree.Name != ".." || !strings.Contains(err.Error(), `"apps"`) {
			t.Errorf("Fetch: %v, want a TreeError below apps", err)
		}
	}
	if got := content(t, m, "main", "a"); got != "1" || o.sent != 2 {
		t.Errorf("content = %q, %d packs sent", got, o.sent)
	}
	if _, err := m.At(refused); !errors.Is(err, snapshot.ErrNotFetched) {
		t.Errorf("At the refused commit: %v", err)
	}
	if _, err := m.Snapshot(refused); !errors.Is(err, snapshot.ErrNotFetched) {
		t.Errorf("Snapshot of the refused commit: %v", err)
	}
}

func TestACommitThatLacksAFileIsRefused(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, "main")
	o.commit("dir/b", "2")
	blob := o.git("rev-parse", "HEAD:dir/b")
	o.instead = func() []byte {
		return o.packOf(slices.DeleteFunc(o.objects([]string{"HEAD"}), func(id string) bool { return id == blob }))
	}
	_, err := m.Fetch(t.Context(), o, []string{"main"})
	if err == nil || !strings.Contains(err.Error(), `file "b" in folder "dir"`) {
		t.Errorf("Fetch: %v", err)
	}
	o.instead = nil
	fetch(t, m, o, "main")
	if got := content(t, m, "main", "dir/b"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestAnObjectThatIsBothFileAndFolderIsRefused(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	bad := o.rawTree(treeLine(t, "100644", "..", o.git("rev-parse", "HEAD:a")))
	root := o.rawTree(treeLine(t, "100644", "file", bad) + treeLine(t, "40000", "folder", bad))
	commit := o.git("commit-tree", "-m", "bad", root)
	o.git("update-ref", "refs/heads/main", commit)
	o.instead = func() []byte { return o.packOf([]string{commit, root, bad}) }
	_, err := openMirror(t, t.TempDir()).Fetch(t.Context(), o, []string{"main"})
	if err == nil || !strings.Contains(err.Error(), "both a file and a folder") {
		t.Errorf("Fetch: %v", err)
	}
}

func TestWhatARefSaidOfItsHistoryIsRemembered(t *testing.T) {
	o := newOrigin(t)
	dir := t.TempDir()
	m := openMirror(t, dir)
	commit := o.commit("a", "1")
	told := tipped{o, "main", Tip{ID: "x", Commit: commit, Revision: "one", Rewound: "was 1f0c"}}
	fetch(t, m, told, "main")
	want := told.tip
	told.tip.Rewound, told.tip.Revision = "", "uno"
	fetch(t, m, told, "main")
	want.Revision = "uno"
	if got := openMirror(t, dir).Tips()["main"]; got != want {
		t.Errorf("tip = %+v, want %+v", got, want)
	}
	told.tip = Tip{ID: "y", Commit: o.commit("a", "2")}
	fetch(t, m, told, "main")
	if got := openMirror(t, dir).Tips()["main"]; got != told.tip {
		t.Errorf("tip = %+v, want %+v", got, told.tip)
	}
}

// tipped is an origin that says something else of one ref.
type tipped struct {
	*origin
	ref string
	tip Tip
}

func (o tipped) Fetch(ctx context.Context, refs []string, into Receiver) (Answer, error) {
	answer, err := o.origin.Fetch(ctx, refs, into)
	answer.Tips[o.ref] = o.tip
	return answer, err
}

// charts is an upstream of another kind: it makes a commit of what it has under each name.
type charts map[string]fstest.MapFS

func (c charts) Traffic() Traffic { return Traffic{} }

func (c charts) Fetch(ctx context.Context, refs []string, into Receiver) (Answer, error) {
	a := Answer{Tips: map[string]Tip{}}
	for _, ref := range refs {
		files, ok := c[ref]
		if !ok {
			a.Problems = append(a.Problems, &RefError{Ref: ref, Err: errors.New("no such chart")})
			continue
		}
		commit, err := into.Tree(ctx, files, About{Author: "charts.example.com", Message: ref, Time: time.Unix(1e9, 0)})
		if err != nil {
			a.Problems = append(a.Problems, &RefError{Ref: ref, Err: err})
			continue
		}
		a.Tips[ref] = Tip{ID: commit, Commit: commit, Revision: ref}
	}
	return a, nil
}

// put changes one file of a chart.
func (c charts) put(chart, name, text string) {
	files := maps.Clone(c[chart])
	if files == nil {
		files = fstest.MapFS{}
	}
	files[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	c[chart] = files
}

func TestACommitAskedForByItsIDIsKeptWithoutTheUpstreamsHelp(t *testing.T) {
	c := charts{}
	c.put("main", "a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, c, "main")
	first := m.Tips()["main"].Commit
	for i := range maxPacks + 3 {
		c.put("main", "a", fmt.Sprint("more", i))
		fetch(t, m, c, "main", first)
	}
	if got := content(t, m, first, "a"); got != "1" || len(m.Manifest().Packs) > 5 {
		t.Errorf("content = %q, packs %v", got, m.Manifest().Packs)
	}
	if _, err := m.Fetch(t.Context(), c, []string{strings.Repeat("1", 40)}); err == nil {
		t.Error("an unknown commit was found")
	}
}

func TestMirrorSurvivesWhatAKilledProcessLeaves(t *testing.T) {
	o := newOrigin(t)
	o.commit("a", "1")
	dir := t.TempDir()
	m := openMirror(t, dir)
	fetch(t, m, o, "main")
	packs := packDir(m.generation())
	litter := []string{
		filepath.Join(packs, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2"),
		filepath.Join(packs, "pack-"+strings.Repeat("a", 40)+".idx"), filepath.Join(dir, generationPrefix+"x", "half"),
	}
	for _, name := range litter {
		must(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("half"), 0o600)))
	}
	m = openMirror(t, dir)
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	o.commit("a", "2")
	fetch(t, m, o, "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
	for _, name := range []string{litter[0], litter[1], filepath.Dir(litter[3])} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestManyFetchesAreCompactedAndStayReadable(t *testing.T) {
	c := charts{}
	c.put("main", "keep/a", "kept")
	m := openMirror(t, t.TempDir())
	var before *snapshot.Snapshot
	for i := range maxPacks + 3 {
		c.put("main", "a", fmt.Sprint(i))
		if i == maxPacks {
			before, _ = m.Snapshot("main")
		}
		fetch(t, m, c, "main")
	}
	if n := len(m.Manifest().Packs); n > 5 {
		t.Errorf("%d packs", n)
	}
	if got := content(t, m, "main", "a") + content(t, m, "main", "keep/a"); got != fmt.Sprint(maxPacks+2)+"kept" {
		t.Errorf("content = %q", got)
	}
	if data, err := fs.ReadFile(before.FS(), "a"); err != nil || string(data) != fmt.Sprint(maxPacks-1) {
		t.Errorf("the snapshot taken before reads %q, %v", data, err)
	}
	entries, err := os.ReadDir(m.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("mirror holds %v, %v; want the state and one generation", entries, err)
	}
}

func TestASnapshotThatOutlivedItsCommitIsNoDamage(t *testing.T) {
	c := charts{}
	c.put("main", "a", "first")
	m := openMirror(t, t.TempDir())
	fetch(t, m, c, "main")
	old, err := m.Snapshot("main")
	must(t, err)
	for i := range maxPacks + 3 {
		c.put("main", "a", fmt.Sprint(i))
		fetch(t, m, c, "main")
	}
	if _, err := fs.ReadFile(old.FS(), "a"); err == nil {
		t.Error("a commit from before the compaction is still there")
	}
	generation := m.state.Generation
	fetch(t, m, c, "main")
	if m.state.Generation != generation {
		t.Error("everything was fetched anew")
	}
}

func TestStateOfTheFirstFormOpens(t *testing.T) {
	o := newOrigin(t)
	commit := o.commit("a", "1")
	dir := t.TempDir()
	m := openMirror(t, dir)
	fetch(t, m, o, "main")
	old := fmt.Sprintf(`{"generation":%q,"fetched":"2024-01-02T03:04:05Z","refs":{"main":{"tip":%q,"commit":%[2]q,"asked":"2024-01-02T03:04:05Z"}}}`,
		m.state.Generation, commit)
	must(t, os.WriteFile(filepath.Join(dir, stateFile), []byte(old), 0o600))
	m = openMirror(t, dir)
	if got := m.Tips()["main"]; got != (Tip{ID: commit, Commit: commit}) || content(t, m, "main", "a") != "1" {
		t.Errorf("tip = %+v", got)
	}
	if want := time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC); !m.Fetched().Equal(want) {
		t.Errorf("fetched = %v", m.Fetched())
	}
	if changed := fetch(t, m, o, "main"); len(changed) != 0 || o.sent != 1 {
		t.Errorf("changed = %q, %d packs sent", changed, o.sent)
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"generation":"objects-1","fetched":"2024-01-02T03:04:05Z","refs":{"main":{"tip":"x","commit":"1111111111111111111111111111111111111111"}}}`))
	f.Add([]byte(`{"generation":"objects-/../..","refs":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, ok := parseState(data)
		if !ok {
			return
		}
		if strings.ContainsAny(s.Generation, "/\\\x00") && filepath.Base(s.Generation) != s.Generation {
			t.Fatalf("generation %q leaves the folder", s.Generation)
		}
		for _, commit := range s.commits() {
			if len(commit) != 40 {
				t.Fatalf("commit %q", commit)
			}
		}
	})
}
