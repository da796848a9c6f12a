package gitsetup_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/gitsetup"

	"github.com/pluralsh/plural/test/support/needs"
)

// TestMain is also the program that git runs: it notes how it was called, and fails when it is told to.
func TestMain(m *testing.M) {
	log := os.Getenv("TEST_CALLS")
	if log == "" || len(os.Args) < 2 || os.Args[1] != "crypto" {
		os.Exit(m.Run())
	}
	var input []byte
	if strings.Contains(strings.Join(os.Args, " "), "pre-push") {
		input, _ = io.ReadAll(os.Stdin)
	}
	file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(file, "%q stdin %q\n", os.Args[1:], input)
	}
	if err != nil || os.Getenv("TEST_FAIL") != "" {
		os.Exit(1)
	}
	_, _ = os.Stdout.WriteString("shown in clear\n")
	os.Exit(0)
}

// clone is a git repository in a folder of its own, with the program beside it.
type clone struct {
	*testing.T
	dir, program, calls string
}

func newClone(t *testing.T) clone {
	t.Helper()
	needs.Program(t, "git", "git")
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": filepath.Join(base, "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1", "HOME": base,
		"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
	} {
		t.Setenv(name, value)
	}
	c := clone{t, filepath.Join(base, "repo"), filepath.Join(base, "it's a 100% path", "plural"), filepath.Join(base, "calls")}
	t.Setenv("TEST_CALLS", c.calls)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{c.dir, filepath.Dir(c.program)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(self, c.program); err != nil {
		t.Fatal(err)
	}
	c.git("init", "-q", "-b", "main")
	return c
}

func (c clone) try(args ...string) (string, error) {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), "git", append([]string{"-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = c.dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c clone) git(args ...string) string {
	c.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

func (c clone) write(name, text string, mode fs.FileMode) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		c.Fatal(err)
	}
}

func (c clone) read(name string) string {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Fatal(err)
	}
	return string(text)
}

// policy writes a seal.yaml with these patterns.
func (c clone) policy(patterns ...string) {
	c.Helper()
	text := "apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: 00112233445566778899aabbccddeeff\n  paths:\n"
	for _, p := range patterns {
		text += fmt.Sprintf("  - pattern: %q\n    groups: [fleet]\n", p)
	}
	c.write(".plural/seal.yaml", text, 0o600)
}

