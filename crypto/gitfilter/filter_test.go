package gitfilter_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

func TestGitHoldsCiphertextAndTheWorkTreePlaintext(t *testing.T) {
	c := newClone(t)
	c.write("secrets/db.yaml", "password: hunter2\n")
	c.write("secrets/empty", "")
	c.write("plain.yaml", "public\n")
	c.commit("add")
	if !seal.IsSealed(c.stored("HEAD:secrets/db.yaml")) {
		t.Fatal("git holds plaintext")
	}
	if got := string(c.stored("HEAD:plain.yaml")); got != "public\n" {
		t.Errorf("a file that is not to be sealed is %q in git", got)
	}
	if got := len(c.stored("HEAD:secrets/empty")); got != 0 {
		t.Errorf("an empty file has %d bytes in git", got)
	}
	c.clean()
	for _, name := range []string{"secrets/db.yaml", "secrets/empty"} {
		if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.git("checkout", "--", ".")
	if got := c.read("secrets/db.yaml"); got != "password: hunter2\n" {
		t.Errorf("checked out: %q", got)
	}
	c.clean()
}

func TestC9HabitsLeaveTheStatusClean(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.write("secrets/b", "two\n")
	c.write(".env", "KEY=1\n")
	first := c.commit("add")
	c.clean()
	oid := c.git("rev-parse", "HEAD:secrets/a")

	c.touch("secrets/a")
	c.clean()
	c.git("add", "--renormalize", ".")
	c.clean()
	c.write("secrets/a", "changed\n")
	c.git("add", "-A")
	c.write("secrets/a", "one\n")
	c.git("add", "-A")
	c.clean()
	if got := c.git("rev-parse", ":secrets/a"); got != oid {
		t.Error("an edit that was taken back left other ciphertext")
	}

	c.git("checkout", "-q", "-b", "side")
	c.write("secrets/a", "side\n")
	c.commit("side")
	c.git("checkout", "-q", "main")
	c.clean()
	c.write("secrets/b", "three\n")
	c.commit("main")
	c.git("rebase", "-q", "main", "side")
	c.clean()
	if a, b := c.read("secrets/a"), c.read("secrets/b"); a != "side\n" || b != "three\n" {
		t.Errorf("rebased: %q, %q", a, b)
	}
	c.git("checkout", "-q", "main")
	c.git("cherry-pick", "side")
	c.clean()
	c.write("secrets/a", "stashed\n")
	c.git("stash", "-q")
	c.clean()
	c.git("stash", "pop", "-q")
	if got := c.read("secrets/a"); got != "stashed\n" {
		t.Errorf("the stash gave back %q", got)
	}
	c.git("commit", "-qam", "stashed")
	c.git("reset", "-q", "--hard", first)
	c.clean()
	c.git("worktree", "add", "-q", "../linked", "side")
	linked := *c
	linked.dir = filepath.Join(filepath.Dir(c.dir), "linked")
	linked.touch("secrets/b")
	linked.clean()
	if got := linked.read("secrets/a"); got != "side\n" {
		t.Errorf("the linked work tree shows %q", got)
	}
}

func TestRebaseOfManyCommitsSeesEachIndexThatItWrites(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "0\n")
	c.write("other", "0\n")
	c.commit("add")
	c.git("checkout", "-q", "-b", "side")
	for _, text := range []string{"1\n", "2\n", "3\n", "4\n"} {
		c.write("secrets/a", text)
		c.commit(text)
	}
	c.git("checkout", "-q", "main")
	c.write("other", "1\n")
	c.commit("main")
	c.git("rebase", "-q", "main", "side")
	c.clean()
	if got := c.read("secrets/a"); got != "4\n" {
		t.Errorf("rebased: %q", got)
	}
}

func TestManyFilesAreToldApart(t *testing.T) {
	c := newClone(t)
	const files = 200
	name := func(i int) string { return fmt.Sprintf("secrets/%03d", i) }
	for i := range files {
		c.write(name(i), fmt.Sprintf("value %d\n", i))
	}
	c.commit("add")
	var want []string
	for i := range files {
		switch {
		case i%50 == 7:
			c.write(name(i), fmt.Sprintf("value %d\n", i+1)) // of the same length, most times
			want = append(want, name(i))
		case i%3 != 0:
			c.touch(name(i))
		}
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), c.git("diff", "--name-only")); diff != "" {
		t.Error(diff)
	}
	c.git("add", "-A")
	if diff := cmp.Diff(strings.Join(want, "\n"), c.git("diff", "--cached", "--name-only")); diff != "" {
		t.Error(diff)
	}
	c.git("commit", "-qm", "edit")
	c.git("rm", "-rq", "--cached", "secrets")
	c.git("add", "-A")
	c.clean()
}

