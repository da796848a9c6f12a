package leakcheck_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
)

const zero = "0000000000000000000000000000000000000000"

// push asks the hook about "LOCAL:REMOTE-REF@REMOTE-OID", which is how git says it.
func (c clone) push(updates ...string) *leakcheck.Report {
	c.Helper()
	var lines strings.Builder
	for _, u := range updates {
		local, rest, _ := strings.Cut(u, ":")
		ref, remote, ok := strings.Cut(rest, "@")
		if !ok {
			remote = zero
		}
		oid := zero
		if local != "" {
			oid = c.git("rev-parse", local)
		} else {
			local = "(delete)"
		}
		fmt.Fprintf(&lines, "%s %s %s %s\n", local, oid, ref, remote)
	}
	report, err := leakcheck.PrePush(c.Context(), c.repo(), strings.NewReader(lines.String()), "origin")
	if err != nil {
		c.Fatal(err)
	}
	return report
}

// wheres are "KIND PATH WHERE" of findings.
func wheres(findings []leakcheck.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s %s %s", f.Kind, f.Path, f.Where))
	}
	return all
}

func in(kind, path, commit string) string { return kind + " " + path + " commit " + commit[:12] }

func TestPushRefusesPlaintextInAnyNewCommit(t *testing.T) {
	for name, story := range map[string]struct {
		run func(c clone) (update string, want []string)
		fix string
	}{
		"at the tip": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", c.commit("tip"))}
		}, "git add --renormalize secrets/b && git commit --amend"},
		"in the middle, sealed since": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			c.write("secrets/b", "canary\n")
			c.git("add", "--renormalize", "secrets/b")
			c.commit("good")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", bad)}
		}, "git rebase -i"},
		"in the middle, removed since": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			c.git("rm", "-q", "--cached", "secrets/b")
			c.commit("good")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", bad)}
		}, "git rebase -i"},
		"before there was a policy for it": {func(c clone) (string, []string) {
			c.smuggle("late/b", "canary\n")
			bad := c.commit("bad")
			c.git("rm", "-q", "--cached", "late/b")
			c.policy("secrets/**=prod", "dev/**=dev", "late/**=dev")
			c.confirm()
			c.git("add", ".plural")
			c.commit("policy")
			return "HEAD:refs/heads/main", []string{in("plaintext", "late/b", bad)}
		}, "git reset --soft"},
		"while there was a policy for it": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			c.git("rm", "-q", "--cached", "-r", "secrets")
			c.policy("dev/**=dev")
			c.git("add", policy.File)
			c.commit("policy")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", bad)}
		}, "git rebase -i"},
		"that only the merge has": {func(c clone) (string, []string) {
			c.git("checkout", "-q", "-b", "side")
			c.commit("side")
			c.git("checkout", "-q", "main")
			c.commit("main")
			c.git("merge", "-q", "--no-commit", "--no-ff", "side")
			c.smuggle("secrets/b", "canary\n")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", c.commit("merge"))}
		}, "git commit --amend"},
		"on a side that was merged": {func(c clone) (string, []string) {
			c.git("checkout", "-q", "-b", "side")
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("side")
			c.git("rm", "-q", "--cached", "secrets/b")
			c.commit("removed")
			c.git("checkout", "-q", "main")
			c.commit("main")
			c.git("merge", "-q", "--no-ff", "--no-verify", "-m", "merge", "side")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/b", bad)}
		}, "git rebase -i"},
		"on a new branch": {func(c clone) (string, []string) {
			c.git("checkout", "-q", "-b", "topic")
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			return "topic:refs/heads/topic", []string{in("plaintext", "secrets/b", bad)}
		}, "git commit --amend"},
		"behind a tag": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			c.git("tag", "-a", "-m", "x", "v1")
			c.git("reset", "-q", "--hard", "HEAD^")
			return "v1:refs/tags/v1", []string{in("plaintext", "secrets/b", bad)}
		}, "git commit --amend"},
		"in a history of its own": {func(c clone) (string, []string) {
			c.git("checkout", "-q", "--orphan", "other")
			c.smuggle("secrets/b", "canary\n")
			bad := c.commit("bad")
			return "other:refs/heads/other", []string{in("plaintext", "secrets/b", bad)}
		}, "git commit --amend"},
		"in a rewritten history": {func(c clone) (string, []string) {
			old := c.git("rev-parse", "HEAD")
			c.smuggle("secrets/b", "canary\n")
			c.git("commit", "-q", "--no-verify", "--amend", "-m", "rewritten")
			return "HEAD:refs/heads/main@" + old, []string{in("plaintext", "secrets/b", c.git("rev-parse", "HEAD"))}
		}, "git commit --amend"},
		"onto commits that were never fetched": {func(c clone) (string, []string) {
			c.smuggle("secrets/b", "canary\n")
			return "HEAD:refs/heads/main@" + strings.Repeat("1", 40), []string{in("plaintext", "secrets/b", c.commit("tip"))}
		}, "git commit --amend"},
		"at a path that git quotes": {func(c clone) (string, []string) {
			c.smuggle("secrets/f\u00fcr \"b\"", "canary\n")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/f\u00fcr \"b\"", c.commit("tip"))}
		}, "git commit --amend"},
		"that an ordinary file became": {func(c clone) (string, []string) {
			c.git("mv", "README", "secrets/README")
			c.write("secrets/README", "canary\n")
			c.smuggle("secrets/README", "canary\n")
			return "HEAD:refs/heads/main", []string{in("plaintext", "secrets/README", c.commit("tip"))}
		}, "git commit --amend"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newSealed(t)
			update, want := story.run(c)
			c.T = t
			report := c.push(update)
			if diff := cmp.Diff(want, wheres(report.Refused)); diff != "" {
				t.Fatal(diff)
			}
			if fix := report.Refused[0].Fix; !strings.Contains(fix, story.fix) || !strings.Contains(fix, "ever pushed elsewhere") {
				t.Errorf("advised %s", fix)
			}
		})
	}
}

