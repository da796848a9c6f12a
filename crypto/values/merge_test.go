package values

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
)

// eachStory runs a test for each archive in a folder of testdata, whose files it gives by their first element; file is
// the rest of the name.
func eachStory(t *testing.T, folder string, test func(t *testing.T, file string, parts map[string][]byte)) {
	t.Helper()
	archives, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(archives) == 0 {
		t.Fatalf("no stories in %s: %v", folder, err)
	}
	for _, archive := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(archive), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			file, parts := "", map[string][]byte{}
			for _, f := range a.Files {
				first, rest, ok := strings.Cut(f.Name, "/")
				if ok {
					file = rest
				}
				parts[first] = f.Data
			}
			test(t, file, parts)
		})
	}
}

func TestMergeStories(t *testing.T) {
	eachStory(t, "merge", func(t *testing.T, file string, p map[string][]byte) {
		merged, conflicts, err := Merge(file, p["base"], p["ours"], p["theirs"])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(p["want"]), string(merged)); diff != "" {
			t.Errorf("merged (-want +got):\n%s", diff)
		}
		if want := bytes.Count(p["want"], []byte("<<<<<<< ours\n")); conflicts != want {
			t.Errorf("got %d conflicts, want %d", conflicts, want)
		}
	})
}

func TestMergeKeepsTheEndsOfLines(t *testing.T) {
	crlf := func(s string) []byte { return []byte(strings.ReplaceAll(s, "\n", "\r\n")) }
	tests := map[string]struct{ base, ours, theirs, want []byte }{
		"all with carriage returns": {crlf("a: 1\nb: 2\n"), crlf("a: 2\nb: 2\n"), crlf("a: 1\nb: 3\n"), crlf("a: 2\nb: 3\n")},
		"one side turns them":       {[]byte("a: 1\nb: 2\n"), crlf("a: 1\nb: 2\n"), []byte("a: 1\nb: 3\n"), crlf("a: 1\nb: 3\n")},
		"no last line end":          {[]byte("a: 1\nb: 2"), []byte("a: 2\nb: 2"), []byte("a: 1\nb: 3"), []byte("a: 2\nb: 3")},
		"one side adds the last":    {[]byte("a: 1\nb: 2"), []byte("a: 1\nb: 2\n"), []byte("a: 1\nb: 3"), []byte("a: 1\nb: 3\n")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, conflicts, err := Merge("x.yaml", tt.base, tt.ours, tt.theirs)
			if err != nil || conflicts != 0 || !bytes.Equal(got, tt.want) {
				t.Errorf("got %q, %d conflicts, %v; want %q", got, conflicts, err, tt.want)
			}
		})
	}
}

func TestMergeOfBytesKeepsOurs(t *testing.T) {
	got, conflicts, err := Merge("x.bin", []byte("\x00a"), []byte("\x00b"), []byte("\x00c"))
	if string(got) != "\x00b" || conflicts != 1 || err == nil {
		t.Errorf("got %q, %d conflicts, %v", got, conflicts, err)
	}
}

