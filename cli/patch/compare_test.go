package patch

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/workspace/snapshot"
)

// worktree is a snapshot of files: path to content, where a leading "*" makes the file executable.
func worktree(t *testing.T, files map[string]string) *snapshot.Snapshot {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		mode := os.FileMode(0o644)
		if content != "" && content[0] == '*' {
			mode = 0o755
		}
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	snap, err := snapshot.Worktree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestEveryDifferenceBetweenTwoTreesIsFound(t *testing.T) {
	tests := map[string]struct {
		before, after map[string]string
		want          map[string]string
	}{
		"nothing":                {map[string]string{"a": "1", "b/c": "2"}, map[string]string{"a": "1", "b/c": "2"}, map[string]string{}},
		"changed, added, gone":   {map[string]string{"a": "1", "b/c": "2", "d": "3"}, map[string]string{"a": "0", "b/c": "2", "b/e": "4"}, map[string]string{"a": "changed", "b/e": "added", "d": "deleted"}},
		"a file becomes folders": {map[string]string{"a": "1"}, map[string]string{"a/b/c": "1"}, map[string]string{"a": "deleted", "a/b/c": "added"}},
		"folders become a file":  {map[string]string{"a/b/c": "1", "a/d": "2"}, map[string]string{"a": ""}, map[string]string{"a": "added", "a/b/c": "deleted", "a/d": "deleted"}},
		"a mode":                 {map[string]string{"a": "*"}, map[string]string{"a": "+"}, map[string]string{"a": "changed"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := worktree(t, tt.before), worktree(t, tt.after)
			pairs, err := differing(t.Context(), before, after)
			if err != nil {
				t.Fatal(err)
			}
			d := describer{before: before.FS(), after: after.FS()}
			got := map[string]string{}
			for _, p := range pairs {
				c, differs, err := d.describe(p)
				if err != nil || !differs {
					t.Fatal(p, differs, err)
				}
				got[c.File] = c.Action
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFilesAreNoLongerReadWhenNobodyWaitsForThem(t *testing.T) {
	snap := worktree(t, map[string]string{"a": "1\n"})
	pairs, err := differing(t.Context(), nil, snap)
	if err != nil || len(pairs) != 1 {
		t.Fatalf("%v, %v", pairs, err)
	}
	late := errors.New("the answer is no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	if list, err := (describer{after: snap.FS()}).describeAll(ctx, pairs); !errors.Is(err, late) || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

func TestTextIsShownAsAUnifiedDiff(t *testing.T) {
	before, after := worktree(t, map[string]string{"a": "one\ntwo\n"}), worktree(t, map[string]string{"a": "one\n2\n", "b": "new"})
	pairs, err := differing(t.Context(), before, after)
	if err != nil {
		t.Fatal(err)
	}
	d := describer{before: before.FS(), after: after.FS()}
	got := map[string]string{}
	for _, p := range pairs {
		c, _, err := d.describe(p)
		if err != nil {
			t.Fatal(err)
		}
		got[c.File] = c.Diff
	}
	want := map[string]string{
		"a": "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
		"b": "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+new\n\\ No newline at end of file\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files %v (-want +got):\n%s", slices.Sorted(maps.Keys(got)), diff)
	}
}
