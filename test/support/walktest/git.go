package walktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pluralsh/plural/internal/gitexec"
)

// Feed is git in a folder, with something to read. It gives what git says, without the line's end.
func Feed(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	out, err := gitexec.Call{
		Dir: dir, Args: append([]string{"-c", "user.name=a", "-c", "user.email=a@b.c"}, args...), Input: strings.NewReader(stdin),
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Tree is a Bomb among the objects of the repository in a folder: a kilobyte of them is an empty file under 10^12 paths. It
// gives the id of the topmost tree.
func Tree(t testing.TB, dir, file string) string {
	t.Helper()
	tree := Feed(t, dir, "100644 blob "+Feed(t, dir, "", "hash-object", "-w", "--stdin")+"\t"+file+"\n", "mktree")
	for range levels {
		var lines strings.Builder
		for i := range wide {
			fmt.Fprintf(&lines, "040000 tree %s\t%d\n", tree, i)
		}
		tree = Feed(t, dir, lines.String(), "mktree")
	}
	return tree
}