func TestMergeOfDeepNestingEnds(t *testing.T) {
	var b strings.Builder
	for i := range 400 {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	indent := strings.Repeat(" ", 400)
	base := b.String() + indent + "b: 1\n"
	got, conflicts, err := Merge("x.yaml", []byte(base), []byte(b.String()+indent+"b: 2\n"), []byte(base+indent+"c: 3\n"))
	if want := b.String() + indent + "b: 2\n" + indent + "c: 3\n"; err != nil || conflicts != 0 || string(got) != want {
		t.Errorf("%d conflicts, %v", conflicts, err)
	}
}

// layout is how a generated file is written.
type layout struct {
	name string
	// nest is how many keys stand below each first one; 0 for a flat file.
	nest int
}

// write writes values under their keys, "a" or "a.b", each with a comment where the format has comments.
func (l layout) write(order []string, values map[string]string) string {
	var b strings.Builder
	last := ""
	for _, key := range order {
		value, ok := values[key]
		if !ok {
			continue
		}
		top, below, nested := strings.Cut(key, ".")
		switch {
		case path.Ext(l.name) == ".env":
			fmt.Fprintf(&b, "# about %s\n%s=%s\n", key, key, value)
			continue
		case !nested:
			fmt.Fprintf(&b, "# about %s\n%s: %s\n", key, key, value)
			continue
		case top != last:
			fmt.Fprintf(&b, "%s:\n", top)
		}
		last = top
		fmt.Fprintf(&b, "  # about %s\n  %s: %s\n", key, below, value)
	}
	return b.String()
}

func (l layout) keys() []string {
	var keys []string
	for i := range 6 {
		top := string(rune('a' + i))
		if l.nest == 0 {
			keys = append(keys, top)
		}
		for j := range l.nest {
			keys = append(keys, fmt.Sprintf("%s.k%d", top, j))
		}
	}
	return keys
}

func TestChangesToDifferentKeysNeverConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom([]layout{{"x.yaml", 0}, {"x.yaml", 3}, {"x.env", 0}, {"unnamed", 0}}).Draw(t, "layout")
		keys := l.keys()
		base, ours, theirs, want := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
		for i, key := range keys {
			// The first keys are always there: a mapping that one side empties is another story.
			there := i%max(l.nest, 1) == 0 || rapid.Bool().Draw(t, key+" is in base")
			change := rapid.SampledFrom([]string{"none", "ours", "theirs"}).Draw(t, key+" is changed by")
			gone := there && i%max(l.nest, 1) != 0 && rapid.Bool().Draw(t, key+" is deleted")
			for side, values := range map[string]map[string]string{"base": base, "ours": ours, "theirs": theirs, "want": want} {
				mine := side == change || side == "want" && change != "none"
				if there && !(mine && gone) {
					values[key] = "v0"
				}
				if mine && !gone {
					values[key] = "by-" + change
				}
			}
		}
		merged, conflicts, err := Merge(l.name, []byte(l.write(keys, base)), []byte(l.write(keys, ours)), []byte(l.write(keys, theirs)))
		if err != nil || conflicts != 0 {
			t.Fatalf("%d conflicts, %v in:\n%s", conflicts, err, merged)
		}
		for _, key := range keys {
			got, err := Get(l.name, merged, key)
			if value, ok := want[key]; ok != (err == nil) || string(got) != value {
				t.Fatalf("%s: got %q, %v; want %q, %v in:\n%s", key, got, err, value, ok, merged)
			}
			if comments := strings.Count(string(merged), "# about "+key+"\n"); comments > 1 || comments == 0 && want[key] != "" {
				t.Fatalf("%d comments about %s in:\n%s", comments, key, merged)
			}
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add("x.yaml", []byte("a: 1\nb: 2\n"), []byte("a: 2\nb: 2\n"), []byte("a: 1\nb: 3\n"))
	f.Add("x.json", []byte(`{"a": 1}`), []byte(`{"a": 2}`), []byte(`{"a": 1, "b": {}}`))
	f.Add("x.env", []byte("A=1\n"), []byte("A=2\r\n"), []byte("A=1\nB='\n'"))
	f.Add("x", []byte("one\ntwo\n"), []byte("one\n2\n"), []byte("1\ntwo"))
	f.Add("x.yaml", []byte("a: &x [1]\n---\nb: |\n  x\n"), []byte("a: *x\n"), []byte("? {a: 1}\n: b\n"))
	f.Fuzz(func(t *testing.T, name string, base, ours, theirs []byte) {
		merged, conflicts, err := Merge(name, base, ours, theirs)
		if err != nil {
			if conflicts != 1 || !bytes.Equal(merged, ours) {
				t.Errorf("an error without ours: %q, %d", merged, conflicts)
			}
			return
		}
		for side, unchanged := range map[string]bool{string(ours): bytes.Equal(base, theirs), string(theirs): bytes.Equal(base, ours)} {
			if unchanged && string(merged) != side {
				t.Errorf("one side changed nothing, and the other's %q became %q", side, merged)
			}
		}
		marks := slices.Max([]int{bytes.Count(base, []byte("<<<<<<<")), bytes.Count(ours, []byte("<<<<<<<")), bytes.Count(theirs, []byte("<<<<<<<"))})
		if got := bytes.Count(merged, []byte("<<<<<<< ours")); marks == 0 && got != conflicts {
			t.Errorf("%d conflicts and %d marks in %q", conflicts, got, merged)
		}
		if conflicts == 0 && readable(name, base) && readable(name, ours) && readable(name, theirs) && !readable(name, merged) {
			t.Errorf("three files that can be read became %q", merged)
		}
	})
}

func readable(name string, text []byte) bool {
	f, err := parse(name, text)
	return err == nil && f.flaw == nil && f.hasKeys()
}