func TestPushPassesWhatIsNothingNew(t *testing.T) {
	c := newSealed(t)
	c.smuggle("secrets/b", "canary\n")
	bad := c.commit("bad")
	c.git("tag", "old")
	c.git("push", "-q", "--no-verify", "origin", "main")
	c.git("rm", "-q", "--cached", "secrets/b")
	good := c.commit("removed")
	c.git("tag", "blob", c.git("rev-parse", bad+":README"))
	c.git("tag", "-a", "-m", "x", "tagged-blob", "blob")
	c.git("tag", "tree", bad+"^{tree}")
	for name, updates := range map[string][]string{
		"the next commit":  {"HEAD:refs/heads/main@" + bad},
		"a new branch":     {"HEAD:refs/heads/topic"},
		"a deletion":       {":refs/heads/main@" + bad},
		"back to the old":  {bad + "^:refs/heads/main@" + bad},
		"a tag of the old": {"old:refs/tags/old"},
		"no commits":       {"blob:refs/tags/blob", "tagged-blob:refs/tags/tagged-blob", "tree:refs/tags/tree"},
		"many at once":     {"HEAD:refs/heads/main@" + bad, "HEAD:refs/heads/b", "old:refs/tags/old", ":refs/heads/gone@" + good, "tagged-blob:refs/tags/t"},
		"nothing":          {},
	} {
		if report := c.push(updates...); len(report.Refused) > 0 {
			t.Errorf("%s: %v", name, wheres(report.Refused))
		}
	}
}

func TestPushRefusesPlaintextThatTheRemoteHasAtTheTipOfABranch(t *testing.T) {
	c := newSealed(t)
	c.smuggle("secrets/b", "canary\n")
	c.commit("bad")
	c.git("push", "-q", "--no-verify", "origin", "main")
	tip := c.commit("next")
	report := c.push("HEAD:refs/heads/main")
	if diff := cmp.Diff([]string{in("plaintext", "secrets/b", tip)}, wheres(report.Refused)); diff != "" {
		t.Error(diff)
	}
}

func TestPushJudgesEachTipByItsOwnPolicy(t *testing.T) {
	c := newSealed(t)
	shared := c.git("rev-parse", "HEAD")
	c.git("checkout", "-q", "-b", "pages")
	c.git("rm", "-q", "-r", "--cached", ".")
	c.smuggle("pages/a", "clear on purpose\n")
	c.commit("pages")
	c.git("checkout", "-q", "-f", "main")
	c.policy("secrets/**=prod", "pages/**=dev")
	c.confirm()
	c.git("add", policy.File)
	c.commit("policy")
	if report := c.push("main:refs/heads/main@"+shared, "pages:refs/heads/pages"); len(report.Refused) > 0 {
		t.Errorf("refused %v", wheres(report.Refused))
	}
}

