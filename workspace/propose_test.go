package workspace

import (
	"errors"
	"strings"
	"testing"
)

func named(commit string) string { return "plural/change-" + commit[:7] }

func TestAProposedChangeIsABranchOfItsOwn(t *testing.T) {
	here, there := clones(t)
	commit(t, here, map[string]string{"a": "1\n"})
	push(t, here)
	write(t, here.Root(), "untracked", "mine")
	head, err := here.Head()
	if err != nil {
		t.Fatal(err)
	}
	p, err := here.Propose(t.Context(), head, "A change\n\nWith reasons.", map[string][]byte{"a": []byte("2\n"), "b/c": []byte("1\n")}, named)
	if err != nil {
		t.Fatal(err)
	}
	if now, _ := here.Head(); now != head || read(t, here.Root(), "a") != "1\n" {
		t.Error("the branch or the work tree moved")
	}
	if got := gitIn(t, here.Root(), "status", "--porcelain"); strings.TrimSpace(got) != "?? untracked" {
		t.Errorf("status: %s", got)
	}
	gitIn(t, there.Root(), "fetch", "-q", "origin", p.Branch)
	if got := gitIn(t, there.Root(), "show", "--format=%H %P%n%B", "--name-status", "FETCH_HEAD"); !strings.HasPrefix(got, p.Commit+" "+head) ||
		!strings.Contains(got, "A change\n\nWith reasons.") || !strings.Contains(got, "M\ta\nA\tb/c") {
		t.Errorf("%s", got)
	}
	if p.Base != "main" || p.Branch != named(p.Commit) || p.Remote == "" {
		t.Errorf("%+v", p)
	}
	if again, err := here.Propose(t.Context(), "", "Nothing", map[string][]byte{"a": []byte("1\n")}, named); again != nil || err != nil {
		t.Errorf("what is there already: %+v, %v", again, err)
	}
}

func TestAChangeIsNotProposedWithWhatElseIsThere(t *testing.T) {
	here, _ := clones(t)
	commit(t, here, map[string]string{"a": "1\n"})
	push(t, here)
	change := map[string][]byte{"a": []byte("2\n")}
	head, err := here.Head()
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what, parent, says string) {
		t.Helper()
		_, err := here.Propose(t.Context(), parent, "A change", change, named)
		if told := new(Error); !errors.As(err, &told) || !strings.Contains(told.Message, says) || told.Fix == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := here.Proposable(); err != nil {
		t.Errorf("a clone whose commits are pushed: %v", err)
	}
	write(t, here.Root(), "a", "mine\n")
	refused("a change that is not committed", "", "not committed")
	write(t, here.Root(), "a", "1\n")
	commit(t, here, map[string]string{"b": "1\n"})
	refused("a commit that is not pushed", "", "would be proposed too")
	if err := here.Proposable(); err == nil || !strings.Contains(err.Error(), "would be proposed too") {
		t.Errorf("a commit that is not pushed: %v", err)
	}
	refused("a branch that moved", head, "has moved")
	gitIn(t, here.Root(), "remote", "remove", "origin")
	refused("no remote", "", "no remote")
}

func TestACommitIsFoundByWhatAPersonCallsIt(t *testing.T) {
	here, _ := clones(t)
	commit(t, here, map[string]string{"a": "1\n"})
	first, err := here.Head()
	if err != nil {
		t.Fatal(err)
	}
	commit(t, here, map[string]string{"a": "2\n"})
	for _, name := range []string{first, first[:8], "HEAD~1", "main~1"} {
		if got, err := here.Resolve(name); err != nil || got != first {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := here.Resolve("nothing"); err == nil {
		t.Error("nothing is a commit")
	}
}
