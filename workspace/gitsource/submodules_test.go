package gitsource

import (
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/httpclient"
)

// beside makes another repository in the same folder, which the same server serves.
func beside(t *testing.T, r *repo, name string) *repo {
	t.Helper()
	other := &repo{t, filepath.Join(filepath.Dir(r.dir), name)}
	must(t, os.Mkdir(other.dir, 0o755))
	other.git("init", "-q", "-b", "main")
	return other
}

// submodule pins a commit at a path, for git to fetch from a URL.
func (r *repo) submodule(at, url, commit string) {
	r.git("config", "-f", ".gitmodules", "submodule."+at+".path", at)
	r.git("config", "-f", ".gitmodules", "submodule."+at+".url", url)
	r.git("add", ".gitmodules")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+commit+","+at)
	r.git("commit", "-q", "-m", "pin "+at)
}

func following(f *front) Options {
	o := f.options()
	o.Submodules = SubmodulesFollow
	return o
}

func TestSubmodulesAreFollowedToTheirPinnedCommits(t *testing.T) {
	r := newRepo(t)
	lib, deep := beside(t, r, "lib"), beside(t, r, "deep")
	deepest := deep.commit("d", "deep")
	lib.commit("l", "old")
	lib.submodule("sub/deep", "../../deep/.git", deepest)
	pinned := lib.git("rev-parse", "HEAD")
	lib.commit("l", "new")
	r.commit("a", "1")
	f := r.serve()
	r.submodule("vendor/lib", f.URL+"/lib/.git", pinned)
	m := follow(t, following(f))
	m.fetch("main")
	m.want("main", "a", "1")
	m.want("main", "vendor/lib/l", "old")
	m.want("main", "vendor/lib/sub/deep/d", "deep")
	tip := m.Tips()["main"]
	if head := r.git("rev-parse", "HEAD"); tip.Revision != head || tip.Commit == head {
		t.Errorf("tip = %+v", tip)
	}
	before := m.src.Traffic().Requests
	if changed := m.fetch("main"); len(changed) != 0 || m.src.Traffic().Requests-before != 1 {
		t.Errorf("changed = %q after %d requests", changed, m.src.Traffic().Requests-before)
	}
	m.fetch("main", tip.Commit)
	m.want(tip.Commit, "vendor/lib/l", "old")
	r.git("update-index", "--cacheinfo", "160000,"+lib.git("rev-parse", "HEAD")+",vendor/lib")
	r.git("commit", "-q", "-m", "advance")
	m.fetch("main")
	m.want("main", "vendor/lib/l", "new")
	m.want("main", "vendor/lib/sub/deep/d", "deep")
	if tip := m.Tips()["main"]; tip.Rewound != "" {
		t.Errorf("tip = %+v", tip)
	}
	again := follow(t, following(f))
	again.fetch("main")
	if again.Tips()["main"] != m.Tips()["main"] {
		t.Errorf("another machine has %+v, not %+v", again.Tips()["main"], m.Tips()["main"])
	}
}

func TestSubmodulesAreLeftAloneUnlessAskedFor(t *testing.T) {
	r := newRepo(t)
	lib := beside(t, r, "lib")
	r.commit("a", "1")
	r.submodule("lib", "../../lib/.git", lib.commit("l", "1"))
	f := r.serve()
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		if strings.HasPrefix(req.URL.Path, "/lib") {
			t.Error("the submodule was asked for")
		}
		git.ServeHTTP(w, req)
	})
	m := follow(t, f.options())
	m.fetch("main")
	m.want("main", "a", "1")
	if tip := m.Tips()["main"]; tip.Commit != r.git("rev-parse", "HEAD") {
		t.Errorf("tip = %+v", tip)
	}
	f.behave(nil)
	m.src, _ = New(following(f)) // the choice changes while the commit does not
	m.fetch("main")
	m.want("main", "lib/l", "1")
}

func TestASubmoduleFromElsewhereIsRefusedAndTheLastGoodCommitStays(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	lib := beside(t, r, "lib")
	pinned := lib.commit("l", "1")
	f := r.serve()
	m := follow(t, following(f))
	m.fetch("main")
	for at, want := range map[string]string{
		"https://example.org/x": "on the host and by the scheme",
		"git@127.0.0.1:x":       "on the host and by the scheme",
		strings.Replace(f.URL, "127.0.0.1", "localhost", 1): "on the host and by the scheme",
		"file://" + lib.dir:        "unsupported scheme",
		lib.dir:                    "unsupported scheme",
		"ext::sh -c id":            "white space",
		"--upload-pack=id":         "dash",
		"http://169.254.169.254/x": "link-local",
		f.URL + "/none/.git":       "404",
		"http://ada:hunter2@" + f.Listener.Addr().String() + "/": "redacted@",
	} {
		r.git("reset", "-q", "--hard", r.git("rev-list", "--max-parents=0", "HEAD"))
		r.submodule("lib", at, pinned)
		_, err := m.try("main")
		m.says(err, `submodule "lib"`, want)
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
		m.want("main", "a", "1")
	}
	r.git("reset", "-q", "--hard", r.git("rev-list", "--max-parents=0", "HEAD"))
	r.submodule("lib", "../../lib/.git", strings.Repeat("1", 40))
	_, err := m.try("main")
	m.says(err, "commit 1111111111111111111111111111111111111111 is not in any branch or tag")
}

