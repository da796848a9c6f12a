package scale

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pluralsh/plural/api/bundle"
	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/gitsource"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// TestBundleIsTheSameBytesWhereverACommitCameFrom packs one commit as replicas find it that have nothing in common but
// the remote: two clones that were packed differently, a mirror that fetched it alone, one that came to it through
// older commits, compacted since, and was opened again.
func TestBundleIsTheSameBytesWhereverACommitCameFrom(t *testing.T) {
	origin := newOrigin(t)
	older := origin.commit(map[string]string{
		"apps/web/values.yaml": "replicas: 1\n", "apps/web/templates/a.yaml": strings.Repeat("a: b\n", 5000),
	})
	origin.commit(map[string]string{
		"apps/web/values.yaml": "replicas: 2\n", "apps/web/run.sh": "#!/bin/sh\n", "lib/x": "x",
	})
	origin.git("update-index", "--chmod=+x", "apps/web/run.sh")
	commit := origin.commit(map[string]string{"apps/web/templates/a.yaml": strings.Repeat("a: b\n", 4999) + "a: c\n"})

	want, key := packed(t, open(t, origin.dir, commit))
	places := map[string]*snapshot.Snapshot{
		"clone":          origin.clone(commit),
		"repacked clone": origin.clone(commit, "repack", "-adfq", "--depth=1"),
		"fresh mirror":   origin.mirrored(t.TempDir(), commit),
		"old mirror":     origin.compacted(older, commit),
	}
	for name, snap := range places {
		got, gotKey := packed(t, snap)
		if gotKey != key {
			t.Errorf("%s: key %s, want %s", name, gotKey, key)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes that differ from the %d of the origin", name, len(got), len(want))
		}
	}
}

// packed gives a bundle of a folder and a file, and its key.
func packed(t *testing.T, snap *snapshot.Snapshot) (data []byte, key string) {
	t.Helper()
	var out bytes.Buffer
	var inputs []bundle.Input
	for _, path := range []string{"apps/web", "lib/x"} {
		hash, mode, err := snap.Hash(path)
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, bundle.Input{Path: path, Hash: string(hash), Dir: mode.IsDir()})
	}
	if err := bundle.Pack(&out, snap.FS(), []string{"apps/web", "lib/x"}, bundle.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), bundle.Key(inputs)
}

func open(t *testing.T, dir, revision string) *snapshot.Snapshot {
	t.Helper()
	snap, err := snapshot.Open(dir, revision)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// origin is a git repository that others fetch.
type origin struct {
	t   *testing.T
	dir string
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	needs.Program(t, "git", "your system's packages")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("HOME", t.TempDir())
	o := &origin{t, t.TempDir()}
	o.git("init", "-q", "-b", "main")
	return o
}

func (o *origin) git(args ...string) string {
	o.t.Helper()
	return gitIn(o.t, o.dir, args...)
}

func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	as := []string{"-c", "user.name=scale", "-c", "user.email=scale@example.com"}
	git := exec.CommandContext(t.Context(), "git", append(as, args...)...)
	git.Dir = dir
	out, err := git.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

func (o *origin) commit(files map[string]string) string {
	o.t.Helper()
	for name, content := range files {
		file := filepath.Join(o.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			o.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			o.t.Fatal(err)
		}
		o.git("add", name)
	}
	o.git("commit", "-qm", "Change")
	return o.git("rev-parse", "HEAD")
}

// clone clones, then runs git in the clone, if there is something to run.
func (o *origin) clone(commit string, then ...string) *snapshot.Snapshot {
	o.t.Helper()
	dir := filepath.Join(o.t.TempDir(), "clone")
	o.git("clone", "-q", "--no-local", o.dir, dir)
	if len(then) > 0 {
		gitIn(o.t, dir, then...)
	}
	return open(o.t, dir, commit)
}

// mirrored fetches commits one after the other into a mirror, and gives the last.
func (o *origin) mirrored(dir string, commits ...string) *snapshot.Snapshot {
	o.t.Helper()
	o.git("config", "uploadpack.allowAnySHA1InWant", "true")
	m, err := mirror.Open(dir)
	if err != nil {
		o.t.Fatal(err)
	}
	from, err := gitsource.New(gitsource.Options{URL: "file://" + o.dir, AllowFile: true})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, commit := range commits {
		if _, err := m.Fetch(o.t.Context(), from, []string{commit}); err != nil {
			o.t.Fatal(err)
		}
	}
	return at(o.t, m, commits[len(commits)-1])
}

func at(t *testing.T, m *mirror.Mirror, commit string) *snapshot.Snapshot {
	t.Helper()
	snap, err := m.At(commit)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// compacted fetches commits into a mirror, lets it gather packs until it makes them into one, and opens it again.
func (o *origin) compacted(commits ...string) *snapshot.Snapshot {
	o.t.Helper()
	dir := o.t.TempDir()
	o.mirrored(dir, commits...)
	m, err := mirror.Open(dir)
	if err != nil {
		o.t.Fatal(err)
	}
	first := m.Manifest().Packs
	for n := 0; slices.Contains(m.Manifest().Packs, first[len(first)-1]); n++ {
		if n == 100 {
			o.t.Fatal("the mirror never compacts")
		}
		if _, err := m.Fetch(o.t.Context(), other{n}, []string{"other"}); err != nil {
			o.t.Fatal(err)
		}
	}
	again, err := mirror.Open(dir)
	if err != nil {
		o.t.Fatal(err)
	}
	return at(o.t, again, commits[len(commits)-1])
}

// other is an upstream that names something new each time.
type other struct{ n int }

func (o other) Traffic() mirror.Traffic { return mirror.Traffic{} }

func (o other) Fetch(ctx context.Context, refs []string, into mirror.Receiver) (mirror.Answer, error) {
	files := fstest.MapFS{"n": {Data: fmt.Append(nil, o.n), Mode: 0o644}}
	about := mirror.About{Author: "Ada <ada@example.com>", Message: "n", Time: time.Unix(1, 0)}
	commit, err := into.Tree(ctx, files, about)
	return mirror.Answer{Tips: map[string]mirror.Tip{refs[0]: {ID: commit, Commit: commit, Revision: commit}}}, err
}
