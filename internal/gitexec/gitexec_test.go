package gitexec_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/gitexec"
	"github.com/pluralsh/plural/test/support/needs"
)

// repository is one that has git run a command wherever that is possible: the command makes the file spring.
func repository(t *testing.T) (dir, spring string) {
	t.Helper()
	needs.Program(t, "git", "git")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	dir, spring = t.TempDir(), filepath.Join(t.TempDir(), "ran")
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "--allow-empty", "-m", "begin")
	git(t, dir, "config", "core.fsmonitor", "touch '"+spring+"'; false")
	git(t, dir, "config", "remote.command.url", "ext::touch "+spring)
	git(t, dir, "config", "protocol.ext.allow", "always")
	hook := filepath.Join(dir, ".git", "hooks", "reference-transaction")
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch '"+spring+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir, spring
}

// git runs git as a person does.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestSettingsOfARepositoryRunNothing(t *testing.T) {
	for _, args := range [][]string{{"status"}, {"update-ref", "refs/heads/other", "HEAD"}, {"ls-remote", "command"}} {
		t.Run(args[0], func(t *testing.T) {
			dir, spring := repository(t)
			cmd := exec.CommandContext(t.Context(), "git", args...)
			cmd.Dir = dir
			_ = cmd.Run() // a remote that is no git server is an error
			if os.Remove(spring) != nil {
				t.Fatal("git itself runs nothing: the trap is none")
			}
			_, err := gitexec.Call{Dir: dir, Args: args}.Run(t.Context())
			if os.Remove(spring) == nil {
				t.Error("a command of the repository's ran")
			}
			if refused := args[0] == "ls-remote"; (err != nil) != refused {
				t.Error(err)
			}
		})
	}
}

func TestABareRepositoryCountsOnlyWhereItIsNamed(t *testing.T) {
	dir, spring := repository(t)
	bare := filepath.Join(t.TempDir(), "docs")
	if err := os.Rename(filepath.Join(dir, ".git"), bare); err != nil {
		t.Fatal(err)
	}
	git(t, bare, "config", "credential.helper", "!touch '"+spring+"'")
	fill := gitexec.Call{
		Dir: bare, Args: []string{"credential", "fill"}, Env: []string{"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false"},
		Input: strings.NewReader("url=https://git.example.com\n\n"),
	}
	if _, err := fill.Run(t.Context()); err == nil || os.Remove(spring) == nil {
		t.Errorf("the folder's helper was asked: %v", err)
	}
	log := gitexec.Call{Dir: bare, Args: []string{"log", "--format=%s"}}
	var failed *gitexec.Error
	if _, err := log.Run(t.Context()); !errors.As(err, &failed) || failed.Command != "log" || !strings.Contains(failed.Stderr, "safe.bareRepository") {
		t.Errorf("got %v", err)
	}
	log.Env = []string{"GIT_DIR=" + bare}
	if out, err := log.Run(t.Context()); err != nil || string(out) != "begin\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestTheEnvironmentOfAnotherGitIsLeftOut(t *testing.T) {
	dir, _ := repository(t)
	for _, name := range []string{"GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_CONFIG", "GIT_NAMESPACE"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "elsewhere"))
	}
	out, err := gitexec.Call{Dir: dir, Args: []string{"log", "--format=%s"}}.Run(t.Context())
	if err != nil || string(out) != "begin\n" {
		t.Errorf("got %q, %v", out, err)
	}
	out, err = gitexec.Call{Dir: dir, Args: []string{"config", "remote.command.url"}}.Run(t.Context())
	if err != nil || !strings.HasPrefix(string(out), "ext::") {
		t.Errorf("got %q, %v", out, err)
	}
}

func TestGitEndsWithItsContextAndComplainsWithinBounds(t *testing.T) {
	dir, _ := repository(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := (gitexec.Call{Dir: dir, Args: []string{"status"}}).Run(ctx); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	_, err := gitexec.Call{Dir: dir, Args: []string{"log", strings.Repeat("x", 5000)}}.Run(t.Context())
	var failed *gitexec.Error
	if !errors.As(err, &failed) || failed.Code != 128 || len(failed.Stderr) > 1000 {
		t.Errorf("got %v", err)
	}
}

func TestWhatGitComplainsOfHoldsNoNUL(t *testing.T) {
	var said gitexec.Complaint
	if _, err := said.Write([]byte("fatal: bad ref \x00\x00\n")); err != nil {
		t.Fatal(err)
	}
	if got := said.String(); got != "fatal: bad ref \uFFFD\uFFFD" {
		t.Errorf("it says %q", got)
	}
}
