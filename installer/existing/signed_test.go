package existing

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pluralsh/plural/test/support/needs"
	"github.com/pluralsh/plural/workspace"
)

func TestACommitThatTheHubWillNotBelieveStopsUpBeforeTheHubWaitsForAnother(t *testing.T) {
	needs.Program(t, "git", "git")
	needs.Program(t, "ssh-keygen", "openssh-client")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "Ada")
		t.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
	}
	dir, key := t.TempDir(), filepath.Join(t.TempDir(), "ada")
	run := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	made := workspace.Options{Dir: dir, Name: "demo", HubURL: "https://hub", RepoURL: "https://git/x.git"}
	if _, err := workspace.Init(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	repo, err := workspace.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := &bringUp{repo: repo}
	if err := u.signed(); err != nil {
		t.Errorf("a hub that believes everybody: %v", err)
	}
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", key)
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]byte{hubAnswers: []byte("repoKeys:\n  - " + strings.TrimSpace(string(public)) + "\n")}
	head, err := repo.Commit(t.Context(), "Believe Ada alone", answers)
	if err != nil {
		t.Fatal(err)
	}
	var unsigned *UnsignedError
	if err := u.signed(); !errors.As(err, &unsigned) || unsigned.Commit != head || !strings.Contains(unsigned.Fix(), "-S") {
		t.Errorf("without a signature: %v", err)
	}
	sign := func(key string) {
		t.Helper()
		run("git", "-C", dir, "-c", "gpg.format=ssh", "-c", "user.signingKey="+key+".pub", "commit", "-q", "--allow-empty", "-S", "-m", "Vouch")
	}
	sign(key)
	if err := u.signed(); err != nil {
		t.Errorf("signed by Ada: %v", err)
	}
	run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "eve", "-f", key+"2")
	sign(key + "2")
	if err := u.signed(); !errors.As(err, &unsigned) {
		t.Errorf("signed by somebody else: %v", err)
	}
}
