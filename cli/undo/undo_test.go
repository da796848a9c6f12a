package undo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pluralsh/plural/cli/cmdutil"
	"github.com/pluralsh/plural/cli/ui"
	"github.com/pluralsh/plural/cli/undo"
	"github.com/pluralsh/plural/test/support/walktest"
)

// within is the variable by which this test's own program is `plural undo --yes COMMIT`.
const within = "UNDO_TEST_COMMIT"

func TestMain(m *testing.M) {
	if commit := os.Getenv(within); commit != "" {
		if err := run(context.Background(), ".", os.Stderr, "--yes", commit); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func run(ctx context.Context, dir string, told interface{ Write([]byte) (int, error) }, args ...string) error {
	f := &cmdutil.Factory{
		IO: &ui.Streams{In: strings.NewReader(""), Out: told, ErrOut: told}, Now: time.Now, Getenv: os.Getenv, Globals: cmdutil.Globals{Dir: dir},
	}
	cmd := undo.NewCmdUndo(f)
	cmd.Flags().BoolVar(&f.Yes, "yes", false, "")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// fleet is an installation repo with a change to undo.
type fleet struct {
	t      *testing.T
	dir    string
	change string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+who+"_NAME", "ada")
		t.Setenv("GIT_"+who+"_EMAIL", "ada@example.com")
	}
	f.git("init", "-q", "-b", "main")
	f.write("plural.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Workspace\nmetadata: {name: demo}\nspec: {}\n")
	f.commit("Begin")
	for i := range 20 {
		name := fmt.Sprintf("c%02d", i)
		f.write("clusters/"+name+".yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: "+name+"}\nspec: {}\n")
	}
	f.change = f.commit("Add clusters")
	return f
}

func (f *fleet) git(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "git", args...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	name = filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) commit(subject string) string {
	f.t.Helper()
	f.git("add", "-A")
	f.git("commit", "-q", "-m", subject)
	return f.git("rev-parse", "HEAD")
}

func TestARunThatIsKilledLeavesARepoThatTheNextOneFinishes(t *testing.T) {
	f := newFleet(t)
	before, after := f.git("rev-parse", "HEAD^{tree}"), f.git("rev-parse", "HEAD~1^{tree}")
	for round := range 12 {
		f.git("reset", "-q", "--hard", f.change)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Dir, cmd.Env = f.dir, append(os.Environ(), within+"="+f.change)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(time.Duration(10+round*4)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // killed, or done
		timer.Stop()
		f.git("fsck", "--strict")
		if tree := f.git("rev-parse", "HEAD^{tree}"); tree != before && tree != after {
			t.Fatalf("round %d: the branch is at neither state", round)
		}
		var told bytes.Buffer
		if err := run(t.Context(), f.dir, &told, "--yes", f.change); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, told.String())
		}
		if tree := f.git("rev-parse", "HEAD^{tree}"); tree != after || f.git("status", "--porcelain") != "" {
			t.Fatalf("round %d: it is not undone: %s\n%s", round, f.git("status", "--short"), told.String())
		}
	}
}

func TestAnInterruptBeforeTheCommitChangesNothing(t *testing.T) {
	f := newFleet(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, f.dir, &bytes.Buffer{}, "--yes"); err == nil {
		t.Error("it went on")
	}
	if f.git("rev-parse", "HEAD") != f.change || f.git("status", "--porcelain") != "" {
		t.Error(f.git("status"))
	}
}

