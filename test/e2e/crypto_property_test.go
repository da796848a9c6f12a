package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"pgregory.net/rapid"
)

// canary stands in every secret that the property test writes.
const canary = "correct-horse-canary"

// TestNoPlaintextReachesTheObjectDatabase does what people do, in any order, with git and with plural, and then looks into
// every object that git has, reachable or not, and into every other file below .git.
func TestNoPlaintextReachesTheObjectDatabase(t *testing.T) {
	t.Parallel()
	const budget = 15 * time.Second // what is drawn after it passes unseen
	template := sealed(t)
	stranger, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	template.branches()
	template.editor()
	template.checkSearch()
	began, runs, objects := time.Now(), 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		if time.Since(began) > budget && !t.Failed() {
			return
		}
		h := &habits{local: template.copy(rt, fmt.Sprint("run", runs)), rt: rt, stranger: stranger.Recipient().String()}
		defer h.discard()
		runs++
		all := h.all()
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 4, 14).Draw(rt, "habits") {
			if rapid.Bool().Draw(rt, "edit first") {
				all["edit"]()
			}
			all[name]()
		}
		objects += h.search()
	})
	if objects == 0 {
		t.Error("no object was sealed: the test proves nothing")
	}
	t.Logf("%d runs, %d sealed objects", runs, objects)
}

// habits is one person's clone, in which things are done.
type habits struct {
	*local
	rt       *rapid.T
	stranger string
	log      strings.Builder
	written  int
}

// all are the things that people do. Any of them may be refused, by git or by plural.
func (h *habits) all() map[string]func() {
	git := func(args ...string) func() { return func() { h.try(args...) } }
	plural := func(args ...string) func() { return func() { h.plural("", args...) } }
	return map[string]func(){
		"edit": func() { h.write(map[string]string{h.file(): h.secret()}) },
		"edit all": func() {
			h.write(map[string]string{"secrets/a.yaml": h.secret(), "secrets/b.env": h.secret(), "c.secret.yaml": h.secret()})
		},
		"touch":            func() { h.touch(h.file()) },
		"delete":           func() { os.Remove(filepath.Join(h.repo, h.file())) },
		"add":              git("add", "-A"),
		"add one":          func() { h.try("add", "-f", "--", h.file()) },
		"intent to add":    func() { h.try("add", "-N", "--", h.file()) },
		"renormalize":      git("add", "--renormalize", "."),
		"commit":           git("commit", "-qm", "some"),
		"commit all":       git("commit", "-qam", "all"),
		"commit unchecked": git("commit", "-qanm", "unchecked"),
		"commit one":       func() { h.try("commit", "-qm", "one", "--", h.file()) },
		"amend":            git("commit", "-qa", "--amend", "--no-edit"),
		"move":             func() { h.try("mv", "-f", h.file(), h.file()) },
		"remove":           func() { h.try("rm", "-q", "--", h.file()) },
		"untrack":          func() { h.try("rm", "-q", "--cached", "--", h.file()) },
		"stash":            git("stash", "-q"),
		"stash all":        git("stash", "-qu"),
		"stash pop":        git("stash", "pop", "-q"),
		"branch":           git("checkout", "-q", "-B", "side"),
		"to main":          git("checkout", "-q", "main"),
		"to side":          git("checkout", "-q", "side"),
		"to the past":      git("checkout", "-q", "HEAD~1"),
		"before sealing":   git("checkout", "-q", "-f", "first"),
		"restore":          git("checkout", "-q", "--", "."),
		"merge":            git("merge", "-q", "--no-edit", "side"),
		"merge ours":       git("merge", "-q", "--no-edit", "-X", "ours", "main"),
		"rebase":           git("rebase", "-q", "main"),
		"rebase on":        git("-c", "core.editor=true", "rebase", "--continue"),
		"abort":            func() { h.try("merge", "--abort"); h.try("rebase", "--abort"); h.try("cherry-pick", "--abort") },
		"cherry-pick":      git("cherry-pick", "side"),
		"revert":           git("revert", "--no-edit", "HEAD"),
		"reset":            git("reset", "-q", "HEAD~1"),
		"reset hard":       git("reset", "-q", "--hard"),
		"work tree":        h.workTree,
		"no attributes":    func() { os.Remove(filepath.Join(h.repo, ".gitattributes")) },
		"no policy":        func() { os.RemoveAll(filepath.Join(h.repo, ".plural")) },
		"collect":          git("gc", "-q", "--prune=now"),
		"repack":           git("repack", "-qadf"),
		"diff":             git("diff", "HEAD"),
		"lock":             plural("crypto", "lock"),
		"unlock":           plural("crypto", "unlock"),
		"rotate":           plural("crypto", "rotate", "--yes"),
		"share":            plural("crypto", "share", h.stranger, "--name", "bob", "--group", "fleet", "--yes"),
		"revoke":           plural("crypto", "revoke", "bob", "--yes"),
		"encrypt":          func() { h.plural("", "crypto", "encrypt", h.file()) },
		"edit sealed":      func() { h.plural("", "crypto", "edit", h.file()) },
		"set":              func() { h.written++; h.plural(fmt.Sprint(canary, h.written), "secret", "set", "secrets/a.yaml", "key") },
		"confirm":          plural("crypto", "groups", "confirm", "--yes"),
		"repair":           plural("crypto", "doctor", "--fix"),
		"status":           plural("crypto", "status", "--check"),
	}
}

