package leakcheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

func TestCommitSealsRenamedFilesAnew(t *testing.T) {
	for name, habit := range map[string]func(c clone){
		"git commit":    func(c clone) { c.git("mv", "secrets/a", "secrets/b"); c.git("commit", "-q", "-m", "x") },
		"git commit -a": func(c clone) { c.git("mv", "secrets/a", "secrets/b"); c.git("commit", "-q", "-a", "-m", "x") },
		"git commit .":  func(c clone) { c.git("mv", "secrets/a", "secrets/b"); c.git("commit", "-q", "-m", "x", ".") },
		"git commit PATH": func(c clone) {
			c.git("mv", "secrets/a", "secrets/b")
			c.git("commit", "-q", "-m", "x", "secrets/a", "secrets/b")
		},
		"--amend": func(c clone) { c.git("mv", "secrets/a", "secrets/b"); c.git("commit", "-q", "--amend", "--no-edit") },
		"mv by the shell": func(c clone) {
			if err := os.Rename(filepath.Join(c.dir, "secrets/a"), filepath.Join(c.dir, "secrets/b")); err != nil {
				c.Fatal(err)
			}
			c.git("add", "-A")
			c.git("commit", "-q", "-m", "x")
		},
		"a folder": func(c clone) {
			c.git("mv", "secrets", "dev")
			c.git("mv", "dev/a", "dev/b")
			c.git("commit", "-q", "-m", "x")
		},
		"and changed": func(c clone) {
			c.git("mv", "secrets/a", "secrets/b")
			c.write("other", "x")
			c.git("add", "-A")
			c.git("commit", "-q", "-m", "x")
		},
		"one half first": func(c clone) {
			c.git("mv", "secrets/a", "secrets/b")
			c.git("commit", "-q", "-m", "x", "secrets/b")
			c.git("commit", "-q", "-m", "x", "secrets/a")
		},
		"not verified, then amended": func(c clone) {
			c.git("mv", "secrets/a", "secrets/b")
			c.git("commit", "-q", "--no-verify", "-m", "x")
			if out, err := c.try("push"); err == nil || !strings.Contains(out, "git commit --amend --no-edit") {
				c.Errorf("pushed: %s", out)
			}
			c.git("commit", "-q", "--amend", "--no-edit")
			c.git("push", "-q")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newSealed(t)
			habit(c)
			c.T = t
			c.sound()
			if strings.Contains(c.git("ls-tree", "-r", "HEAD"), "secrets/a") {
				t.Error("the old path is still there")
			}
		})
	}
}

func TestCommitSealsSwappedFilesAnewForWhoeverSwappedThem(t *testing.T) {
	c := newSealed(t)
	c.write("secrets/b", "beta\n")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "b")
	for _, mv := range [][2]string{{"a", "t"}, {"b", "a"}, {"t", "b"}} {
		c.git("mv", "secrets/"+mv[0], "secrets/"+mv[1])
	}
	c.git("commit", "-q", "-m", "swap")
	c.sound()
	if a, b := c.read("secrets/a"), c.read("secrets/b"); a != "beta\n" || b != "alpha\n" {
		t.Errorf("a is %q, b is %q", a, b)
	}
}

func TestCommitRefusesWhatWasPutInAnothersPlace(t *testing.T) {
	c := newSealed(t)
	c.stageAt("dev/copy", c.git("rev-parse", ":secrets/a"))
	out, err := c.try("commit", "-m", "x")
	if err == nil || !strings.Contains(out, `was sealed for "secrets/a"`) {
		t.Errorf("got %v: %s", err, out)
	}
}

func TestCommitDoesNotWidenWhatCameWithAnotherCommit(t *testing.T) {
	c := newSealed(t)
	c.stageAt("dev/a", c.git("rev-parse", ":secrets/a")) // from prod to dev, by somebody without hooks
	c.git("rm", "-q", "secrets/a")
	c.commit("not mine")
	c.write("other", "x")
	c.git("add", "other")
	out := c.git("commit", "-m", "mine")
	if !strings.Contains(out, `warned "dev/a"`) || strings.Contains(out, "mended") {
		t.Errorf("got %s", out)
	}
	if findings, err := c.rules(false).Index(t.Context(), c.repo()); err != nil || strings.Join(kinds(findings), " ") != "moved dev/a" {
		t.Errorf("got %v, %v", findings, err)
	}
}

