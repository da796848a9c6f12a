package mirror

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/workspace/snapshot"
)

func receive(t testing.TB, m *Mirror) *receiver {
	t.Helper()
	r, err := m.receiver(t.Context())
	must(t, err)
	return r
}

var about = About{Author: "charts.example.com <x>", Message: "web 1.2.3\n", Time: time.Date(2024, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))}

func TestFilesBecomeTheCommitThatGitWouldMakeOfThem(t *testing.T) {
	repo := newRepo(t)
	files := fstest.MapFS{
		"Chart.yaml":        {Data: []byte("name: web\n"), Mode: 0o600},
		"templates/a.yaml":  {Data: []byte("a"), Mode: 0o644, ModTime: time.Now()},
		"templates.d/b":     {Data: nil, Mode: 0o444},
		"hooks/run.sh":      {Data: []byte("#!/bin/sh\n"), Mode: 0o700},
		"empty/folder/here": {Mode: fs.ModeDir | 0o755},
	}
	for name, file := range files {
		if file.Mode.IsRegular() {
			repo.write(name, string(file.Data))
		}
	}
	must(t, os.Chmod(repo.dir+"/hooks/run.sh", 0o755))
	repo.git("add", "-A")
	tree := repo.git("write-tree")

	m := openMirror(t, t.TempDir())
	r := receive(t, m)
	commit, err := r.Tree(t.Context(), files, about)
	must(t, err)
	_, body, err := r.Object(commit)
	must(t, err)
	want := fmt.Sprintf("tree %s\nauthor charts.example.com x <> 1704161045 +0000\ncommitter charts.example.com x <> 1704161045 +0000\n\nweb 1.2.3\n", tree)
	if string(body) != want {
		t.Errorf("commit is\n%s\nwant\n%s", body, want)
	}
	if id := repo.run(string(body), "hash-object", "-t", "commit", "--stdin"); id != commit || !r.Complete(commit) {
		t.Errorf("commit %s, git says %s", commit, id)
	}
	if packs := m.Manifest().Packs; len(packs) != 1 {
		t.Errorf("packs %v, want one", packs)
	}
	again, err := receive(t, openMirror(t, t.TempDir())).Tree(t.Context(), files, about)
	if err != nil || again != commit {
		t.Errorf("another mirror made %s, %v", again, err)
	}
	if again, err = r.Tree(t.Context(), files, about); err != nil || again != commit || len(m.Manifest().Packs) != 1 {
		t.Errorf("the same once more made %s, %v, packs %v", again, err, m.Manifest().Packs)
	}
}

