package gitsource

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// plain are the ways whose protocols differ.
func plain(r *repo) map[string]Options {
	first := r.serve()
	first.behave(old)
	return map[string]Options{"file": r.file(), "http": r.serve().options(), "http, first protocol": first.options()}
}

func TestAForcePushIsFollowedAndSaid(t *testing.T) {
	for name, harm := range map[string]func(r *repo){
		"amended":        func(r *repo) { r.git("commit", "-q", "--amend", "-m", "other") },
		"back by one":    func(r *repo) { r.git("reset", "-q", "--hard", "HEAD~1") },
		"back by three":  func(r *repo) { r.git("reset", "-q", "--hard", "HEAD~3") },
		"back and forth": func(r *repo) { r.git("reset", "-q", "--hard", "HEAD~3"); r.commit("a", "forth") },
		"unrelated history": func(r *repo) {
			r.git("checkout", "-q", "--orphan", "new")
			r.commit("a", "new")
			r.git("branch", "-M", "main")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			var stream strings.Builder
			for i := range 4 {
				fmt.Fprintf(&stream, "commit refs/heads/main\ncommitter A <a@b> 17000000%02d +0000\ndata 1\nx\nM 644 inline a\ndata 1\n%d\n", i, i)
			}
			r.run(stream.String(), "fast-import", "--quiet")
			r.git("reset", "-q", "--hard")
			was := r.git("rev-parse", "HEAD")
			mirrors := map[string]*followed{}
			for way, o := range plain(r) {
				mirrors[way] = follow(t, o)
				mirrors[way].fetch("main")
			}
			harm(r)
			now, content := r.git("rev-parse", "HEAD"), r.git("show", "HEAD:a")
			for way, m := range mirrors {
				m.fetch("main")
				m.want("main", "a", content)
				tip := m.Tips()["main"]
				if tip.Commit != now || !strings.Contains(tip.Rewound, "was "+was[:12]+", which is not among") {
					t.Errorf("%s: tip = %+v", way, tip)
				}
				m.fetch("main")
				if m.Tips()["main"] != tip {
					t.Errorf("%s: tip = %+v after another look", way, m.Tips()["main"])
				}
			}
			r.commit("a", "on")
			for way, m := range mirrors {
				m.fetch("main")
				if tip := m.Tips()["main"]; tip.Rewound != "" {
					t.Errorf("%s: tip = %+v after a plain advance", way, tip)
				}
			}
		})
	}
}

func TestAMergeAndALongAdvanceAreNoRewind(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	mirrors := map[string]*followed{}
	for way, o := range plain(r) {
		mirrors[way] = follow(t, o)
		mirrors[way].fetch("main")
	}
	r.git("checkout", "-q", "--orphan", "side")
	r.commit("b", "old")
	r.git("checkout", "-q", "main")
	r.git("merge", "-q", "--allow-unrelated-histories", "-m", "merge", "side")
	var stream strings.Builder
	stream.WriteString("reset refs/heads/main\nfrom " + r.git("rev-parse", "main") + "\n\n")
	for range 500 {
		stream.WriteString("commit refs/heads/main\ncommitter A <a@b> 4000000000 +0000\ndata 1\nx\n\n")
	}
	r.run(stream.String(), "fast-import", "--quiet")
	for way, m := range mirrors {
		m.fetch("main")
		if tip := m.Tips()["main"]; tip.Commit != r.git("rev-parse", "main") || tip.Rewound != "" {
			t.Errorf("%s: tip = %+v", way, tip)
		}
	}
}

func TestAServerThatLagsIsNotFollowedToAndFro(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	f := r.serve()
	dir := t.TempDir()
	m := followInto(t, f.options(), dir)
	m.fetch("main")
	second := r.commit("a", "2")
	m.fetch("main")
	for range 3 {
		for _, at := range []string{first, first, second} { // twice a replica that lags, then one that does not
			r.git("update-ref", "refs/heads/main", at)
			if changed := m.fetch("main"); len(changed) != 0 {
				t.Errorf("changed = %q", changed)
			}
		}
	}
	m = followInto(t, f.options(), dir) // which remembers nothing but what is on disk
	r.git("update-ref", "refs/heads/main", first)
	for turn, want := range []string{"2", "2", "1"} {
		m.fetch("main")
		m.want("main", "a", want)
		if rewound := m.Tips()["main"].Rewound; (rewound != "") != (turn == 2) {
			t.Errorf("turn %d: rewound = %q", turn, rewound)
		}
	}
}

func TestAReturnThatSomebodyAskedForIsFollowedAtOnce(t *testing.T) {
	r := newRepo(t)
	first := r.commit("a", "1")
	m := follow(t, r.file())
	m.fetch("main")
	r.commit("a", "2")
	m.fetch("main")
	r.git("update-ref", "refs/heads/main", first)
	m.fetch("main")
	m.want("main", "a", "2")
	m.src.(*Source).Hint()
	m.fetch("main")
	m.want("main", "a", "1")
	if m.Tips()["main"].Rewound == "" {
		t.Error("it is not said")
	}
}

