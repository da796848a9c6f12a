package gitsource

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/httpclient"
	"github.com/pluralsh/plural/workspace/mirror"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// ways are all the ways to the same repository.
func ways(t *testing.T, r *repo) map[string]Options {
	t.Helper()
	plain, first := r.serve(), r.serve()
	first.behave(old)
	git := r.backend()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != "ada" || password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, req)
	}))
	t.Cleanup(secure.Close)
	return map[string]Options{
		"file": r.file(), "http": plain.options(), "http, first protocol": first.options(),
		"https": {URL: secure.URL + "/repo/.git", Credentials: httpclient.Credentials{Username: "ada", Password: "hunter2", CA: certificate(secure)}},
		"ssh":   newSSH(t, r).options(r),
	}
}

func TestBranchTagCommitAndHeadAreFollowedOverEveryTransport(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	r.git("tag", "-a", "v1", "-m", "one")
	r.git("checkout", "-q", "-b", "side")
	r.commit("a", "side")
	r.git("checkout", "-q", "main")
	second := r.commit("a", "2")
	all := ways(t, r)
	refs := []string{"", "HEAD", "main", "side", "v1", "refs/tags/v1", second}
	mirrors := map[string]*followed{}
	for name, o := range all {
		m := follow(t, o)
		mirrors[name] = m
		if changed := m.fetch(refs...); len(changed) != len(refs) {
			t.Errorf("%s: changed = %q", name, changed)
		}
		for ref, want := range map[string]string{"": "2", "HEAD": "2", "main": "2", "side": "side", "v1": "1", "refs/tags/v1": "1", second: "2"} {
			m.want(ref, "a", want)
		}
		if got := m.Tips()["v1"]; got.Commit != first || got.Revision != first || got.ID == first || got.Rewound != "" {
			t.Errorf("%s: v1 = %+v, want the commit %s", name, got, first)
		}
		if changed := m.fetch(refs...); len(changed) != 0 {
			t.Errorf("%s: changed = %q where nothing did", name, changed)
		}
	}
	third := r.commit("b", "3")
	for name, m := range mirrors {
		if changed := m.fetch(refs...); !slices.Equal(changed, []string{"", "HEAD", "main"}) {
			t.Errorf("%s: changed = %q", name, changed)
		}
		m.want("main", "b", "3")
		m.want("main", "a", "2")
		if tip := m.Tips()["main"]; tip.Commit != third || tip.Rewound != "" {
			t.Errorf("%s: main = %+v", name, tip)
		}
	}
}

func TestACommitThatNoBranchPointsAtIsFetchedByItsID(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	r.commit("a", "2")
	for name, o := range ways(t, r) {
		m := follow(t, o)
		m.fetch(first, "main")
		m.want(first, "a", "1")
		m.want("main", "a", "2")
		missing := strings.Repeat("1", 40)
		changed, err := m.try(missing, "main", first)
		m.says(err, "not in any branch or tag")
		if len(changed) != 0 {
			t.Errorf("%s: changed = %q", name, changed)
		}
		if _, err := m.Snapshot(missing); !errors.Is(err, snapshot.ErrNotFetched) {
			t.Errorf("%s: Snapshot: %v", name, err)
		}
	}
}

func TestNoHistoryIsFetched(t *testing.T) {
	r := newRepo(t)
	old := r.commit("a", "1")
	r.commit("a", "2")
	for _, o := range ways(t, r) {
		m := follow(t, o)
		m.fetch("main")
		if _, err := m.At(old); err == nil {
			t.Errorf("%s: the first commit was fetched too", o.URL)
		}
	}
}

func TestAPollOfAnUnchangedRemoteIsOneSmallRequest(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	id := r.git("rev-parse", "HEAD")
	var packed strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&packed, "%s refs/heads/other/%05d\n", id, i)
	}
	must(t, os.WriteFile(filepath.Join(r.dir, ".git", "packed-refs"), []byte(packed.String()), 0o600))
	connections := map[string]bool{}
	f := r.serve()
	bodies := 0
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		connections[req.RemoteAddr] = true
		rec := &counting{ResponseWriter: w}
		git.ServeHTTP(rec, req)
		bodies += rec.n
	})
	m := follow(t, f.options())
	m.fetch("main")
	before := m.src.Traffic()
	bodies = 0
	const polls = 3
	for range polls {
		m.fetch("main")
	}
	after := m.src.Traffic()
	if requests := after.Requests - before.Requests; requests != polls {
		t.Errorf("%d requests for %d polls", requests, polls)
	}
	if bodies > polls*70 {
		t.Errorf("answers have %d bytes each", bodies/polls)
	}
	if wire := (after.Bytes - before.Bytes) / polls; wire == 0 || wire > 400 {
		t.Errorf("%d bytes on the wire each", wire)
	}
	if len(connections) != 1 {
		t.Errorf("%d connections", len(connections))
	}
	t.Logf("a poll: %d bytes of body, %d on the wire", bodies/polls, (after.Bytes-before.Bytes)/polls)
}