func TestRenamedFilesOpenWithAWarning(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.commit("add")
	c.git("mv", "secrets/a", "secrets/b")
	const renamed = "R  secrets/a -> secrets/b"
	c.status(renamed)
	c.touch("secrets/b")
	c.status(renamed)
	c.git("stash", "-q")
	c.git("stash", "pop", "-q", "--index")
	if got := c.read("secrets/b"); got != "one\n" {
		t.Errorf("a renamed file came out of the stash as %q", got)
	}
	c.commit("rename")
	c.git("checkout", "-q", "HEAD~1")
	_, notes, err := c.try("checkout", "-q", "main")
	if err != nil || !strings.Contains(notes, `"secrets/b" is bound to a former path`) {
		t.Errorf("checkout of a rename: %v\n%s", err, notes)
	}
}

func TestC3CopiedAndSwappedFilesAreRefused(t *testing.T) {
	c := newClone(t)
	c.write("secrets/dev", "dev\n")
	c.write("secrets/prod", "prod\n")
	good := c.commit("add")
	prod, dev := c.git("rev-parse", "HEAD:secrets/prod"), c.git("rev-parse", "HEAD:secrets/dev")
	c.git("update-index", "--cacheinfo", "100644,"+prod+",secrets/dev")
	c.git("commit", "-q", "-m", "copy")
	c.git("branch", "copy")
	c.git("update-index", "--cacheinfo", "100644,"+dev+",secrets/prod")
	c.git("commit", "-q", "-m", "swap")
	c.git("branch", "swap")
	for _, attack := range []string{"copy", "swap"} {
		for _, way := range [][]string{{"checkout", "-q", attack}, {"merge", "-q", "--ff-only", attack}, {"checkout", attack, "--", "secrets/dev"}} {
			c.git("reset", "-q", "--soft", good)
			c.git("reset", "-q", "--hard", good)
			_, notes, err := c.try(way...)
			if err == nil || !strings.Contains(notes, "it was moved, copied or swapped") {
				t.Errorf("git %v: %v\n%s", way, err, notes)
			}
			if got, err := os.ReadFile(filepath.Join(c.dir, "secrets/dev")); err == nil && string(got) != "dev\n" {
				t.Errorf("git %v: the work tree holds %q", way, got)
			}
		}
	}
}

