package revert_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
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
	"github.com/pluralsh/plural/workspace/revert"
)

// repo is a repository that the program git made.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	t.Setenv("HOME", r.dir)
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-c", "user.name=ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// put writes files as a plan has them.
func (r *repo) put(files map[string][]byte) {
	r.t.Helper()
	for path, content := range files { // first what goes: something else may take its place
		if content == nil {
			r.git("rm", "-q", "-f", path)
		}
	}
	for path, content := range files {
		name := filepath.Join(r.dir, path)
		if content == nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

// commit writes files, in pairs of path and content, of which "-" removes one, and commits them.
func (r *repo) commit(files ...string) string {
	r.t.Helper()
	all := map[string][]byte{}
	for i := 0; i < len(files); i += 2 {
		if all[files[i]] = []byte(files[i+1]); files[i+1] == "-" {
			all[files[i]] = nil
		}
	}
	return r.commitAll("change", all)
}

func (r *repo) commitAll(message string, files map[string][]byte) string {
	r.t.Helper()
	r.put(files)
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", message)
	return r.git("rev-parse", "HEAD")
}

// of is the plan to take a commit back at the head.
func (r *repo) of(commit string) (*revert.Plan, error) {
	r.t.Helper()
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	found, err := history.Of(g.Storer).Revision(r.t.Context(), commit)
	if err != nil {
		r.t.Fatal(err)
	}
	return revert.Of(r.t.Context(), g.Storer, r.git("rev-parse", "HEAD"), found)
}

func (r *repo) tree(commit string) string { r.t.Helper(); return r.git("rev-parse", commit+"^{tree}") }

// undo takes a commit back, and commits that.
func (r *repo) undo(commit string) {
	r.t.Helper()
	plan, err := r.of(commit)
	if err != nil {
		r.t.Fatal(err)
	}
	r.commitAll("undo", plan.Files)
}

func TestWhatIsTakenBackIsExactlyWhatItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := newRepo(t)
	names := []string{"plural.yaml", "services/a.yaml", "services/b.yaml", "apps/a/deep/x.yaml", "apps/a/y.yaml", "clusters/c.yaml", "empty"}
	known := map[string]bool{}
	edit := func(round int) map[string][]byte {
		files := map[string][]byte{}
		for _, name := range names {
			switch random.IntN(5) {
			case 0, 1:
				known[name] = true
				files[name] = fmt.Appendf(nil, "round: %d\nname: %s\n%s", round, name, strings.Repeat("line\n", random.IntN(20)))
			case 2:
				if known[name] {
					files[name] = nil
				}
				delete(known, name)
			case 3:
				known[name] = true
				files[name] = []byte{}
			}
		}
		return files
	}
	r.commitAll("start", edit(0))
	for round := range 12 {
		before := r.tree("HEAD")
		id := r.commitAll("edit", edit(round+1))
		elsewhere := map[string][]byte{fmt.Sprintf("other/%d", round): []byte("x")}
		if round%3 == 0 { // what comes after it and touches other files stays
			r.commitAll("elsewhere", elsewhere)
		}
		r.undo(id)
		if round%3 == 0 {
			r.put(map[string][]byte{fmt.Sprintf("other/%d", round): nil})
			r.git("commit", "-q", "-am", "clean")
		}
		if after := r.tree("HEAD"); after != before {
			t.Fatalf("round %d: %s", round, r.git("diff", "--stat", before, after))
		}
		if plan, err := r.of(id); err != nil || len(plan.Files) > 0 {
			t.Fatalf("round %d: taken back twice: %v, %v", round, plan, err)
		}
		undone := r.git("rev-parse", "HEAD")
		if round%3 != 0 && len(r.git("diff", "--stat", "HEAD~1")) > 0 {
			r.undo(undone) // and an undo is undone
			if r.tree("HEAD") != r.tree(id) {
				t.Fatalf("round %d: redone: %s", round, r.git("diff", "--stat", id, "HEAD"))
			}
		}
		known = map[string]bool{}
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
				known[name] = true
			}
		}
	}
}

func TestLaterChangesOfOtherLinesStay(t *testing.T) {
	r := newRepo(t)
	r.commit("services/web.yaml", "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n")
	id := r.commit("services/web.yaml", "a: 2\nb: 1\nc: 1\nd: 1\ne: 1\n")
	r.commit("services/web.yaml", "a: 2\nb: 1\nc: 1\nd: 1\ne: 2\n")
	plan, err := r.of(id)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(plan.Files["services/web.yaml"]); got != "a: 1\nb: 1\nc: 1\nd: 1\ne: 2\n" {
		t.Errorf("%q", got)
	}
}