func (c clone) repo() *gitcmd.Repo {
	c.Helper()
	r, err := gitcmd.Find(c.Context(), c.dir)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

func (c clone) install() {
	c.Helper()
	if err := gitsetup.Install(c.Context(), c.repo(), c.program); err != nil {
		c.Fatal(err)
	}
}

// called gives the calls of the program since the last time.
func (c clone) called() []string {
	c.Helper()
	text, err := os.ReadFile(c.calls)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.Fatal(err)
	}
	_ = os.Remove(c.calls)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// settings is what git keeps beside objects: path to mode and content.
func (c clone) settings() map[string]string {
	c.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(c.dir, path)
		if strings.HasPrefix(name, ".git/objects/") {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		all[name] = fmt.Sprint(info.Mode(), " ", c.read(name))
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
	return all
}

func TestRemoveLeavesNoTraceOfInstall(t *testing.T) {
	const script = "#!/usr/bin/env bash\nset -euo pipefail\nexec true\n"
	for name, prepare := range map[string]func(c clone){
		"a fresh clone": func(clone) {},
		"no templates": func(c clone) {
			if err := errors.Join(os.RemoveAll(filepath.Join(c.dir, ".git/hooks")), os.RemoveAll(filepath.Join(c.dir, ".git/info"))); err != nil {
				c.Fatal(err)
			}
		},
		"hooks": func(c clone) {
			c.write(".git/hooks/pre-commit", script, 0o755)
			c.write(".git/hooks/pre-push", "echo no line that names a shell\n", 0o700)
			c.write(".git/hooks/post-merge", "#! /bin/busybox sh\n\n", 0o755)
		},
		"a hook that is a link": func(c clone) {
			c.write("scripts/commit.sh", script, 0o755)
			if err := os.Symlink("../../scripts/commit.sh", filepath.Join(c.dir, ".git/hooks/pre-commit")); err != nil {
				c.Fatal(err)
			}
		},
		"hooks elsewhere": func(c clone) {
			c.git("config", "core.hooksPath", ".my hooks/here")
			c.write(".my hooks/here/pre-push", script, 0o755)
		},
		"attributes":         func(c clone) { c.write(".git/info/attributes", "*.png binary\n", 0o600) },
		"a filter of others": func(c clone) { c.git("config", "filter.lfs.process", "git-lfs filter-process") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			c.policy("secrets/**")
			prepare(c)
			before := c.settings()
			c.install()
			installed := c.settings()
			if cmp.Equal(before, installed) {
				t.Fatal("nothing was installed")
			}
			c.install()
			if diff := cmp.Diff(installed, c.settings()); diff != "" {
				t.Errorf("installed twice: %s", diff)
			}
			state, err := gitsetup.Inspect(t.Context(), c.repo(), c.program)
			if err != nil || state.Obstacle != nil || len(state.Missing) > 0 || state.Locked {
				t.Errorf("installed: %+v, %v", state, err)
			}
			if err := gitsetup.Lock(t.Context(), c.repo()); err != nil {
				t.Fatal(err)
			}
			if err := gitsetup.Remove(t.Context(), c.repo()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, c.settings()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHooksRunTheProgramAndThenTheirScript(t *testing.T) {
	c := newClone(t)
	c.git("init", "-q", "--bare", "../remote")
	c.git("remote", "add", "origin", "../remote")
	c.write(".git/hooks/pre-commit", "#!/bin/sh -e\necho commit >>\"$TEST_CALLS\"\nexit 0\n", 0o755)
	c.write(".git/hooks/pre-push", "#!/bin/bash\nset -euo pipefail\nexec cat >>\"$TEST_CALLS\"\n", 0o755)
	c.write(".git/hooks/post-merge", "#!/bin/sh\n", 0o755)
	c.install()

	c.git("commit", "-q", "--allow-empty", "-m", "first")
	want := []string{`["crypto" "hook" "pre-commit"] stdin ""`, "commit"}
	if diff := cmp.Diff(want, c.called()); diff != "" {
		t.Error(diff)
	}
	head, zero := c.git("rev-parse", "HEAD"), strings.Repeat("0", 40)
	c.git("push", "-q", "origin", "main")
	line := "refs/heads/main " + head + " refs/heads/main " + zero
	want = []string{fmt.Sprintf(`["crypto" "hook" "pre-push" "origin" "../remote"] stdin %q`, line+"\n"), line}
	if diff := cmp.Diff(want, c.called()); diff != "" {
		t.Error(diff)
	}
	c.git("push", "-q", "origin", "main")
	if diff := cmp.Diff([]string{`["crypto" "hook" "pre-push" "origin" "../remote"] stdin "\n"`}, c.called()); diff != "" {
		t.Errorf("nothing to push: %s", diff)
	}
	c.git("checkout", "-q", "-b", "side")
	c.git("merge", "-q", "--no-ff", "main")
	c.git("commit", "-q", "--allow-empty", "-m", "second")
	c.git("checkout", "-q", "main")
	c.git("merge", "-q", "side")
	got := strings.Join(c.called(), "\n")
	for _, want := range []string{`"post-checkout" "` + head + `" "` + head + `" "1"`, `"post-merge" "0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in\n%s", want, got)
		}
	}
}

func TestHooksRefuseWhatTheProgramRefuses(t *testing.T) {
	c := newClone(t)
	c.git("init", "-q", "--bare", "../remote")
	c.git("commit", "-q", "--allow-empty", "-m", "first")
	c.write(".git/hooks/pre-push", "#!/bin/sh\necho the script ran\n", 0o755)
	c.install()
	refused := func(why string) {
		t.Helper()
		for _, args := range [][]string{{"commit", "-q", "--allow-empty", "-m", "second"}, {"push", "-q", "../remote", "main"}} {
			out, err := c.try(args...)
			if err == nil || strings.Contains(out, "the script ran") {
				t.Errorf("%s: git %v passed: %s", why, args, out)
			}
		}
		if out, err := c.try("checkout", "-q", "-B", "other"); err != nil {
			t.Errorf("%s: a checkout fails: %s", why, out)
		}
	}
	t.Setenv("TEST_FAIL", "1")
	refused("the program says no")
	t.Setenv("TEST_FAIL", "")
	if err := os.Remove(c.program); err != nil {
		t.Fatal(err)
	}
	refused("there is no program")
}

func TestInstallRefusesHooksThatCannotTakeItsLines(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(c clone)
		want    string
	}{
		"another language": {func(c clone) { c.write(".git/hooks/pre-push", "#!/usr/bin/env python3\nprint()\n", 0o755) }, "no shell script"},
		"a program":        {func(c clone) { c.write(".git/hooks/pre-commit", "\x7fELF\x00", 0o755) }, "no shell script"},
		"not executable":   {func(c clone) { c.write(".git/hooks/post-merge", "#!/bin/sh\n", 0o644) }, "not executable"},
		"a block torn open": {func(c clone) {
			c.write(".git/hooks/pre-push", "# >>> plural: this block is managed, changes inside it are lost\n", 0o755)
		}, "no end"},
		"hooks switched off": {func(c clone) { c.write("none", "", 0o600); c.git("config", "core.hooksPath", "none") }, "no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClone(t)
			tc.prepare(c)
			before := c.settings()
			err := gitsetup.Install(t.Context(), c.repo(), c.program)
			var hook *gitsetup.HookError
			if !errors.As(err, &hook) || !strings.Contains(err.Error(), tc.want) || hook.Fix() == "" {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, c.settings()); diff != "" {
				t.Errorf("something was written: %s", diff)
			}
			state, err := gitsetup.Inspect(t.Context(), c.repo(), c.program)
			if err != nil || state.Obstacle == nil || len(state.Missing) == 0 {
				t.Errorf("inspected: %+v, %v", state, err)
			}
		})
	}
}

func TestHookOfAnotherLanguageMayCallTheProgramItself(t *testing.T) {
	c := newClone(t)
	c.write(".git/hooks/pre-commit", "#!/usr/bin/env python3\n", 0o755)
	err := gitsetup.Install(t.Context(), c.repo(), "/usr/bin/plural")
	var hook *gitsetup.HookError
	if !errors.As(err, &hook) {
		t.Fatalf("got %v", err)
	}
	_, line, ok := strings.Cut(hook.Fix(), ": ")
	if !ok || line != `/usr/bin/plural crypto hook pre-commit "$@"` {
		t.Fatalf("the line to add is %q", line)
	}
	script := "#!/usr/bin/env python3\nimport os\nos.system('/usr/bin/plural crypto hook pre-commit')\n"
	c.write(".git/hooks/pre-commit", script, 0o755)
	if err := gitsetup.Install(t.Context(), c.repo(), "/usr/bin/plural"); err != nil {
		t.Error(err)
	}
	if got := c.read(".git/hooks/pre-commit"); got != script {
		t.Errorf("the script became %q", got)
	}
}

func TestAttributesOfTheCloneOutrankThoseOfACommit(t *testing.T) {
	c := newClone(t)
	c.policy("secrets/**", "**/*.secret.yaml", "with space/*")
	c.write(".gitattributes", "* -filter diff text\n", 0o600)
	c.write("secrets/.gitattributes", "* !filter\n", 0o600)
	c.install()
	for path, want := range map[string]string{"secrets/a": "plural", "x/y.secret.yaml": "plural", "with space/a": "plural", "plural.yaml": "unspecified", "other": "unset"} {
		if got := c.git("check-attr", "filter", "--", path); !strings.HasSuffix(got, " "+want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	c.policy("other")
	changed, err := gitsetup.Refresh(t.Context(), c.repo())
	if err != nil || !changed {
		t.Errorf("refreshed: %v, %v", changed, err)
	}
	if changed, err = gitsetup.Refresh(t.Context(), c.repo()); err != nil || changed {
		t.Errorf("refreshed again: %v, %v", changed, err)
	}
	stays := func(when string) {
		t.Helper()
		for path, want := range map[string]string{"secrets/a": "plural", "other": "plural", "plural.yaml": "unspecified"} {
			if got := c.git("check-attr", "filter", "--", path); !strings.HasSuffix(got, " "+want) {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
	}
	stays("after a pattern was taken away")
	if err := os.RemoveAll(filepath.Join(c.dir, ".plural")); err != nil {
		t.Fatal(err)
	}
	if changed, err := gitsetup.Refresh(t.Context(), c.repo()); err != nil || changed {
		t.Errorf("refreshed without a policy: %v, %v", changed, err)
	}
	stays("without a policy")
}

func TestWorkTreesShareSettingsAndAreLockedOneByOne(t *testing.T) {
	c := newClone(t)
	c.policy("secrets/**")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "first")
	c.install()
	linked := c
	linked.dir = filepath.Join(filepath.Dir(c.dir), "linked")
	c.git("worktree", "add", "-q", linked.dir)
	linked.policy("elsewhere/*")
	if _, err := gitsetup.Refresh(t.Context(), linked.repo()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"secrets/a", "elsewhere/a"} {
		for _, tree := range []clone{c, linked} {
			if got := tree.git("check-attr", "filter", "--", path); !strings.HasSuffix(got, " plural") {
				t.Errorf("in %s: %s", tree.dir, got)
			}
		}
	}
	if err := gitsetup.Lock(t.Context(), linked.repo()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		tree clone
		want bool
	}{{c, false}, {linked, true}} {
		if got, err := gitsetup.Locked(t.Context(), tc.tree.repo()); err != nil || got != tc.want {
			t.Errorf("%s: locked is %v, %v", tc.tree.dir, got, err)
		}
		state, err := gitsetup.Inspect(t.Context(), tc.tree.repo(), c.program)
		if err != nil || len(state.Missing) > 0 {
			t.Errorf("%s: %+v, %v", tc.tree.dir, state, err)
		}
	}
	if err := gitsetup.Unlock(t.Context(), linked.repo()); err != nil {
		t.Fatal(err)
	}
	if got, err := gitsetup.Locked(t.Context(), linked.repo()); err != nil || got {
		t.Errorf("unlocked: %v, %v", got, err)
	}
}

func TestSubmodulesHaveSettingsOfTheirOwn(t *testing.T) {
	c := newClone(t)
	c.git("init", "-q", "-b", "main", "../library")
	library := c
	library.dir = filepath.Join(filepath.Dir(c.dir), "library")
	library.policy("keys/*")
	library.git("add", "-A")
	library.git("commit", "-q", "-m", "first")
	c.git("submodule", "--quiet", "add", library.dir, "module")
	module := c
	module.dir = filepath.Join(c.dir, "module")
	module.install()
	if got := module.git("check-attr", "filter", "--", "keys/a"); !strings.HasSuffix(got, " plural") {
		t.Error(got)
	}
	module.git("commit", "-q", "--allow-empty", "-m", "second")
	if calls := module.called(); len(calls) != 1 {
		t.Errorf("the hook made %q", calls)
	}
	if locked, err := gitsetup.Locked(t.Context(), c.repo()); err != nil || !locked {
		t.Errorf("around the submodule: locked is %v, %v", locked, err)
	}
	// A linked work tree of the submodule finds the submodule's own again.
	linked := c
	linked.dir = filepath.Join(filepath.Dir(c.dir), "linked")
	module.git("worktree", "add", "-q", linked.dir)
	linked.policy("elsewhere/*")
	if _, err := gitsetup.Refresh(t.Context(), linked.repo()); err != nil {
		t.Fatal(err)
	}
	if got := module.git("check-attr", "filter", "--", "keys/a"); !strings.HasSuffix(got, " plural") {
		t.Errorf("refreshed from a linked work tree: %s", got)
	}
}

func TestGitRunsTextconvAndMergeDriverFromAnyPath(t *testing.T) {
	c := newClone(t)
	c.write(".gitattributes", "*.txt diff=plural merge=plural\n", 0o600)
	c.write("a b.txt", "1\n", 0o600)
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "first")
	c.install()
	c.git("checkout", "-q", "-b", "side")
	c.write("a b.txt", "2\n", 0o600)
	c.git("commit", "-q", "-a", "-m", "side")
	c.git("checkout", "-q", "main")
	c.write("a b.txt", "3\n", 0o600)
	c.git("commit", "-q", "-a", "-m", "main")
	c.called()
	c.git("diff", "HEAD^")
	if calls := strings.Join(c.called(), "\n"); !strings.Contains(calls, `["crypto" "textconv" `) {
		t.Errorf("diff made %s", calls)
	}
	c.git("merge", "-q", "side")
	if calls := strings.Join(c.called(), "\n"); !strings.Contains(calls, `["crypto" "merge" ".merge_file_`) || !strings.Contains(calls, `"7" "a b.txt"]`) {
		t.Errorf("merge made %s", calls)
	}
}

func TestInstallPutsAMovedProgramInPlace(t *testing.T) {
	c := newClone(t)
	if err := gitsetup.Install(t.Context(), c.repo(), "/old/plural"); err != nil {
		t.Fatal(err)
	}
	state, err := gitsetup.Inspect(t.Context(), c.repo(), c.program)
	if err != nil || len(state.Missing) == 0 || state.Filter != "/old/plural crypto filter" {
		t.Errorf("before: %+v, %v", state, err)
	}
	c.install()
	for name, text := range c.settings() {
		if strings.Contains(text, "/old/") {
			t.Errorf("%s still names the old program: %s", name, text)
		}
	}
	if err := gitsetup.Install(t.Context(), c.repo(), "plural"); err == nil {
		t.Error("a path that depends on the folder was taken")
	}
}