// file is one of those that must be sealed.
func (h *habits) file() string {
	return rapid.SampledFrom([]string{"secrets/a.yaml", "secrets/b.env", "secrets/deep/d.yaml", "c.secret.yaml"}).Draw(h.rt, "file")
}

// secret is the text of a file, another each time.
func (h *habits) secret() string {
	h.written++
	return fmt.Sprintf("key: %s-%d\nother: 1\nthird: %s\n", canary, h.written, strings.Repeat("x", h.written%7))
}

func (h *habits) touch(name string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(h.repo, name), now, now) // there may be none
}

// workTree adds a second work tree, and commits in it.
func (h *habits) workTree() {
	h.try("worktree", "add", "-q", "-f", "-B", fmt.Sprint("tree", h.written), "../tree")
	other := *h.local
	other.repo = filepath.Join(filepath.Dir(h.repo), "tree")
	if _, err := os.Stat(other.repo); err != nil {
		return
	}
	other.write(map[string]string{h.file(): h.secret()})
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-qm", "elsewhere"}} {
		h.ran(other.command("git", args...), args)
	}
}

func (h *habits) try(args ...string) {
	h.ran(h.command("git", append([]string{"-c", "gc.auto=0"}, args...)...), args)
}

func (h *habits) plural(input string, args ...string) {
	cmd := h.command(filepath.Join(h.bin, "plural"), append(args, "--no-input")...)
	cmd.Stdin = strings.NewReader(input)
	h.ran(cmd, args)
}

// ran keeps what was done, for whoever has to find out what went wrong.
func (h *habits) ran(cmd *exec.Cmd, args []string) {
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(&h.log, "%s %s: %v\n%s", filepath.Base(cmd.Path), strings.Join(args, " "), err, out)
}

func (h *habits) discard() {
	if !h.rt.Failed() {
		_ = os.RemoveAll(filepath.Dir(h.repo)) // the test's folder goes in any case
	}
}

// search fails when a canary is anywhere below .git, and counts the sealed objects.
func (h *habits) search() int {
	all, where := h.find()
	if len(where) > 0 {
		h.rt.Fatalf("the canary is in %v, after\n%s", where, h.log.String())
	}
	return bytes.Count(all, []byte("age-encryption.org/v1\n"))
}

// find returns all objects one behind the other, and where below .git there is a canary.
func (l *local) find() (all []byte, where []string) {
	l.t.Helper()
	all, err := l.command("git", "cat-file", "--batch", "--batch-all-objects", "--unordered").Output()
	if err != nil {
		l.t.Fatalf("read all objects: %v", err)
	}
	if at := bytes.Index(all, []byte(canary)); at >= 0 {
		where = append(where, fmt.Sprintf("an object: %q", all[max(0, at-200):at]))
	}
	err = filepath.WalkDir(filepath.Join(l.repo, ".git"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(canary)) {
			where = append(where, path)
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return all, where
}

// checkSearch proves that a canary would be found: in an object that nothing refers to, and in a file of git's.
func (l *local) checkSearch() {
	l.t.Helper()
	planted := l.copy(l.t, "planted")
	hash := planted.command("git", "hash-object", "-w", "--stdin")
	hash.Stdin = strings.NewReader(canary)
	if out, err := hash.CombinedOutput(); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	planted.write(map[string]string{".git/MERGE_MSG": canary})
	if _, where := planted.find(); len(where) != 2 {
		l.t.Fatalf("two canaries were planted, and found in %q", where)
	}
}

// copy is the same user once more, with a copy of the repo and of all that plural keeps for the user.
func (l *local) copy(t interface{ Fatal(...any) }, name string) *local {
	other := *l
	home := filepath.Join(l.home, name)
	other.repo = filepath.Join(home, "fleet")
	other.env = append(slices.Clone(l.env), "XDG_CONFIG_HOME="+home+"/config", "XDG_STATE_HOME="+home+"/state")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := l.command("cp", "-a", l.repo, l.home+"/config", home).CombinedOutput(); err != nil { // with all modes
		t.Fatal(err, string(out))
	}
	return &other
}

// editor makes the user's editor one that writes another canary.
func (l *local) editor() {
	l.t.Helper()
	script := filepath.Join(l.home, "editor")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho \"key: "+canary+"-edited-$$\" >> \"$1\"\n"), 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.env = append(l.env, "EDITOR="+script, "VISUAL=", "GIT_EDITOR=true")
}

// branches gives the repo secrets on two branches, that conflict, and a name to the commit before there were any.
func (l *local) branches() {
	l.t.Helper()
	l.git("tag", "first", "HEAD~1")
	for i, way := range [][]string{{"checkout", "-q", "main"}, {"checkout", "-qb", "side"}, {"checkout", "-q", "main"}} {
		l.git(way...)
		l.write(map[string]string{
			"secrets/a.yaml": fmt.Sprintf("key: %s-branch-%d\n", canary, i), "secrets/b.env": fmt.Sprintf("KEY=%s-branch\n", canary),
		})
		l.git("add", "-A")
		l.git("commit", "-qm", fmt.Sprint("secrets ", i))
	}
}