func TestAMergeIsTakenBackAsAWhole(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1", "b", "1")
	r.git("checkout", "-qb", "side")
	r.commit("a", "2")
	r.commit("c", "1")
	r.git("checkout", "-q", "main")
	r.commit("b", "2")
	before := r.tree("HEAD")
	r.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	r.undo(r.git("rev-parse", "HEAD"))
	if after := r.tree("HEAD"); after != before {
		t.Error(r.git("diff", before, after))
	}
}

func TestWhatStandsInTheWayIsNamed(t *testing.T) {
	sealed := func(text string) string { return "age-encryption.org/v1\n-> " + text + "\n" }
	for _, tt := range []struct {
		name                string
		before, then, after []string
		path, reason        string
	}{
		{"the same lines", []string{"a", "1\n"}, []string{"a", "2\n"}, []string{"a", "3\n"}, "a", "the same lines"},
		{"removed since", []string{"a", "1\n"}, []string{"a", "2\n"}, []string{"a", "-"}, "a", "removed since"},
		{"added and changed since", []string{"b", "1"}, []string{"a", "2\n"}, []string{"a", "3\n"}, "a", "added, and changed since"},
		{"removed and there again", []string{"a", "1\n"}, []string{"a", "-"}, []string{"a", "3\n"}, "a", "there again"},
		{"a folder in its place", []string{"a", "1\n"}, []string{"a", "2\n"}, []string{"a", "-", "a/b", "1"}, "a", "removed since"},
		{"no name for a file", []string{"a", "1\n"}, []string{"a\tb", "1\n"}, nil, "a\tb", "its name holds a control character"},
		{
			"sealed again",
			[]string{"s", sealed("1")},
			[]string{"s", sealed("2")},
			[]string{"s", sealed("3")},
			"s", "sealed again since",
		},
		{"in clear before", []string{"s", "clear"}, []string{"s", sealed("2")}, nil, "s", "it was in clear before"},
		{
			"who can open what",
			[]string{".plural/seal.yaml", "1\n2\n3\n4\n5\n"},
			[]string{".plural/seal.yaml", "0\n2\n3\n4\n5\n"},
			[]string{".plural/seal.yaml", "0\n2\n3\n4\n6\n"},
			".plural/seal.yaml", "who can open what was changed again",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRepo(t)
			r.commit(tt.before...)
			id := r.commit(tt.then...)
			later := ""
			if tt.after != nil {
				later = r.commit(tt.after...)
			}
			r.commit("elsewhere", "1")
			_, err := r.of(id)
			var stuck *revert.ConflictError
			if !errors.As(err, &stuck) || len(stuck.Conflicts) != 1 {
				t.Fatalf("%v", err)
			}
			c := stuck.Conflicts[0]
			if c.Path != tt.path || !strings.Contains(c.Reason, tt.reason) {
				t.Errorf("%s: %s", c.Path, c.Reason)
			}
			if later != "" && (len(c.Since) != 1 || c.Since[0].ID != later) {
				t.Errorf("since: %v", c.Since)
			}
		})
	}
}