func TestWhatWasWithdrawnDoesNotComeBackByAYes(t *testing.T) {
	const (
		user    = "apiVersion: plural.sh/v1alpha1\nkind: User\nmetadata: {name: ada}\nspec: {tokens: [%s]}\n"
		token   = "{name: laptop, hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"}"
		cluster = "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: c00}\nspec: {%s}\n"
		keys    = "agent: {auth: \"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}"
	)
	for name, tt := range map[string]struct{ file, with, without, says string }{
		"a token":  {"access/ada.yaml", fmt.Sprintf(user, token), fmt.Sprintf(user, ""), "who can open or do what: access/ada.yaml"},
		"an agent": {"clusters/c00.yaml", fmt.Sprintf(cluster, keys), fmt.Sprintf(cluster, ""), "agents, or tokens to join: c00"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			f.write(tt.file, tt.with)
			f.commit("Let in")
			f.write(tt.file, tt.without)
			out := f.commit("Put out")
			var told bytes.Buffer
			if err := run(t.Context(), f.dir, &told, "--yes"); err == nil || !strings.Contains(told.String(), tt.says) {
				t.Errorf("%v\n%s", err, told.String())
			}
			if f.git("rev-parse", "HEAD") != out || f.git("status", "--porcelain") != "" {
				t.Fatal("something was changed")
			}
			told.Reset()
			if err := run(t.Context(), f.dir, &told, "--dry-run"); err != nil || !strings.Contains(told.String(), "\n"+ui.ToConfirm+out[:7]+"\n") ||
				!strings.Contains(told.String(), tt.says) {
				t.Errorf("%v\n%s", err, told.String())
			}
			if err := run(t.Context(), f.dir, &told, "--yes", "--confirm", out[:7]); err != nil {
				t.Errorf("%v\n%s", err, told.String())
			}
			if got, err := os.ReadFile(filepath.Join(f.dir, tt.file)); err != nil || string(got) != tt.with {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestWhatOthersWroteCannotSteerTheTerminalThatAsks(t *testing.T) {
	f := newFleet(t)
	f.write("apps/web/a.yaml", "a: 1\n# \x1b[2J\x1b[1;1H\u202eall is well\r\n")
	f.commit("Change \x1b[2Jweb")
	var told bytes.Buffer
	if err := run(t.Context(), f.dir, &told, "HEAD", "--no-push"); err == nil {
		t.Error("nobody was asked")
	}
	if strings.ContainsAny(told.String(), "\x1b\u202e") || !strings.Contains(told.String(), `-# \x1b[2J\x1b[1;1H\u202eall is well`) {
		t.Errorf("%q", told.String())
	}
}

func TestToUndoWhatCannotBeReadBringsNoAgentsBack(t *testing.T) {
	f := newFleet(t)
	f.write("clusters/c00.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: c00}\n"+
		"spec: {agent: {auth: \"ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"}}\n")
	f.commit("Let an agent in")
	f.write("clusters/c01.yaml", "apiVersion: plural.sh/v1alpha1\nkind: Cluster\nmetadata: {name: c01}\nspec: [\n")
	f.commit("Break it")

	var told bytes.Buffer
	err := run(t.Context(), f.dir, &told, "--dry-run")

	got := told.String()
	if err != nil || strings.Contains(got, "agents") || !strings.Contains(got, "clusters/c01.yaml:4: not YAML") ||
		!strings.Contains(got, "it can be read again") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestWhatIsUndoneIsShownFirst(t *testing.T) {
	f := newFleet(t)
	var told bytes.Buffer
	if err := run(t.Context(), f.dir, &told, "--dry-run"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"Add clusters", by ada`, "changes the clusters: c00, c01, c02, c03, c04 and 15 more", "--- a/clusters/c00.yaml"} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("no %q in:\n%s", want, told.String())
		}
	}
	if f.git("status", "--porcelain") != "" {
		t.Error("a dry run changed something")
	}
}

func TestACommitOfMoreFilesThanAreComparedIsLeftToGit(t *testing.T) {
	f := newFleet(t)
	blob := walktest.Feed(t, f.dir, "", "hash-object", "-w", "--stdin")
	folder := func(each string) string {
		var lines strings.Builder
		for i := range 400 {
			fmt.Fprintf(&lines, "%s\t%03d\n", each, i)
		}
		return walktest.Feed(t, f.dir, lines.String(), "mktree")
	}
	large := folder("040000 tree " + folder("100644 blob "+blob))
	root := walktest.Feed(t, f.dir, f.git("ls-tree", "HEAD")+"\n040000 tree "+large+"\tservices\n", "mktree")
	id := walktest.Feed(t, f.dir, "", "commit-tree", root, "-p", f.change, "-m", "Large")
	f.git("update-ref", "refs/heads/main", id)
	for _, args := range [][]string{{"--yes"}, {"--yes", id}} {
		err := run(t.Context(), f.dir, &bytes.Buffer{}, args...)
		var told *ui.Err
		if !errors.As(err, &told) || told.Doc != ui.DocUndo || !strings.HasPrefix(told.Fix, "git revert COMMIT, or ") ||
			!strings.Contains(told.Cause, "more than 100000 files") {
			t.Errorf("%v: %+v", args, err)
		}
	}
}