func TestOthersKeepWhatIsNotSealedForThem(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.write("secrets/b", "two\n")
	c.commit("add")
	c.identity = nil
	for _, name := range []string{"secrets/a", "secrets/b"} {
		if err := os.Remove(filepath.Join(c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_, notes, err := c.try("checkout", "--", ".")
	if err != nil {
		t.Fatal(err)
	}
	want := "plural: 2 files stay sealed: there is no identity here; alice can read them: "
	if !strings.Contains(notes, want) || strings.Count(notes, "\n") != 1 {
		t.Errorf("notes are %q, want one with %q", notes, want)
	}
	if !seal.IsSealed([]byte(c.read("secrets/a"))) {
		t.Error("the work tree does not hold the sealed file")
	}
	c.clean()
	c.touch("secrets/a")
	c.git("add", "--renormalize", ".")
	c.clean()
	c.write("secrets/c", "three\n")
	if _, _, err := c.try("add", "secrets/c"); err != nil {
		t.Errorf("sealing needs public keys only: %v", err)
	}
	c.identity = identity(t)
	if err := os.Remove(filepath.Join(c.dir, "secrets/a")); err != nil {
		t.Fatal(err)
	}
	_, notes, _ = c.try("checkout", "--", "secrets/a")
	if want := `plural: "secrets/a" stays sealed: you are not a member of prod; alice can read them`; !strings.Contains(notes, want) {
		t.Errorf("notes are %q, want %q", notes, want)
	}
}

func TestNothingIsSealedForAListThatNobodyConfirmed(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.commit("add")
	c.write("secrets/a", "two\n")
	c.writePolicy("secrets/**", "ops")
	_, notes, err := c.try("add", "secrets/a")
	if err == nil || !strings.Contains(notes, "plural crypto groups confirm") || !strings.Contains(notes, "secrets/a") {
		t.Errorf("add: %v\n%s", err, notes)
	}
	// Who takes the pattern away gets no plaintext either.
	c.writePolicy(".env", "prod")
	if _, notes, err := c.try("add", "secrets/a"); err == nil {
		t.Errorf("plaintext was added\n%s", notes)
	}
	c.confirm()
	if _, notes, err := c.try("add", "secrets/a"); err != nil {
		t.Errorf("a confirmed policy does not want it sealed: %v\n%s", err, notes)
	}
}

func TestLockedWorkTreeTakesNothingInClear(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.commit("add")
	c.write(".git/plural/locked", "")
	if err := os.Remove(filepath.Join(c.dir, "secrets/a")); err != nil {
		t.Fatal(err)
	}
	_, notes, err := c.try("checkout", "--", ".")
	if err != nil || notes != "" || !seal.IsSealed([]byte(c.read("secrets/a"))) {
		t.Fatalf("checkout in a locked work tree: %v %q", err, notes)
	}
	c.clean()
	c.write("secrets/b", "clear\n")
	if _, notes, err := c.try("add", "-A"); err == nil || !strings.Contains(notes, `"secrets/b" is refused: the work tree is locked`) {
		t.Errorf("add: %v\n%s", err, notes)
	}
	c.git("mv", "-f", "secrets/a", "secrets/b")
	c.touch("secrets/b")
	c.git("add", "-A")
	if got, want := c.git("rev-parse", ":secrets/b"), c.git("rev-parse", "HEAD:secrets/a"); got != want {
		t.Error("a sealed file was sealed again")
	}
}

func TestC8WithoutItsFilterGitStops(t *testing.T) {
	c := newClone(t)
	c.git("config", "filter.plural.process", filepath.Join(c.dir, "no-such-program"))
	c.write("secrets/a", "one\n")
	if _, _, err := c.try("add", "-A"); err == nil {
		t.Error("git added a file without its filter")
	}
}

func TestWithoutAPolicyNothingNewIsTakenInClear(t *testing.T) {
	c := newClone(t)
	c.git("checkout", "-q", "--orphan", "old")
	c.git("rm", "-rqf", ".")
	c.git("commit", "-q", "--allow-empty", "-m", "before all policies")
	c.write("secrets/a", "one\n")
	_, notes, err := c.try("add", "-A")
	if err == nil || !strings.Contains(notes, policy.File) {
		t.Errorf("add: %v\n%s", err, notes)
	}
}

func TestPolicyIsFoundInTheIndexWhenTheWorkTreeLacksIt(t *testing.T) {
	c := newClone(t)
	if err := os.RemoveAll(filepath.Join(c.dir, ".plural")); err != nil {
		t.Fatal(err)
	}
	c.write("secrets/a", "one\n")
	c.git("add", "secrets/a")
	if !seal.IsSealed(c.stored(":secrets/a")) {
		t.Error("git holds plaintext")
	}
}

func TestC2DamagedAndForeignFilesAreRefused(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	good := c.commit("add")
	sealed := c.stored("HEAD:secrets/a")
	flipped := bytes.Clone(sealed)
	flipped[len(flipped)-1] ^= 1
	prod, _ := c.vault().Groups().Group("prod")
	foreign, err := seal.Seal([]byte("evil"), seal.Binding{
		Repository: strings.Repeat("f", 32), Path: "secrets/a", Groups: []seal.Epoch{{Group: "prod", Number: 1}},
	}, prod.Recipient)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"truncated": sealed[:len(sealed)-1], "header only": sealed[:40], "flipped": flipped, "foreign": foreign} {
		t.Run(name, func(t *testing.T) {
			c.git("reset", "-q", "--hard", good)
			c.write("bad", string(bad))
			oid := c.git("hash-object", "-w", "bad")
			c.git("update-index", "--add", "--cacheinfo", "100644,"+oid+",secrets/a")
			c.git("commit", "-q", "-m", "bad")
			commit := c.git("rev-parse", "HEAD")
			c.git("reset", "-q", "--soft", good)
			c.git("reset", "-q")
			_, notes, err := c.try("checkout", "-q", commit)
			if err == nil || !strings.Contains(notes, `"secrets/a" is refused`) {
				t.Errorf("checkout: %v\n%s", err, notes)
			}
			if _, err := os.Lstat(filepath.Join(c.dir, "secrets/a")); err == nil && c.read("secrets/a") != "one\n" {
				t.Errorf("the work tree holds %q", c.read("secrets/a"))
			}
		})
	}
	c.git("reset", "-q", "--hard", good)
	c.write("secrets/a", string(sealed[:40]))
	if _, notes, err := c.try("add", "secrets/a"); err == nil || !strings.Contains(notes, "damaged") {
		t.Errorf("a damaged file was added: %v\n%s", err, notes)
	}
}

func TestHistoryOpensAcrossRotations(t *testing.T) {
	c := newClone(t)
	c.write("secrets/a", "one\n")
	c.write(".env", "K=1\n")
	old := c.commit("add")
	c.rotate("prod")
	c.write("secrets/a", "two\n")
	c.commit("rotate")
	for range 2 {
		c.git("checkout", "-q", old)
		if got := c.read("secrets/a") + c.read(".env"); got != "one\nK=1\n" {
			t.Errorf("before the rotation: %q", got)
		}
		c.clean()
		c.git("checkout", "-q", "main")
		if got := c.read("secrets/a") + c.read(".env"); got != "two\nK=1\n" {
			t.Errorf("after it: %q", got)
		}
		c.clean()
	}
	// A fast-forward does not tell the filter where to.
	c.git("checkout", "-q", old)
	c.git("merge", "-q", "--ff-only", "main")
	if got := c.read("secrets/a") + c.read(".env"); got != "two\nK=1\n" {
		t.Errorf("after a fast-forward: %q", got)
	}
}

func TestPathsAreTakenAsTheyAre(t *testing.T) {
	c := newClone(t)
	names := []string{"secrets/with space", "secrets/ümläut", "secrets/-dash", "secrets/:colon", `secrets/q"uote`, "secrets/pathname=x"}
	for _, name := range names {
		c.write(name, "secret of "+name)
	}
	c.commit("add")
	c.git("rm", "-rq", "--", "secrets")
	c.git("reset", "-q", "--hard")
	for _, name := range names {
		if !seal.IsSealed(c.stored("HEAD:" + name)) {
			t.Errorf("%q is in clear in git", name)
		}
		if got := c.read(name); got != "secret of "+name {
			t.Errorf("%q came back as %q", name, got)
		}
	}
	for _, name := range []string{"secrets/line\nbreak", "secrets/tab\t"} {
		c.write(name, "secret")
		if _, notes, err := c.try("add", "--", name); err == nil {
			t.Errorf("%q was added\n%s", name, notes)
		}
	}
}

func TestLargeFilesAreRefusedByName(t *testing.T) {
	c := newClone(t)
	c.write("secrets/large", strings.Repeat("x", seal.MaxFile+1))
	_, notes, err := c.try("add", "-A")
	if err == nil || !strings.Contains(notes, `"secrets/large" is refused: it is larger than 32 MiB`) {
		t.Errorf("add: %v\n%s", err, notes)
	}
	c.write("secrets/large", strings.Repeat("x", seal.MaxFile-1<<20))
	c.git("add", "-A")
	c.touch("secrets/large")
	if out := c.git("diff", "--name-only"); out != "" {
		t.Errorf("a large file differs after touch: %q", out)
	}
}

func TestSubmodulesHaveTheirOwnPolicy(t *testing.T) {
	inner, outer := newClone(t), newClone(t)
	inner.write("secrets/a", "inner\n")
	inner.commit("add")
	outer.identity = inner.identity
	outer.git("submodule", "--quiet", "add", inner.dir, "module")
	module := *inner
	module.dir = filepath.Join(outer.dir, "module")
	module.identity = inner.identity
	module.setUp()
	if err := os.Remove(filepath.Join(module.dir, "secrets/a")); err != nil {
		t.Fatal(err)
	}
	module.git("checkout", "--", ".")
	if got := module.read("secrets/a"); got != "inner\n" {
		t.Errorf("the submodule shows %q", got)
	}
	module.clean()
}