func TestCredentialsAreShownToSubmodulesInTheSourcesFolderOnly(t *testing.T) {
	r := newRepo(t)
	must(t, os.Mkdir(filepath.Join(filepath.Dir(r.dir), "team"), 0o755))
	must(t, os.Mkdir(filepath.Join(filepath.Dir(r.dir), "teams"), 0o755))
	app, lib, open, hidden := beside(t, r, "team/app"), beside(t, r, "team/lib"), beside(t, r, "teams/open"), beside(t, r, "teams/hidden")
	f := r.serve()
	f.behave(func(w http.ResponseWriter, req *http.Request, git http.Handler) {
		_, _, shown := req.BasicAuth()
		inside := strings.HasPrefix(path.Clean(req.URL.Path), "/team/")
		if shown != inside {
			t.Errorf("%s: credentials are shown: %v", req.URL.Path, shown)
		}
		if !shown && !strings.HasPrefix(req.URL.Path, "/teams/open") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, req)
	})
	app.commit("a", "1")
	app.submodule("lib", "../lib", lib.commit("l", "lib"))
	app.submodule("open", "../../teams/open", open.commit("o", "open"))
	o := following(f)
	o.URL = f.URL + "/team/app"
	o.Credentials = httpclient.Credentials{Username: "ada", Password: "hunter2"}
	m := follow(t, o)
	m.fetch("main")
	m.want("main", "lib/l", "lib")
	m.want("main", "open/o", "open")
	o.URL, o.Credentials = strings.Replace(o.URL, "http://", "http://ada:hunter2@", 1), httpclient.Credentials{}
	m = follow(t, o)
	m.fetch("main")
	m.want("main", "open/o", "open")
	for _, at := range []string{"../../teams/hidden", "../lib/../../teams/hidden", f.URL + "/team/../teams/hidden", f.URL + "/team/%2e%2e/teams/hidden"} {
		app.submodule("hidden", at, hidden.commit("h", "hidden"))
		_, err := m.try("main")
		m.says(err, `submodule "hidden"`)
		o.URL, o.Credentials = f.URL+"/team/app", httpclient.Credentials{Username: "ada", Password: "hunter2"}
		_, err = follow(t, o).try("main")
		m.says(err, `submodule "hidden"`, "shown to repositories in /team only")
	}
}

func TestASubmodulesPathStaysInsideTheRepository(t *testing.T) {
	for _, at := range []string{"../x", "/x", "a/../../x", ".", "a/", ""} {
		text := "[submodule \"x\"]\n\tpath = " + at + "\n\turl = ../x\n"
		if got, err := parseModules([]byte(text)); err == nil && len(got) > 0 {
			t.Errorf("path %q: %v", at, got)
		}
	}
	if got, err := parseModules([]byte("[submodule \"../../x\"]\n\tpath = x\n\turl = ../x\n")); err == nil && len(got) > 0 {
		t.Error("a name that leaves its folder is taken")
	}
	var many strings.Builder
	for i := range mostModules + 1 {
		many.WriteString("[submodule \"" + strings.Repeat("x", i+1) + "\"]\n\tpath = x" + strings.Repeat("y", i) + "\n\turl = ../x\n")
	}
	if _, err := parseModules([]byte(many.String())); err == nil {
		t.Error("no limit")
	}
}

func TestSubmodulesThatNestForEverAreGivenUp(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	pinned := r.git("rev-parse", "HEAD")
	for range mostModuleDepth + 1 {
		r.submodule("self", f.URL+"/repo/.git", pinned)
		pinned = r.git("rev-parse", "HEAD")
	}
	_, err := follow(t, following(f)).try("main")
	follow(t, following(f)).says(err, "submodules stand in submodules")
}

func TestRelativeSubmoduleURLsAreResolvedAsGitDoes(t *testing.T) {
	for pair, want := range map[[2]string]string{
		{"https://example.org/team/app.git", "../lib.git"}:       "https://example.org/team/lib.git",
		{"https://example.org/team/app/", "./lib"}:               "https://example.org/team/app/lib",
		{"ssh://git@example.org/app", "../../../x"}:              "ssh://git@example.org/x",
		{"ssh://git@example.org/app", "git@example.org:x"}:       "ssh://git@example.org/x",
		{"https://t@example.org/app", "https://example.org/lib"}: "https://t@example.org/lib",
	} {
		from, err := url.Parse(pair[0])
		must(t, err)
		if got, err := moduleURL(from, pair[1]); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", pair, got, err, want)
		}
	}
}