func TestAChangeToALargeTipCostsTheChange(t *testing.T) {
	for name, harm := range map[string]func(r *repo){
		"one commit": func(r *repo) { r.commit("a", "2") },
		"more of them, and back": func(r *repo) {
			r.commit("a", "x")
			r.commit("a", "y")
			r.git("rm", "-q", "b")
			r.commit("a", "2")
		},
		"a merge of what forked long before": func(r *repo) {
			r.git("checkout", "-q", "-b", "side", "HEAD~1")
			r.commit("side", "1")
			r.git("checkout", "-q", "main")
			r.git("merge", "-q", "-m", "merge", "side")
			r.commit("a", "2")
		},
		"what was there once": func(r *repo) { r.commit("b", "first"); r.commit("a", "2") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			must(t, os.WriteFile(filepath.Join(r.dir, "noise"), []byte(noise(1<<20)), 0o600))
			r.git("add", "noise")
			r.commit("b", "first")
			r.commit("b", "second")
			r.commit("a", "1")
			mirrors := map[string]*followed{}
			for way, o := range plain(r) {
				mirrors[way] = follow(t, o)
				mirrors[way].fetch("main", "")
			}
			harm(r)
			for way, m := range mirrors {
				before := m.src.Traffic().Bytes
				m.fetch("main", "")
				m.want("main", "a", "2")
				m.want("main", "noise", noise(1<<20))
				if came := m.src.Traffic().Bytes - before; came > 10<<10 {
					t.Errorf("%s: %d bytes came", way, came)
				}
			}
		})
	}
}

func TestAFarAdvanceIsFetchedAsOneCommit(t *testing.T) {
	r := newRepo(t)
	r.run("commit refs/heads/main\ncommitter A <a@b> 1000000000 +0000\ndata 1\nx\nM 644 inline a\ndata 1\n1\n", "fast-import", "--quiet")
	r.git("reset", "-q", "--hard")
	m := follow(t, r.serve().options())
	m.fetch("main")
	between := r.commit("a", "between")
	r.commit("a", "2")
	m.fetch("main")
	m.want("main", "a", "2")
	if _, err := m.At(between); err == nil {
		t.Error("the commits of many years were fetched too")
	}
	if rewound := m.Tips()["main"].Rewound; rewound != "" {
		t.Errorf("rewound = %q", rewound)
	}
}

func TestCommitsBetweenThatAreTooLargeArePassedOver(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	m := follow(t, r.serve().options())
	m.fetch("main")
	file, err := os.Create(filepath.Join(r.dir, "zero"))
	must(t, err)
	must(t, errors.Join(file.Truncate(snapshot.MaxBlob+1), file.Close()))
	r.git("-c", "core.bigFileThreshold=1m", "add", "zero")
	r.git("commit", "-q", "-m", "zero")
	r.git("rm", "-q", "zero")
	r.commit("a", "2")
	m.fetch("main")
	m.want("main", "a", "2")
}

type counting struct {
	http.ResponseWriter
	n int
}

func (c *counting) Write(b []byte) (int, error) {
	c.n += len(b)
	return c.ResponseWriter.Write(b)
}

func TestOneBadRefHoldsUpNoOther(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("tag", "blob", r.git("rev-parse", "HEAD:a"))
	r.git("tag", "-a", "tree", "-m", "x", r.git("rev-parse", "HEAD^{tree}"))
	for _, o := range ways(t, r) {
		m := follow(t, o)
		refs := []string{"blob", "tree", "none", "-x", "a..b", "refs/heads/../x", "x@{1}", "a b", "a\nb", strings.Repeat("x", 4096), "main"}
		changed, err := m.try(refs...)
		if !slices.Equal(changed, []string{"main"}) {
			t.Errorf("%s: changed = %q, %v", o.URL, changed, err)
		}
		for _, ref := range refs[:len(refs)-1] {
			if !strings.Contains(err.Error(), (&mirror.RefError{Ref: ref, Err: errors.New("")}).Error()) {
				t.Errorf("%s: %q is no problem: %v", o.URL, ref, err)
			}
		}
		m.want("main", "a", "1")
	}
}

func TestAnAddressThatIsNoRepositorySaysSo(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in")) }))
	t.Cleanup(page.Close)
	m := follow(t, Options{URL: page.URL + "/x"})
	_, err := m.try("main")
	m.says(err, "not as a git server does", "text/html")
	r := newRepo(t)
	m = follow(t, Options{URL: r.serve().URL + "/none.git"})
	_, err = m.try("main")
	m.says(err, "404", "nothing of that name")
	m = follow(t, Options{URL: "file:///nowhere/at/all", AllowFile: true})
	_, err = m.try("main")
	m.says(err, "not", "repository")
}

func TestOptionsThatCannotWorkAreRefusedBeforeTheNetwork(t *testing.T) {
	for want, o := range map[string]Options{
		"unsupported scheme":   {URL: "git://user:hunter2@example.org/x"},
		"for this machine":     {URL: "http://example.org/x"},
		"unsupported scheme: ": {URL: "file:///x"},
		"identity":             {URL: "ssh://git@example.org/x"},
		"known_hosts":          {URL: "ssh://git@example.org/x", Credentials: httpclient.Credentials{SSHKey: []byte("x")}},
		"no private SSH key":   {URL: "ssh://git@example.org/x", Credentials: httpclient.Credentials{SSHKey: []byte("hunter2"), KnownHosts: []byte("x")}},
		"ca.crt":               {URL: "https://example.org/x", Credentials: httpclient.Credentials{CA: []byte("hunter2")}},
		"neither empty nor":    {URL: "https://example.org/x", Submodules: "yes"},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("New(%+v): %v, want %q", o, err, want)
		}
	}
	allowed := func(raw string, files bool) bool {
		_, err := parseURL(raw, files)
		return err == nil
	}
	if !allowed("file:///x", true) || allowed("file:///x", false) || !allowed("https://example.org/x.git", false) {
		t.Error("what may be fetched from is not what it should be")
	}
}