func TestFilesThatATreeShouldNotHoldAreRefused(t *testing.T) {
	deep := strings.Repeat("d/", snapshot.MaxDepth+1) + "f"
	cases := map[string]fstest.MapFS{
		"link":     {"a": {Mode: fs.ModeSymlink | 0o777, Data: []byte("/etc/passwd")}},
		"device":   {"a": {Mode: fs.ModeDevice | 0o600}},
		"pipe":     {"a": {Mode: fs.ModeNamedPipe | 0o600}},
		"git":      {"x/.git/hooks/pre-commit": {Data: []byte("x")}},
		"Git":      {"x/.GIT/config": {Data: []byte("x")}},
		"short":    {"git~1/config": {Data: []byte("x")}},
		"control":  {"a\x1b[31m": {Data: []byte("x")}},
		"windows":  {`a\b`: {Data: []byte("x")}},
		"long":     {strings.Repeat("x", 256): {Data: []byte("x")}},
		"deep":     {deep: {Data: []byte("x")}},
		"large":    {"a": {Data: make([]byte, snapshot.MaxBlob+1)}},
		"nothing":  {},
		"no files": {"a/b": {Mode: fs.ModeDir | 0o755}},
	}
	for name, files := range cases {
		t.Run(name, func(t *testing.T) {
			m := openMirror(t, t.TempDir())
			_, err := receive(t, m).Tree(t.Context(), files, about)
			if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("Tree: %v", err)
			}
			if left, err := os.ReadDir(packDir(m.generation())); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// withLinks makes a commit of the files under main, with gitlinks at some paths.
func withLinks(r *repo, at ...string) string {
	r.t.Helper()
	r.commit("apps/web/a", "main")
	for _, name := range at {
		r.git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+","+name)
	}
	r.git("commit", "-q", "-m", "links\n\nwith words")
	return r.git("rev-parse", "HEAD")
}

func TestSubmodulesAreGraftedInAsGitWouldReadThem(t *testing.T) {
	o := newOrigin(t)
	main := withLinks(o.repo, "lib", "apps/web/sub", "other")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, main)
	r := receive(t, m)
	lib, err := r.Tree(t.Context(), fstest.MapFS{"x/y": {Data: []byte("lib")}}, about)
	must(t, err)
	sub, err := r.Tree(t.Context(), fstest.MapFS{"z": {Data: []byte("sub")}}, about)
	must(t, err)
	made, err := r.Graft(t.Context(), main, map[string]string{"lib": lib, "apps/web/sub": sub})
	must(t, err)
	must(t, r.accept(made))
	s, err := r.objects.Snapshot(snapshot.Hash(made))
	must(t, err)
	for name, want := range map[string]string{"lib/x/y": "lib", "apps/web/sub/z": "sub", "apps/web/a": "main"} {
		if data, err := fs.ReadFile(s.FS(), name); err != nil || string(data) != want {
			t.Errorf("%s = %q, %v", name, data, err)
		}
	}
	if _, mode, err := s.Hash("other"); err != nil || mode.Type() != fs.ModeIrregular {
		t.Errorf("the link that was not asked for has mode %v, %v", mode, err)
	}
	_, body, err := r.Object(made)
	must(t, err)
	_, before, err := r.Object(main)
	must(t, err)
	_, words, _ := strings.Cut(string(before), "\nauthor ")
	if tree, rest, _ := strings.Cut(string(body), "\nauthor "); rest != words || strings.Contains(tree, "parent") {
		t.Errorf("commit is\n%s\nmade of\n%s", body, before)
	}
	if again, err := r.Graft(t.Context(), main, map[string]string{"lib": lib, "apps/web/sub": sub}); err != nil || again != made {
		t.Errorf("the same once more made %s, %v", again, err)
	}
}

func TestASubmodulesSubmoduleIsGraftedInOneStep(t *testing.T) {
	o := newOrigin(t)
	main := withLinks(o.repo, "lib")
	o.git("checkout", "-q", "--orphan", "inner")
	o.git("rm", "-rfq", "--cached", ".")
	inner := withLinks(o.repo, "deep/er")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, main, inner)
	r := receive(t, m)
	leaf, err := r.Tree(t.Context(), fstest.MapFS{"f": {Data: []byte("leaf")}}, about)
	must(t, err)
	made, err := r.Graft(t.Context(), main, map[string]string{"lib": inner, "lib/deep/er": leaf})
	must(t, err)
	s, err := r.objects.Snapshot(snapshot.Hash(made))
	must(t, err)
	if data, err := fs.ReadFile(s.FS(), "lib/deep/er/f"); err != nil || string(data) != "leaf" {
		t.Errorf("content = %q, %v", data, err)
	}
}

func TestAGraftThatDoesNotFitIsRefused(t *testing.T) {
	o := newOrigin(t)
	main := withLinks(o.repo, "lib")
	m := openMirror(t, t.TempDir())
	fetch(t, m, o, main)
	r := receive(t, m)
	for name, at := range map[string]map[string]string{
		"not there": {"nope": main}, "a file": {"apps/web/a": main}, "a folder": {"apps": main}, "below a link": {"lib/x": main},
		"outside": {"../lib": main}, "root": {".": main}, "empty": {"": main}, "unknown commit": {"lib": strings.Repeat("2", 40)},
		"not a commit": {"lib": "main"},
	} {
		if made, err := r.Graft(t.Context(), main, at); err == nil {
			t.Errorf("%s: made %s", name, made)
		}
	}
	if _, err := r.Graft(t.Context(), strings.Repeat("2", 40), nil); !missing(err) {
		t.Errorf("Graft of an unknown commit: %v", err)
	}
	if _, _, err := r.Object(strings.Repeat("2", 40)); !missing(err) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Object: %v", err)
	}
}