// What a merge, a cherry-pick or a revert brings was put there by whoever wrote those commits, also while it is being
// committed by somebody else.
func TestCommitDoesNotWidenWhatAMergeBrings(t *testing.T) {
	for name, bring := range map[string][]string{
		"merge":       {"merge", "--no-commit", "--no-ff", "theirs"},
		"cherry-pick": {"cherry-pick", "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newSealed(t)
			c.git("branch", "theirs")
			c.write("README", "mine\n")
			c.git("commit", "-q", "-a", "-m", "mine")
			c.git("checkout", "-q", "theirs")
			c.stageAt("dev/a", c.git("rev-parse", ":secrets/a")) // from prod to dev, by somebody without hooks
			c.git("rm", "-q", "--cached", "secrets/a")
			c.write("README", "theirs\n")
			c.git("add", "README")
			c.commit("theirs")
			c.git("checkout", "-q", "-f", "main")
			_, _ = c.try(bring...) // stops at the README
			c.write("README", "both\n")
			c.git("add", "README")
			out, err := c.try("commit", "-m", "merged")
			if err == nil || !strings.Contains(out, `"dev/a" (index): was sealed for "secrets/a"`) {
				t.Errorf("got %v: %s", err, out)
			}
		})
	}
}

func TestCommitRefusesPlaintextUntilItsAdviceIsFollowed(t *testing.T) {
	c := newSealed(t)
	c.write("secrets/with space", "canary\n")
	c.smuggle("secrets/with space", "canary\n")
	for _, args := range [][]string{{"commit", "-m", "x"}, {"commit", "--amend", "--no-edit"}} {
		out, err := c.try(args...)
		if err == nil || !strings.Contains(out, `"secrets/with space" (index): must be sealed for prod, and is not`) ||
			!strings.Contains(out, "git add --renormalize 'secrets/with space'") || strings.Contains(out, "canary") {
			t.Errorf("git %v: %v: %s", args, err, out)
		}
	}
	c.git("add", "--renormalize", "secrets/with space")
	c.git("commit", "-q", "-m", "x")
	c.sound()
}

func TestCommitRefusesPlaintextThatAPolicyNowCovers(t *testing.T) {
	c := newSealed(t)
	c.policy("secrets/**=prod", "dev/**=dev", "README=dev")
	c.git("add", "-A")
	if out, err := c.try("commit", "-m", "x"); err == nil || !strings.Contains(out, `"README" (index)`) {
		t.Errorf("got %v: %s", err, out)
	}
	c.confirm()
	c.install()
	c.git("add", "--renormalize", "README")
	c.git("commit", "-q", "-m", "x")
	c.sound()
}

func TestCommitSealsForTheGroupsAndKeysThatCountNow(t *testing.T) {
	c := newSealed(t)
	c.rotate("prod")
	c.git("add", ".plural")
	out := c.git("commit", "-m", "rotated")
	if !strings.Contains(out, `mended "secrets/a" (index): is sealed for epoch 1`) {
		t.Errorf("got %s", out)
	}
	past := time.Now().Add(-time.Hour) // git asks the filter about files that are as young as its index
	if err := os.Chtimes(filepath.Join(c.dir, "secrets/a"), past, past); err != nil {
		t.Fatal(err)
	}
	c.sound()
	c.policy("secrets/**=dev")
	c.git("add", policy.File)
	if out, err := c.try("commit", "-m", "for others"); err == nil || !strings.Contains(out, "secrets/** is sealed for dev") {
		t.Errorf("sealed for whom nobody confirmed: %s", out)
	}
	c.confirm()
	if out := c.git("commit", "-m", "for others"); !strings.Contains(out, "mended") {
		t.Errorf("got %s", out)
	}
	c.sound()
}