func TestABranchThatTakesUpAnOthersCommitDoesNotWait(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("branch", "prod")
	m := follow(t, r.file())
	m.fetch("main", "prod")
	r.commit("a", "2")
	m.fetch("main", "prod")
	r.git("branch", "-f", "prod", "main")
	m.fetch("main", "prod")
	m.want("prod", "a", "2")
	if rewound := m.Tips()["prod"].Rewound; rewound != "" {
		t.Errorf("rewound = %q", rewound)
	}
}

func TestADeletedBranchKeepsItsLastGoodCommit(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("branch", "side")
	m := follow(t, r.serve().options())
	m.fetch("main", "side")
	r.git("branch", "-D", "side")
	r.commit("a", "2")
	changed, err := m.try("main", "side")
	m.says(err, `"side"`, "no such branch or tag")
	if !slices.Equal(changed, []string{"main"}) {
		t.Errorf("changed = %q", changed)
	}
	m.want("main", "a", "2")
	m.want("side", "a", "1")
	r.git("branch", "side")
	m.fetch("main", "side")
	m.want("side", "a", "2")
}

func TestARenamedDefaultBranchIsFollowedAsTheDefault(t *testing.T) {
	for _, o := range []func(r *repo) Options{(*repo).file, func(r *repo) Options { return r.serve().options() }} {
		r := newRepo(t)
		r.commit("a", "1")
		m := follow(t, o(r))
		m.fetch("", "main")
		r.git("branch", "-m", "main", "trunk")
		r.commit("a", "2")
		_, err := m.try("", "main")
		m.says(err, `"main"`, "no such branch or tag")
		m.want("", "a", "2")
		m.want("main", "a", "1")
		if tip := m.Tips()[""]; tip.Rewound != "" {
			t.Errorf("tip = %+v", tip)
		}
		r.git("symbolic-ref", "HEAD", "refs/heads/gone")
		_, err = m.try("")
		m.says(err, `""`, "no such branch or tag")
		m.want("", "a", "2")
	}
}

func TestARewrittenTagIsFollowedAndSaid(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("checkout", "-q", "-b", "other")
	r.commit("a", "2")
	r.git("tag", "-a", "v1", "-m", "one")
	was := r.git("rev-parse", "HEAD")
	m := follow(t, r.serve().options())
	m.fetch("v1")
	r.git("tag", "-f", "-a", "v1", "-m", "one, said otherwise")
	m.fetch("v1")
	if tip := m.Tips()["v1"]; tip.Rewound != "" || tip.ID != r.git("rev-parse", "v1") || tip.Commit != was {
		t.Errorf("tip = %+v of a new tag of the same commit", tip)
	}
	r.git("checkout", "-q", "main")
	r.commit("a", "3")
	r.git("tag", "-f", "v1")
	m.fetch("v1")
	m.want("v1", "a", "3")
	if tip := m.Tips()["v1"]; !strings.Contains(tip.Rewound, was[:12]) {
		t.Errorf("tip = %+v", tip)
	}
}

func TestATagThatBecomesABranchIsFollowed(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	r.git("tag", "v1")
	m := follow(t, r.serve().options())
	m.fetch("v1")
	r.commit("a", "2")
	r.git("tag", "-d", "v1")
	r.git("branch", "v1")
	m.fetch("v1")
	m.want("v1", "a", "2")
	r.git("tag", "v1", "HEAD~1") // which hides the branch again
	for range lagTurns {
		m.fetch("v1")
	}
	m.want("v1", "a", "1")
}

func TestARepositoryThatIsDeletedAndMadeAnewIsFollowedAndSaid(t *testing.T) {
	for _, way := range []string{"file", "http", "http, first protocol"} {
		r := newRepo(t)
		r.commit("a", "1")
		m := follow(t, plain(r)[way])
		m.fetch("main")
		must(t, os.RemoveAll(r.dir))
		if _, err := m.try("main"); err == nil {
			t.Errorf("%s: a deleted repository is no error", way)
		}
		m.want("main", "a", "1")
		must(t, os.Mkdir(r.dir, 0o755))
		r.git("init", "-q", "-b", "main")
		_, err := m.try("main")
		m.says(err, "the repository is empty")
		m.want("main", "a", "1")
		r.commit("b", "2")
		m.fetch("main")
		m.want("main", "b", "2")
		if tip := m.Tips()["main"]; tip.Rewound == "" {
			t.Errorf("%s: tip = %+v", way, tip)
		}
	}
}

func TestARepositoryOfTheOtherHashIsRefused(t *testing.T) {
	r := newRepo(t)
	must(t, os.RemoveAll(r.dir+"/.git"))
	r.git("init", "-q", "-b", "main", "--object-format=sha256")
	r.commit("a", "1")
	for _, o := range plain(r) {
		_, err := follow(t, o).try("main")
		follow(t, o).says(err, "SHA-256")
	}
}

func TestTheServerMayChangeBetweenPolls(t *testing.T) {
	r := newRepo(t)
	r.commit("a", "1")
	f := r.serve()
	m := follow(t, f.options())
	for i, hook := range []func(http.ResponseWriter, *http.Request, http.Handler){nil, old, nil, old} {
		f.behave(hook)
		content := string(rune('2' + i))
		r.commit("a", content)
		m.fetch("main")
		m.want("main", "a", content)
	}
}
