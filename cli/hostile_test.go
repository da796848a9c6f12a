package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/test/support/needs"
)

// trap is a clone of which git itself runs commands: wherever one does, the file that spring names is made.
type trap struct {
	// top is the clone's work tree, and dir the folder in which somebody calls the program.
	top, dir, spring string
	// home has what the person keeps.
	home string
}

func (r *trap) git(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir = r.top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// command is the one that git is to run.
func (r *trap) command() string { return "touch '" + r.spring + "'; false" }

func newTrap(t *testing.T) *trap {
	t.Helper()
	needs.Program(t, "git", "git")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	r := &trap{top: t.TempDir(), spring: filepath.Join(t.TempDir(), "ran"), home: t.TempDir()}
	r.dir = r.top
	manifest := "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: acme}\n" +
		"spec: {hub: {url: \"http://127.0.0.1:1\"}, repo: {branch: main}}\n"
	if err := os.WriteFile(filepath.Join(r.top, "plural.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	r.git(t, "init", "-q", "-b", "main")
	r.git(t, "add", "-A")
	r.git(t, "commit", "-q", "-m", "begin")
	return r
}

// commitBare puts a repository without a work tree among the clone's files, as anybody can who may push, and calls the program from
// there.
func (r *trap) commitBare(t *testing.T) {
	t.Helper()
	r.dir = filepath.Join(r.top, "docs")
	r.git(t, "init", "-q", "--bare", "-b", "main", r.dir)
	r.git(t, "-C", r.dir, "config", "core.bare", "false")
	r.git(t, "-C", r.dir, "config", "core.worktree", r.top)
	r.git(t, "-C", r.dir, "config", "core.fsmonitor", r.command())
	r.git(t, "-C", r.dir, "config", "credential.helper", "!"+r.command())
	for _, hook := range []string{"reference-transaction", "post-index-change"} {
		r.hook(t, filepath.Join(r.dir, "hooks"), hook)
	}
}

// bringSettings makes the clone one whose own folder of git's came along, as in an archive.
func (r *trap) bringSettings(t *testing.T) {
	t.Helper()
	r.git(t, "config", "core.fsmonitor", r.command())
	r.git(t, "config", "remote.origin.url", "ext::touch "+r.spring)
	r.git(t, "config", "protocol.ext.allow", "always")
	for _, hook := range []string{"reference-transaction", "post-index-change", "pre-push"} {
		r.hook(t, filepath.Join(r.top, ".git", "hooks"), hook)
	}
}

func (r *trap) hook(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+r.command()+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// sprung says whether a command was run since it was asked last.
func (r *trap) sprung() bool { return os.Remove(r.spring) == nil }

func TestNoFolderOfACloneHasCommandsRun(t *testing.T) {
	for name, set := range map[string]func(*trap, *testing.T){
		"a bare repository among its files":     (*trap).commitBare,
		"settings of git's own that came along": (*trap).bringSettings,
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrap(t)
			set(r, t)
			t.Chdir(r.dir)
			cmd := exec.CommandContext(t.Context(), "git", "status")
			_ = cmd.Run() // it fails, or not: what it runs is the question
			if !r.sprung() {
				t.Fatal("git itself runs nothing: the trap is none")
			}
			for _, line := range []string{
				"status", "validate", "doctor", "crypto init --name me --yes", "crypto status", "crypto status --check", "crypto lock",
				"crypto unlock", "crypto hook pre-commit", "secret set secrets/a.yaml key=value", "package list", "diff", "undo --dry-run",
				"deploy --dry-run --no-input", "service list", "__complete undo x",
			} {
				said := r.plural(t, line)
				if r.sprung() {
					t.Errorf("plural %s ran a command of the clone's: %s", line, said)
				}
			}
		})
	}
}

func TestPushingAsksNoHelperThatAFolderOfTheCloneNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	r := newTrap(t)
	r.git(t, "remote", "add", "origin", server.URL+"/fleet.git")
	r.commitBare(t)
	t.Chdir(r.dir)
	cmd := exec.CommandContext(t.Context(), "git", "credential", "fill")
	cmd.Stdin, cmd.Env = strings.NewReader("url="+server.URL+"\n\n"), append(os.Environ(), "GIT_TERMINAL_PROMPT=0")
	if _ = cmd.Run(); !r.sprung() {
		t.Fatal("git itself asks no helper: the trap is none")
	}
	said := r.plural(t, "cluster create edge-1 --yes")
	if r.sprung() {
		t.Error("a credential helper ran that a folder of the clone names")
	}
	if !strings.Contains(said, "git's credential helpers have no answer") {
		t.Errorf("the helpers that count were not asked: %s", said)
	}
}

// plural runs the program in the working directory, and gives what it said.
func (r *trap) plural(t *testing.T, line string) string {
	t.Helper()
	var out bytes.Buffer
	env := map[string]string{"CI": "true", "HOME": r.home, "PLURAL_CONFIG_DIR": r.home, "PLURAL_CACHE_DIR": r.home}
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: &out, ErrOut: &out, Width: 100}, Version: "test", Now: now,
		Getenv: func(name string) string { return env[name] },
	}
	run(context.WithoutCancel(t.Context()), f, "plural", strings.Fields(line))
	return out.String()
}