func TestPushRefusesAtTheTipWhatTheseCommitsBring(t *testing.T) {
	c := newSealed(t)
	c.git("mv", "secrets/a", "secrets/b")
	theirs := c.commit("moved by somebody")
	report := c.push("HEAD:refs/heads/main")
	if diff := cmp.Diff([]string{in("moved", "secrets/b", theirs)}, wheres(report.Refused)); diff != "" {
		t.Error(diff)
	}
	c.git("push", "-q", "--no-verify", "origin", "main")
	mine := c.commit("mine")
	report = c.push("HEAD:refs/heads/main")
	if len(report.Refused) > 0 || len(report.Warned) != 1 || report.Warned[0].Where != "commit "+mine[:12] {
		t.Errorf("what the remote has already: refused %v, warned %v", wheres(report.Refused), wheres(report.Warned))
	}
	c.rotate("prod")
	c.git("add", ".plural")
	tip := c.commit("rotated, and nothing sealed anew")
	report = c.push("HEAD:refs/heads/main")
	if diff := cmp.Diff([]string{in("moved", "secrets/b", tip)}, wheres(report.Refused)); diff != "" {
		t.Error(diff)
	}
}

func TestPushRefusesFilesThatTheRevokedCouldRead(t *testing.T) {
	c := newSealed(t)
	c.git("checkout", "-q", "-b", "offline")
	c.write("secrets/new", "new\n")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "sealed for the old key")
	c.git("checkout", "-q", "main")
	c.rotate("prod")
	c.git("add", "-A")
	c.git("commit", "-q", "-m", "rotated")
	c.git("push", "-q")
	c.git("merge", "-q", "-m", "merge", "offline")
	report := c.push("HEAD:refs/heads/main")
	if diff := cmp.Diff([]string{in("retired", "secrets/new", c.git("rev-parse", "HEAD"))}, wheres(report.Refused)); diff != "" {
		t.Fatal(diff)
	}
	c.git("commit", "-q", "--amend", "--no-edit")
	c.sound()
	c.git("push", "-q")
}

func TestPushWithoutAPolicyAsksNothing(t *testing.T) {
	c := newClone(t)
	if report := c.push("HEAD:refs/heads/main"); len(report.Refused)+len(report.Warned) > 0 {
		t.Errorf("got %+v", report)
	}
}

func TestPushRefusesATipWhosePolicyDoesNotRead(t *testing.T) {
	c := newSealed(t)
	c.smuggle(policy.File, "paths: []\n")
	c.commit("broken")
	line := "x " + c.git("rev-parse", "HEAD") + " refs/heads/main " + zero + "\n"
	if _, err := leakcheck.PrePush(t.Context(), c.repo(), strings.NewReader(line), "origin"); err == nil || !strings.Contains(err.Error(), policy.File) {
		t.Errorf("got %v", err)
	}
	c.git("checkout", "-q", "HEAD^", "--", policy.File)
	c.commit("mended")
	if report := c.push("HEAD:refs/heads/main"); len(report.Refused) > 0 {
		t.Errorf("mended: %v", wheres(report.Refused))
	}
}

func TestPushToARemoteWithoutAName(t *testing.T) {
	c := newSealed(t)
	c.git("init", "-q", "--bare", "../else*where")
	c.git("push", "-q", "../else*where", "main")
	c.smuggle("secrets/b", "canary\n")
	c.commit("bad")
	if out, err := c.try("push", "../else*where", "main"); err == nil || !strings.Contains(out, `"secrets/b" (commit `) || strings.Contains(out, "canary") {
		t.Errorf("got %v: %s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(c.dir, ".git", "plural-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestCommitsLooksAtARange(t *testing.T) {
	c := newSealed(t)
	base := c.git("rev-parse", "HEAD")
	c.smuggle("secrets/b", "canary\n")
	bad := c.commit("bad")
	c.git("rm", "-q", "--cached", "secrets/b")
	c.commit("good")
	findings, err := leakcheck.Commits(t.Context(), c.repo(), gitcmd.Range{Tips: []string{"HEAD"}, Known: []string{base}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{in("plaintext", "secrets/b", bad)}, wheres(findings)); diff != "" {
		t.Error(diff)
	}
}
