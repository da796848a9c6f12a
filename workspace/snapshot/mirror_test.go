package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func openMirror(t testing.TB, dir string) *Mirror {
	t.Helper()
	m, err := OpenMirror(dir, MirrorOptions{AllowFile: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fetch(t testing.TB, m *Mirror, url string, refs ...string) []string {
	t.Helper()
	changed, err := m.Fetch(t.Context(), url, refs)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func content(t testing.TB, m *Mirror, ref, name string) string {
	t.Helper()
	s, err := m.Snapshot(ref)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(s.FS(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestMirrorFollowsBranchTagCommitAndHead(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	r.git("tag", "-a", "v1", "-m", "one")
	r.git("checkout", "-q", "-b", "side")
	r.commit("a", "side")
	r.git("checkout", "-q", "main")
	second := r.commit("a", "2")
	m := openMirror(t, t.TempDir())
	refs := []string{"", "HEAD", "main", "side", "v1", "refs/tags/v1", second, first}
	if changed := fetch(t, m, r.url(), refs...); len(changed) != len(refs) {
		t.Errorf("changed = %q", changed)
	}
	for ref, want := range map[string]string{"": "2", "HEAD": "2", "main": "2", "side": "side", "v1": "1", "refs/tags/v1": "1", second: "2", first: "1"} {
		if got := content(t, m, ref, "a"); got != want {
			t.Errorf("%q has %q, want %q", ref, got, want)
		}
	}
	if got := m.Commits()["v1"]; got != first {
		t.Errorf("v1 = %s, want the commit %s", got, first)
	}
	if changed := fetch(t, m, r.url(), refs...); len(changed) != 0 {
		t.Errorf("changed = %q where nothing did", changed)
	}
}

func TestMirrorFetchesNoHistory(t *testing.T) {
	r := newRepo(t)
	old := r.commit("a", "1")
	r.commit("a", "2")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main")
	r.commit("b", "3")
	fetch(t, m, r.url(), "main")
	if _, err := m.objects.snapshot(hash(old)); err == nil {
		t.Error("the first commit was fetched too")
	}
	if got := content(t, m, "main", "a") + content(t, m, "main", "b"); got != "23" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorFollowsAForcedPushAndAMovedTag(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	back := r.git("rev-parse", "HEAD")
	r.commit("a", "2")
	r.git("tag", "v1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main", "v1")
	r.git("reset", "-q", "--hard", back)
	r.commit("a", "3")
	r.git("tag", "-f", "v1")
	if changed := fetch(t, m, r.url(), "main", "v1"); !slices.Equal(changed, []string{"main", "v1"}) {
		t.Errorf("changed = %q", changed)
	}
	r.git("reset", "-q", "--hard", back)
	fetch(t, m, r.url(), "main", "v1")
	if got := content(t, m, "main", "a") + content(t, m, "v1", "a"); got != "13" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorKeepsTheLastGoodCommitOfADeletedBranch(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("branch", "side")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main", "side")
	r.git("branch", "-D", "side")
	r.commit("a", "2")
	changed, err := m.Fetch(t.Context(), r.url(), []string{"main", "side"})
	var gone *RefError
	if !errors.As(err, &gone) || gone.Ref != "side" || !slices.Equal(changed, []string{"main"}) {
		t.Errorf("Fetch = %q, %v", changed, err)
	}
	if got := content(t, m, "main", "a") + content(t, m, "side", "a"); got != "21" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorServesAfterRestartWhileOriginIsAway(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	dir := t.TempDir()
	fetch(t, openMirror(t, dir), r.url(), "main")
	away := r.dir + "-away"
	if err := os.Rename(r.dir, away); err != nil {
		t.Fatal(err)
	}
	m := openMirror(t, dir)
	if got := content(t, m, "main", "a"); got != "1" || m.Fetched().IsZero() {
		t.Errorf("content = %q, fetched %v", got, m.Fetched())
	}
	if _, err := m.Fetch(t.Context(), r.url(), []string{"main"}); err == nil {
		t.Error("Fetch from a repository that is away succeeded")
	}
	if err := os.Rename(away, r.dir); err != nil {
		t.Fatal(err)
	}
	r.commit("a", "2")
	fetch(t, m, r.url(), "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorRefusesAnUnknownCommitAndAnEmptyRepository(t *testing.T) {
	r := newRepo(t)
	m := openMirror(t, t.TempDir())
	if _, err := m.Fetch(t.Context(), r.url(), []string{"main"}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("Fetch of an empty repository: %v", err)
	}
	r.commit("a", "1")
	missing := strings.Repeat("1", 40)
	_, err := m.Fetch(t.Context(), r.url(), []string{missing, "main"})
	if err == nil || !strings.Contains(err.Error(), "not in any branch or tag") {
		t.Errorf("Fetch of an unknown commit: %v", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	if _, err := m.Snapshot(missing); !errors.Is(err, ErrNotFetched) {
		t.Errorf("Snapshot: %v", err)
	}
}

func TestMirrorRefusesABadTreeAndKeepsTheLastGoodCommit(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main")
	blob := r.git("rev-parse", "HEAD:a")
	bad := r.rawTree(treeLine(t, "100644", "..", blob))
	root := r.rawTree(treeLine(t, "40000", "apps", bad))
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", "-m", "bad", root))
	_, err := m.Fetch(t.Context(), r.url(), []string{"main"})
	var tree *TreeError
	if !errors.As(err, &tree) || tree.Name != ".." || !strings.Contains(err.Error(), `"apps"`) {
		t.Errorf("Fetch: %v, want a TreeError below apps", err)
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

func TestMirrorSurvivesWhatAKilledProcessLeaves(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	dir := t.TempDir()
	m := openMirror(t, dir)
	fetch(t, m, r.url(), "main")
	pack := packDir(m.generation())
	litter := []string{
		filepath.Join(pack, tempPrefix+"1"), filepath.Join(dir, tempPrefix+"2"),
		filepath.Join(pack, "pack-"+strings.Repeat("a", 40)+".idx"), filepath.Join(dir, generationPrefix+"x", "half"),
	}
	for _, name := range litter {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte("half"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m = openMirror(t, dir)
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
	r.commit("a", "2")
	fetch(t, m, r.url(), "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
	for _, name := range []string{litter[0], litter[1], filepath.Dir(litter[3])} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestDamagedMirrorIsReplacedByTheNextFetch(t *testing.T) {
	damage := map[string]func(t *testing.T, m *Mirror, pack string){
		"truncated pack": func(t *testing.T, _ *Mirror, pack string) { must(t, os.Truncate(pack, 30)) },
		"missing index": func(t *testing.T, _ *Mirror, pack string) {
			must(t, os.Remove(strings.TrimSuffix(pack, ".pack")+".idx"))
		},
		"flipped bytes": func(t *testing.T, _ *Mirror, pack string) {
			must(t, os.Chmod(pack, 0o644))
			data, err := os.ReadFile(pack)
			must(t, err)
			for i := 13; i < len(data)-20; i++ {
				data[i] ^= 0x55
			}
			must(t, os.WriteFile(pack, data, 0o644))
		},
		"state lost": func(t *testing.T, m *Mirror, _ string) { must(t, os.Remove(filepath.Join(m.dir, stateFile))) },
		"state torn": func(t *testing.T, m *Mirror, _ string) {
			must(t, os.WriteFile(filepath.Join(m.dir, stateFile), []byte(`{"gen`), 0o600))
		},
		"objects lost": func(t *testing.T, m *Mirror, _ string) { must(t, os.RemoveAll(m.generation())) },
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.commit("a", strings.Repeat("words of some length\n", 50))
			dir := t.TempDir()
			m := openMirror(t, dir)
			fetch(t, m, r.url(), "main")
			names, _, err := packs(m.generation())
			must(t, err)
			harm(t, m, names[0])
			m = openMirror(t, dir)
			if s, err := m.Snapshot("main"); err == nil {
				_, _ = fs.ReadFile(s.FS(), "a") // shows damage inside a pack
			}
			fetch(t, m, r.url(), "main")
			if got := content(t, m, "main", "a"); len(got) != 1050 {
				t.Errorf("content has %d bytes", len(got))
			}
			if got := content(t, openMirror(t, dir), "main", "a"); len(got) != 1050 {
				t.Errorf("content has %d bytes after a restart", len(got))
			}
		})
	}
}

func TestDamagedMirrorIsKeptUntilTheRemoteAnswers(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main")
	m.objects.damaged.Store(true)
	if _, err := m.Fetch(t.Context(), "file:///nowhere/at/all", []string{"main"}); err == nil {
		t.Error("Fetch from nowhere succeeded")
	}
	if _, err := m.Fetch(t.Context(), r.url(), []string{"gone"}); err == nil {
		t.Error("Fetch of a missing branch succeeded")
	}
	if got := content(t, m, "main", "a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

func TestManyFetchesAreCompactedAndStayReadable(t *testing.T) {
	r := newRepo(t)
	r.commit("keep/a", "kept")
	m := openMirror(t, t.TempDir())
	var before *Snapshot
	for i := range maxPacks + 3 {
		r.commit("a", fmt.Sprint(i))
		if i == maxPacks {
			before, _ = m.Snapshot("main")
		}
		fetch(t, m, r.url(), "main")
	}
	names, _, err := packs(m.generation())
	if err != nil || len(names) > 5 {
		t.Errorf("%d packs, %v", len(names), err)
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

func TestHugeBlobIsRefusedWithoutTakingMemory(t *testing.T) {
	r := newRepo(t)
	r.commit("ok", "1")
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main")
	file, err := os.Create(filepath.Join(r.dir, "zero"))
	must(t, err)
	must(t, errors.Join(file.Truncate(80<<20), file.Close()))
	r.git("-c", "core.bigFileThreshold=1m", "add", "zero")
	r.git("commit", "-q", "-m", "zero")
	runtime.GC()
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	_, err = m.Fetch(t.Context(), r.url(), []string{"main"})
	runtime.ReadMemStats(&end)
	var limit *LimitError
	if !errors.As(err, &limit) || limit.Max != maxObject {
		t.Errorf("Fetch: %v, want a LimitError", err)
	}
	if grown := end.TotalAlloc - start.TotalAlloc; grown > 64<<20 {
		t.Errorf("allocated %d MiB", grown>>20)
	}
	if got := content(t, m, "main", "ok"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

func TestPackWithAnAbsurdObjectCountIsRefused(t *testing.T) {
	pack := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), 0xfffffff0)
	var limit *LimitError
	if err := receivePack(t.Context(), bytes.NewReader(pack), t.TempDir()); !errors.As(err, &limit) {
		t.Errorf("receivePack: %v, want a LimitError", err)
	}
}

func TestTreeBombTakesTimeByItsObjectsNotItsFiles(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	tree := r.rawTree(treeLine(t, "100644", "a", r.git("rev-parse", "HEAD:a")))
	for range 10 {
		var body strings.Builder
		for i := range 10 {
			body.WriteString(treeLine(t, "40000", fmt.Sprint(i), tree))
		}
		tree = r.rawTree(body.String())
	}
	r.git("update-ref", "refs/heads/main", r.git("commit-tree", "-m", "bomb", tree))
	m := openMirror(t, t.TempDir())
	fetch(t, m, r.url(), "main")
	if got := content(t, m, "main", "1/2/3/4/5/6/7/8/9/0/a"); got != "1" {
		t.Errorf("content = %q", got)
	}
}

// serve runs git's own HTTP server.
func serve(t *testing.T, r *repo) *httptest.Server {
	t.Helper()
	program, err := exec.LookPath("git")
	must(t, err)
	server := httptest.NewServer(&cgi.Handler{
		Path: program, Args: []string{"http-backend"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1", "HOME=" + os.Getenv("HOME")},
	})
	t.Cleanup(server.Close)
	return server
}

func TestMirrorFetchesOverHTTP(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	url := serve(t, r).URL + "/" + filepath.Base(r.dir) + "/.git"
	m := openMirror(t, t.TempDir())
	fetch(t, m, url, "main")
	r.commit("a", "2")
	fetch(t, m, url, "main")
	if got := content(t, m, "main", "a"); got != "2" {
		t.Errorf("content = %q", got)
	}
}

func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") }))
	t.Cleanup(other.Close)
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	t.Cleanup(first.Close)
	_, err := openMirror(t, t.TempDir()).Fetch(t.Context(), strings.Replace(first.URL, "//", "//user:hunter2@", 1)+"/x", []string{"main"})
	if err == nil || !strings.Contains(err.Error(), "another host") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Fetch: %v", err)
	}
}

func TestFetchStopsAtItsDeadlineWhenTheRemoteIsSilent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = openMirror(t, t.TempDir()).Fetch(ctx, "http://"+listener.Addr().String()+"/x", []string{"main"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Fetch: %v, want the deadline", err)
	}
}

func TestOnlySafeURLsAreFetched(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://example.org/x.git": true, "ssh://git@example.org/x": true, "http://127.0.0.1:1/x": true, "http://localhost/x": true,
		"http://[::1]:80/x": true, "http://example.org/x": false, "http://127.0.0.1.example.org/x": false, "git://example.org/x": false,
		"ext::sh -c id": false, "-oProxyCommand=id": false, "ssh://-oProxyCommand=id/x": false, "file:///etc": false, "/etc": false,
		"git@example.org:x": false, "https:///x": false, "https://exa mple.org/x": false, "": false,
	} {
		if err := CheckURL(url, false); (err == nil) != ok {
			t.Errorf("CheckURL(%q) = %v, want ok %v", url, err, ok)
		}
	}
}

func TestCredentialsAreRedacted(t *testing.T) {
	for url, want := range map[string]string{
		"https://user:hunter2@example.org/x": "https://redacted@example.org/x", "https://token@example.org/x": "https://redacted@example.org/x",
		"ssh://git@example.org/x": "ssh://git@example.org/x", "https://example.org/x": "https://example.org/x",
		"https://u:hun%ter2@example.org": "redacted@example.org",
	} {
		if got := Redact(url); got != want {
			t.Errorf("Redact(%q) = %q, want %q", url, got, want)
		}
	}
	for _, url := range []string{"http://user:hunter2@127.0.0.1:1/x", "https://user:hunter2@ex%zz/", "ftp://user:hunter2@example.org"} {
		_, err := openMirror(t, t.TempDir()).Fetch(t.Context(), url, []string{"main"})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Fetch(%q): %v", url, err)
		}
	}
}