func TestLinksAndModesAreLeftToGit(t *testing.T) {
	for name, change := range map[string]func(r *repo){
		"a link": func(r *repo) {
			if err := os.Symlink("a", filepath.Join(r.dir, "link")); err != nil {
				r.t.Fatal(err)
			}
		},
		"made executable": func(r *repo) {
			if err := os.Chmod(filepath.Join(r.dir, "a"), 0o755); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.commit("a", "1")
			change(r)
			id := r.commit("b", "1")
			if _, err := r.of(id); err == nil || !errors.As(err, new(*revert.ConflictError)) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestSealedFilesAreNamedWithThoseWhoSayWhoCanOpenThem(t *testing.T) {
	r := newRepo(t)
	old := "age-encryption.org/v1\n-> 1\n"
	r.commit("secrets/db.yaml", old, ".plural/groups/prod/recipient.txt", "one\n")
	id := r.commit("secrets/db.yaml", "age-encryption.org/v1\n-> 2\n", ".plural/groups/prod/recipient.txt", "two\n", "a", "1")
	plan, err := r.of(id)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(plan.Sealed, []string{"secrets/db.yaml"}) || !slices.Equal(plan.Trust, []string{".plural/groups/prod/recipient.txt"}) {
		t.Errorf("sealed %v, trust %v", plan.Sealed, plan.Trust)
	}
	if !bytes.Equal(plan.Files["secrets/db.yaml"], []byte(old)) || plan.Files["a"] != nil {
		t.Errorf("%q", plan.Files)
	}
}

func TestAPartGoesBackToACommitAndSecretsStay(t *testing.T) {
	r := newRepo(t)
	was := r.commit("services/web.yaml", "1", "apps/web/a", "1", "apps/web/s", "age-encryption.org/v1\n1", "services/api.yaml", "1")
	r.commit("services/web.yaml", "2", "apps/web/a", "-", "apps/web/b", "1", "apps/web/s", "age-encryption.org/v1\n2", "services/api.yaml", "2")
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := revert.At(t.Context(), g.Storer, r.git("rev-parse", "HEAD"), was, history.Paths("services/web.yaml", "apps/web"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"services/web.yaml": []byte("1"), "apps/web/a": []byte("1"), "apps/web/b": nil}
	if diff := cmp.Diff(want, plan.Files); diff != "" || !slices.Equal(plan.Kept, []string{"apps/web/s"}) {
		t.Errorf("kept %v (-want +got):\n%s", plan.Kept, diff)
	}
}

func TestWhoMayDoWhatAndWhichClustersThereAreStaysWhereAPartIsEverything(t *testing.T) {
	r := newRepo(t)
	was := r.commit("access/ada.yaml", "token: old", "clusters/a.yaml", "keys: old", "clusters/apps/x.yaml", "1", "services/web.yaml", "1")
	id := r.commit("access/ada.yaml", "token: new", "clusters/a.yaml", "keys: new", "clusters/apps/x.yaml", "2", "services/web.yaml", "2")
	g, err := git.PlainOpen(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := revert.At(t.Context(), g.Storer, id, was, history.Paths("."))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{"services/web.yaml": []byte("1"), "clusters/apps/x.yaml": []byte("1")}
	if diff := cmp.Diff(want, plan.Files); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plan, err = r.of(id)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(plan.Trust, []string{"access/ada.yaml"}) {
		t.Errorf("trust %v", plan.Trust)
	}
}

func TestAgentsThatAreLetInAgainAreNamed(t *testing.T) {
	f := func(clusters map[string]fleet.ClusterSpec) *fleet.Fleet {
		out := &fleet.Fleet{}
		for _, name := range slices.Sorted(maps.Keys(clusters)) {
			out.Clusters = append(out.Clusters, fleet.Cluster{Metadata: fleet.Metadata{Name: name}, Spec: clusters[name]})
		}
		return out
	}
	old, now := fleet.AgentKeys{Auth: "ed25519:old"}, fleet.AgentKeys{Auth: "ed25519:new"}
	before := f(map[string]fleet.ClusterSpec{
		"same": {Agent: now}, "other": {Agent: now}, "leaves": {Agent: now}, "joins": {Agent: now}, "tags": {Agent: now},
	})
	after := f(map[string]fleet.ClusterSpec{
		"same": {Agent: now}, "other": {Agent: old}, "leaves": {}, "joins": {Join: &fleet.Join{}}, "returns": {Agent: old}, "empty": {},
		"tags": {Agent: now, Tags: map[string]string{"a": "b"}},
	})
	got := (&revert.Plan{}).Touches(before, after, nil).Agents
	if diff := cmp.Diff([]string{"joins", "other", "returns"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPlanTouchesServicesAndTheirClusters(t *testing.T) {
	f := func(services ...string) *fleet.Fleet {
		var docs []string
		for _, name := range services {
			docs = append(docs, "apiVersion: plural.sh/v1alpha1\nkind: Service\nmetadata: {name: "+name+"}\nspec:\n"+
				"  source: {path: apps/"+name+"}\n  clusters: {matchLabels: {run: "+name+"}}\n")
		}
		list, err := fleet.ReadServices("services/all.yaml", []byte(strings.Join(docs, "---\n")))
		if err != nil {
			t.Fatal(err)
		}
		out := &fleet.Fleet{Services: list}
		for _, name := range []string{"web", "api", "db"} {
			c := fleet.Cluster{Metadata: fleet.Metadata{Name: "on-" + name}, Position: fleet.Position{File: "clusters/" + name + ".yaml"}}
			c.Spec.Tags = map[string]string{"run": name}
			out.Clusters = append(out.Clusters, c)
		}
		return out
	}
	plan := &revert.Plan{Files: map[string][]byte{"apps/web/x": nil, "clusters/db.yaml": []byte("x")}}
	got := plan.Touches(f("api", "web"), f("api", "web"), nil)
	want := revert.Touched{Services: []string{"web"}, Clusters: []string{"on-db", "on-web"}, Changed: []string{"on-db"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plan = &revert.Plan{Files: map[string][]byte{"services/all.yaml": nil}}
	got = plan.Touches(f("api", "web"), f("web"), nil)
	want = revert.Touched{Services: []string{"web"}, Gone: []string{"api"}, Clusters: []string{"on-api", "on-web"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gone (-want +got):\n%s", diff)
	}
}