// A file of two groups can be opened by way of the one whose keys are here. Sealed anew for the old keys of the other, it could be
// read by whoever was removed since.
func TestCommitSealsNothingNewerForKeysThatWereGivenUp(t *testing.T) {
	c := newSealed(t)
	c.policy("secrets/**=dev, prod", "dev/**=dev")
	c.confirm()
	prod, _ := c.set().Group("prod")
	binding := seal.Binding{
		Repository: repositoryID, Path: "secrets/a", Groups: []seal.Epoch{{Group: "dev", Number: 2}, {Group: "prod", Number: 1}},
	}
	sealed, err := seal.Seal([]byte("newer\n"), binding, prod.Recipient.Recipient, identity(t).Recipient())
	if err != nil {
		t.Fatal(err)
	}
	c.git("add", policy.File)
	c.smuggle("secrets/a", string(sealed))
	if out, err := c.try("commit", "-m", "x"); err == nil || !strings.Contains(out, `epoch 2 of the group "dev"`) || strings.Contains(out, "mended") {
		t.Errorf("got %v: %s", err, out)
	}
	if oid, stored := c.git("rev-parse", ":secrets/a"), c.git("cat-file", "blob", ":secrets/a"); stored != strings.TrimSpace(string(sealed)) {
		t.Errorf("the index has another file, %s", oid)
	}
}

func TestCommitWithoutTheKeysLeavesFilesAsTheyAre(t *testing.T) {
	c := newSealed(t)
	t.Setenv(identityEnv, c.bob.String())
	if err := os.Remove(filepath.Join(c.dir, "secrets/a")); err != nil {
		t.Fatal(err)
	}
	c.git("checkout", "-q", "--", ".")
	c.write("other", "x")
	c.git("add", "other")
	c.git("commit", "-q", "-m", "x")
	c.sound()
	c.git("mv", "secrets/a", "secrets/b")
	if out, err := c.try("commit", "-m", "x"); err == nil || !strings.Contains(out, "was sealed for") {
		t.Errorf("got %v: %s", err, out)
	}
}

func TestCommitKeepsNothingSecretInAnEmptyFile(t *testing.T) {
	c := newSealed(t)
	c.write("secrets/.keep", "")
	c.write("secrets/later", "canary\n")
	c.git("add", "secrets/.keep")
	c.git("add", "--intent-to-add", "secrets/later")
	c.git("commit", "-q", "-m", "x")
	if objects := c.git("cat-file", "--batch-all-objects", "--batch"); strings.Contains(objects, "canary") {
		t.Error("plaintext reached an object")
	}
}

func TestCommitWorksInWorkTreesAndSubmodules(t *testing.T) {
	c := newSealed(t)
	linked := c
	linked.dir = filepath.Join(filepath.Dir(c.dir), "linked")
	c.git("worktree", "add", "-q", linked.dir)
	above := c
	above.dir = filepath.Join(filepath.Dir(c.dir), "above")
	c.git("init", "-q", above.dir)
	above.git("submodule", "--quiet", "add", c.dir, "module")
	module := c
	module.dir = filepath.Join(above.dir, "module")
	module.install() // what lies there stays sealed
	for _, one := range []clone{linked, module} {
		one.git("mv", "secrets/a", "secrets/b")
		if out := one.git("commit", "-m", "x"); !strings.Contains(out, "mended") {
			t.Errorf("in %s: %s", one.dir, out)
		}
		one.sound()
		one.git("mv", "secrets/b", "secrets/c")
		one.git("commit", "-q", "-m", "x", "secrets")
		one.sound()
	}
}

func TestCommitFromAFolderWithinMendsTheSameIndex(t *testing.T) {
	c := newSealed(t)
	c.git("mv", "secrets/a", "secrets/b")
	inside := c
	inside.dir = filepath.Join(c.dir, "secrets")
	inside.git("commit", "-q", "-m", "x", ".")
	c.sound()
}
