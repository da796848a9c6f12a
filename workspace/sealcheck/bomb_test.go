package sealcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/crypto/policy"
	"github.com/pluralsh/plural/test/support/walktest"
	"github.com/pluralsh/plural/workspace/snapshot"
)

// bomb commits a folder of twelve levels beside what is there: each folder holds the next one ten times, so that a kilobyte
// of objects is a file under 10^12 paths.
func (r *repo) bomb(file string) *snapshot.Snapshot {
	r.t.Helper()
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "x")
	tree := walktest.Tree(r.t, r.dir, file)
	root := walktest.Feed(r.t, r.dir, r.git("ls-tree", "HEAD")+"\n040000 tree "+tree+"\tbomb\n", "mktree")
	snap, err := snapshot.Open(r.dir, r.git("commit-tree", root, "-p", "HEAD", "-m", "x"))
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

func TestFolderAtMorePathsThanAnybodyCanWalkIsLookedAtOnceWhereNothingMatches(t *testing.T) {
	for name, pattern := range map[string]string{
		"elsewhere": "private/**", "around it": "bomb/**/*.pem", "everywhere": "**/secret.yaml", "on the way": "bomb/*/[0-4]/**/5/*.pem",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			r.write(map[string]string{policy.File: sealYAML + fmt.Sprintf("  - {pattern: %q, groups: [fleet]}\n", pattern)})
			c := New()
			if got := check(t, c, r.bomb("x.yaml")); got != nil {
				t.Errorf("problems with %q", got)
			}
			if len(c.bare) > 1_000 || len(c.known) > 1_000 {
				t.Errorf("remembers %d and %d folders", len(c.bare), len(c.known))
			}
		})
	}
}

func TestFilesAtMorePathsThanAnybodyCanJudgeAreRefused(t *testing.T) {
	r, c := newRepo(t), New()
	r.write(map[string]string{policy.File: sealYAML + "  - {pattern: \"**/secret.yaml\", groups: [fleet]}\n"})
	for range 2 { // the second time it is known
		problems, err := c.Check(t.Context(), r.bomb("secret.yaml"))
		if err != nil || len(problems) != 1 {
			t.Fatalf("problems are %v, %v", problems, err)
		}
		if p := problems[0]; !strings.HasPrefix(p.File, "bomb/0/0/") || !strings.Contains(p.Message, "more than 500000 files") || p.Fix == "" {
			t.Errorf("problem is %+v", p)
		}
	}
	r.write(map[string]string{"secrets/a.yaml": "clear"})
	if got := check(t, c, r.commit(nil)); !cmp.Equal(got, []string{"secrets/a.yaml"}) {
		t.Errorf("when it is gone, problems are with %q", got)
	}
}

func TestNoMoreProblemsAreToldThanAnybodyReads(t *testing.T) {
	r := newRepo(t)
	files := map[string]string{}
	for i := range maxProblems + 10 {
		files[fmt.Sprintf("secrets/%04d.yaml", i)] = "clear"
	}
	got := check(t, New(), r.commit(files))
	if len(got) != maxProblems+1 || got[0] != policy.File {
		t.Errorf("%d problems, of which the first is with %q", len(got), got[0])
	}
	r.write(map[string]string{"secrets/x.yaml": "clear"})
	work, err := snapshot.Worktree(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := check(t, New(), work); got != nil {
		t.Errorf("%d problems with a work tree, which may be in clear", len(got))
	}
}

func TestLookingEndsWithItsContext(t *testing.T) {
	r := newRepo(t)
	snap := r.commit(map[string]string{"secrets/a.yaml": "clear"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New().Check(ctx, snap); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// ending is a context that ends when it has been asked so often.
type ending struct {
	context.Context //nolint:containedctx // is one
	left            int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestLookingThatEndedEarlySaysNothingIsInOrder(t *testing.T) {
	r := newRepo(t)
	snap := r.commit(map[string]string{"secrets/a.yaml": "clear", "README.md": "x"})
	for left := range 10 {
		problems, err := New().Check(&ending{t.Context(), left}, snap)
		if !errors.Is(err, context.Canceled) && (err != nil || len(problems) != 1) {
			t.Errorf("asked %d times: %v, %v", left, problems, err)
		}
	}
	if got := check(t, New(), snap); !cmp.Equal(got, []string{"secrets/a.yaml"}) {
		t.Errorf("problems with %q", got)
	}
}

// A folder that no pattern matches anything in is known by its id and by what patterns can match there, so the same folder
// elsewhere is not taken for it.
func TestSameFolderIsJudgedWhereverAnotherPatternReachesIt(t *testing.T) {
	r := newRepo(t)
	files := map[string]string{}
	for _, dir := range []string{"0", "a", "deep/a", "secrets", "clusters", "other"} {
		files[dir+"/x.yaml"] = "clear"
	}
	files[policy.File] = sealYAML + "  - {pattern: \"**/a/*.yaml\", groups: [fleet]}\n" +
		"  - {pattern: \"0/*.pem\", groups: [fleet]}\n  - {pattern: \"[co]*/**\", groups: [fleet]}\n"
	c, want := New(), []string{"a/x.yaml", "deep/a/x.yaml", "other/x.yaml", "secrets/x.yaml"}
	for range 2 {
		if got := check(t, c, r.commit(files)); !cmp.Equal(got, want) {
			t.Errorf("problems with %q, want %q", got, want)
		}
	}
}
