package patch

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pluralsh/plural/workspace/snapshot"
)

func TestComparisonOfMoreFilesThanAnybodyCanReadEnds(t *testing.T) {
	empty, err := snapshot.Worktree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var g snapshot.Graft
	for range 12 {
		var ten []snapshot.Entry
		for i := range 10 {
			ten = append(ten, snapshot.Entry{Name: fmt.Sprint(i), Mode: fs.ModeDir | 0o755, Hash: g.Root})
		}
		if g.Root == "" {
			ten = nil
		}
		if g.Root, err = g.Add(ten); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := differing(empty, empty.Grafted(&g)); err == nil || !strings.Contains(err.Error(), "more than 100000 files and folders") {
		t.Errorf("error is %v", err)
	}
}
