package leakcheck_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pluralsh/plural/crypto/gitcmd"
	"github.com/pluralsh/plural/crypto/groups"
	"github.com/pluralsh/plural/crypto/leakcheck"
	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/crypto/seal"
)

const (
	benchFiles   = 10_000
	benchCommits = 1_000
	benchSealed  = 1_000
)

// BenchmarkPrePush judges 1,000 commits that nobody has yet, in a repository of 10,000 files, 1,000 of them sealed: each
// commit changes ten files, one of them sealed.
func BenchmarkPrePush(b *testing.B) {
	repo := benchRepo(b)
	cmd := exec.CommandContext(b.Context(), "git", "rev-parse", "main")
	cmd.Dir = repo.Top
	tip, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	line := "main " + strings.TrimSpace(string(tip)) + " refs/heads/main " + zero + "\n"
	for b.Loop() {
		report, err := leakcheck.PrePush(b.Context(), repo, strings.NewReader(line), "origin")
		if err != nil || len(report.Refused) > 0 {
			b.Fatal(err, wheres(report.Refused))
		}
	}
}

// benchRepo is written as a stream for git fast-import, the first commit with all files.
func benchRepo(b *testing.B) *gitcmd.Repo {
	b.Helper()
	dir := b.TempDir()
	var s strings.Builder
	file := func(path string, content []byte) {
		fmt.Fprintf(&s, "M 100644 inline %q\ndata %d\n%s\n", path, len(content), content)
	}
	secret := func(i int) {
		path := fmt.Sprintf("secrets/%d/%d", i%30, i)
		file(path, sealFor(b, repositoryID, path, fmt.Sprint("secret ", s.Len()), seal.Epoch{Group: "prod", Number: 1}))
	}
	clear := func(i int) { file(fmt.Sprintf("apps/%d/%d.yaml", i%100, i), fmt.Append(nil, "clear ", s.Len())) }
	commit := func(i int) {
		fmt.Fprintf(&s, "commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nx\n", 1_700_000_000+i)
	}
	commit(0)
	file(policy.File, []byte("apiVersion: plural.sh/v1alpha1\nkind: Seal\nmetadata: {name: seal}\nspec:\n  repository: "+repositoryID+"\n  paths:\n  - {pattern: \"secrets/**\", groups: [prod]}\n  - {pattern: \"**/*.secret.yaml\", groups: [prod]}\n"))
	file(groups.RecipientFile("prod"), []byte("# epoch 1\nage1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj\n"))
	for i := range benchFiles {
		if i < benchSealed {
			secret(i)
		} else {
			clear(i)
		}
	}
	for i := 1; i < benchCommits; i++ {
		commit(i)
		secret(i % benchSealed)
		for j := range 9 {
			clear(benchSealed + (i*9+j)%(benchFiles-benchSealed))
		}
	}
	b.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"fast-import", "--quiet"}} {
		cmd := exec.CommandContext(b.Context(), "git", args...)
		cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(s.String()), os.Stderr
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
	repo, err := gitcmd.Find(b.Context(), dir)
	if err != nil {
		b.Fatal(err)
	}
	return repo
}
