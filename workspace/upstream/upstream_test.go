package upstream

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace/fleet"
	"github.com/pluralsh/plural/workspace/mirror"
)

func TestWhatASourceSaysOfItsBranchesIsWhatTheyAreJudgedBy(t *testing.T) {
	needs.Program(t, "git", "git")
	needs.Program(t, "ssh-keygen", "openssh-client")
	repo, keys := t.TempDir(), t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = repo
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=a@example.org",
			"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=a@example.org")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(keys, "key"))
	run("git", "init", "-q", "-b", "main")
	run("git", "config", "gpg.format", "ssh")
	run("git", "config", "user.signingKey", filepath.Join(keys, "key"))
	commit := func() string {
		run("git", "commit", "-q", "-S", "--allow-empty", "-m", "some")
		return run("git", "rev-parse", "HEAD")
	}
	first, second := commit(), commit()
	run("git", "checkout", "-q", "-b", "other", first)
	run("git", "commit", "-q", "-S", "--allow-empty", "-m", "other")
	other := run("git", "rev-parse", "HEAD")
	s := &fleet.Source{Spec: fleet.SourceSpec{Git: &fleet.GitSource{URL: "file://" + repo}, Verify: &fleet.Verification{Keys: []string{"key.pub"}}}}
	m, err := mirror.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]bool{}
	for _, turn := range []struct{ at, floor, rewinds, says string }{
		{second, first, "", ""},
		{other, first, "", "cannot be shown that this came out of it"},
		{other, second, "follow", "floor"},
		{other, first, "follow", ""},
	} {
		run("git", "update-ref", "refs/heads/main", turn.at)
		s.Spec.Verify.DescendsFrom, s.Spec.Verify.Rewinds = turn.floor, turn.rewinds
		a, err := Find(s, os.DirFS(keys), nil)
		if err != nil {
			t.Fatal(err)
		}
		parts[strings.Join(a.Parts(), "\n")] = true
		from, err := a.Mirror(true)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 { // a server that seems to lag is given time
			_, err = m.Fetch(t.Context(), from, []string{"main"})
		}
		if (err == nil) != (turn.says == "") || err != nil && !strings.Contains(err.Error(), turn.says) {
			t.Errorf("%+v: %v", turn, err)
		}
	}
	if len(parts) != 3 {
		t.Errorf("%d of the 3 ways to say it differ to those who would open the source anew", len(parts))
	}
	if tip := m.Tips()["main"]; tip.Commit != other {
		t.Errorf("main is at %+v", tip)
	}
}
