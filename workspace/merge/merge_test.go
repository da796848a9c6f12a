package merge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pluralsh/plural/test/support/needs"
)

var labels = Labels{Base: "1.0.0", Ours: "yours", Theirs: "2.0.0"}

func TestThreeMerges(t *testing.T) {
	for name, test := range map[string]struct {
		base, ours, theirs, want string
		conflicts                int
	}{
		"nothing changed":          {"a\nb\n", "a\nb\n", "a\nb\n", "a\nb\n", 0},
		"one side changed":         {"a\nb\nc\n", "a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", 0},
		"both sides the same":      {"a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n", "a\nB\nc\n", 0},
		"far apart":                {"a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n", 0},
		"same change among others": {"a\nb\nc\nd\ne\n", "A\nb\nX\nd\ne\n", "a\nb\nX\nd\nE\n", "A\nb\nX\nd\nE\n", 0},
		"one line":                 {"a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n", "a\n<<<<<<< yours\nours\n||||||| 1.0.0\nb\n=======\ntheirs\n>>>>>>> 2.0.0\nc\n", 1},
		"lines that touch":         {"a\nb\n", "A\nb\n", "a\nB\n", "<<<<<<< yours\nA\nb\n||||||| 1.0.0\na\nb\n=======\na\nB\n>>>>>>> 2.0.0\n", 1},
		"both add":                 {"a\nz\n", "a\nx\nz\n", "a\ny\nz\n", "a\n<<<<<<< yours\nx\n||||||| 1.0.0\n=======\ny\n>>>>>>> 2.0.0\nz\n", 1},
		"changed and removed":      {"a\nb\nc\n", "a\nB\nc\n", "a\nc\n", "a\n<<<<<<< yours\nB\n||||||| 1.0.0\nb\n=======\n>>>>>>> 2.0.0\nc\n", 1},
		"line ends of Windows":     {"a\r\nb\r\n", "a\r\nx\r\n", "a\r\ny\r\n", "a\r\n<<<<<<< yours\r\nx\r\n||||||| 1.0.0\r\nb\r\n=======\r\ny\r\n>>>>>>> 2.0.0\r\n", 1},
		"no end of the last line":  {"a\nb", "a\nx", "a\ny", "a\n<<<<<<< yours\nx\n||||||| 1.0.0\nb\n=======\ny\n>>>>>>> 2.0.0\n", 1},
		"end of the last line":     {"a\nb", "a\nb\n", "a\nb", "a\nb\n", 0},
		"from nothing":             {"", "x\n", "y\n", "<<<<<<< yours\nx\n||||||| 1.0.0\n=======\ny\n>>>>>>> 2.0.0\n", 1},
		"to nothing":               {"a\n", "", "a\n", "", 0},
		"binary":                   {"a\x00", "b\x00", "c\x00", "b\x00", 1},
		"binary on one side":       {"a\x00", "a\x00", "c\x00", "c\x00", 0},
	} {
		t.Run(name, func(t *testing.T) {
			merged, conflicts := Three([]byte(test.base), []byte(test.ours), []byte(test.theirs), labels)
			if diff := cmp.Diff(test.want, string(merged)); diff != "" || conflicts != test.conflicts {
				t.Errorf("%d conflicts, want %d:\n%s", conflicts, test.conflicts, diff)
			}
		})
	}
}

// edits draws a text and two changes of it, in which every line is its own: how lines match is never in doubt.
func edits(t *rapid.T) (base, ours, theirs string) {
	next := 0
	fresh := func() string {
		next++
		return fmt.Sprintf("line %d", next)
	}
	var lines []string
	for range rapid.IntRange(0, 30).Draw(t, "lines") {
		lines = append(lines, fresh())
	}
	changed := func(label string) []string {
		out := slices.Clone(lines)
		for range rapid.IntRange(0, 4).Draw(t, label) {
			at := rapid.IntRange(0, len(out)).Draw(t, "at")
			switch what := rapid.SampledFrom([]string{"add", "remove", "change"}).Draw(t, "what"); {
			case what == "add" || at == len(out):
				out = slices.Insert(out, at, fresh())
			case what == "remove":
				out = slices.Delete(out, at, at+1)
			default:
				out[at] = fresh()
			}
		}
		return out
	}
	end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
	text := func(list []string) string {
		if len(list) == 0 {
			return ""
		}
		return strings.Join(list, end) + rapid.SampledFrom([]string{end, end, end, ""}).Draw(t, "last")
	}
	// Some of what one side did, the other did too.
	left := changed("ours")
	if rapid.IntRange(0, 3).Draw(t, "common") == 0 {
		common := lines
		lines = left
		right := changed("theirs")
		return text(common), text(left), text(right)
	}
	return text(lines), text(left), text(changed("theirs"))
}

func TestThreeMergesAsGitDoes(t *testing.T) {
	git := needs.Program(t, "git", "git")
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		base, ours, theirs := edits(rt)
		want, conflicts := mergeFile(rt, git, dir, base, ours, theirs)
		got, n := Three([]byte(base), []byte(ours), []byte(theirs), labels)
		if diff := cmp.Diff(plainEnds(want), plainEnds(string(got))); diff != "" || n != conflicts {
			rt.Errorf("%d conflicts, git has %d (-git +ours):\n%s\nbase %q\nours %q\ntheirs %q", n, conflicts, diff, base, ours, theirs)
		}
	})
}

// plainEnds ends all lines alike. In a text with the line ends of Windows, git ends markers and unfinished lines as on Unix when
// another version is empty.
func plainEnds(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

type fataler interface{ Fatalf(string, ...any) }

// mergeFile asks git.
func mergeFile(t fataler, git, dir, base, ours, theirs string) (string, int) {
	for name, text := range map[string]string{"base": base, "ours": ours, "theirs": theirs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
	}
	cmd := exec.Command(git, "merge-file", "-p", "--diff3", "-L", labels.Ours, "-L", labels.Base, "-L", labels.Theirs, "ours", "base", "theirs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() < 0 || exit.ExitCode() > 127) {
		t.Fatalf("git merge-file: %v", err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// repeated draws texts of few different lines, where lines match in many ways.
func repeated(t *rapid.T, label string) []byte {
	lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "}"}), 0, 20).Draw(t, label)
	return []byte(strings.Join(lines, "\n"))
}

func TestAnythingMergesWithoutLoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base, ours, theirs := repeated(rt, "base"), repeated(rt, "ours"), repeated(rt, "theirs")
		there, n := Three(base, ours, theirs, labels)
		back, m := Three(base, theirs, ours, labels)
		if n != m || n == 0 && !bytes.Equal(there, back) {
			rt.Errorf("the sides are not alike: %d %q, %d %q", n, there, m, back)
		}
		if n == 0 {
			checkClean(rt, base, ours, theirs, there)
		}
	})
}

// checkClean wants every line of the result to come from a side, and what neither side has to be gone.
func checkClean(t *rapid.T, base, ours, theirs, merged []byte) {
	count := func(text []byte) map[string]int {
		lines := map[string]int{}
		for line := range bytes.Lines(text) {
			lines[string(line)]++
		}
		return lines
	}
	b, o, th, got := count(base), count(ours), count(theirs), count(merged)
	for line, n := range got {
		if most := o[line] + th[line]; n > most {
			t.Errorf("%q is there %d times, and %d in both sides together", line, n, most)
		}
		if b[line] > 0 && o[line] == 0 && th[line] == 0 {
			t.Errorf("%q came back", line)
		}
	}
}

func TestADifferenceLeadsFromOneTextToTheOther(t *testing.T) {
	numbers := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 40)
	rapid.Check(t, func(rt *rapid.T) {
		from, to := numbers.Draw(rt, "from"), numbers.Draw(rt, "to")
		var got []int
		at, cost := 0, 0
		for _, c := range difference(from, to) {
			got = append(got, from[at:c.from]...)
			if len(got) != c.newFrom {
				rt.Fatalf("change %+v after %v", c, got)
			}
			got = append(got, to[c.newFrom:c.newTo]...)
			at, cost = c.to, cost+c.to-c.from+c.newTo-c.newFrom
		}
		got = append(got, from[at:]...)
		if !slices.Equal(got, to) {
			rt.Errorf("%v, want %v", got, to)
		}
		if least := distance(from, to); cost != least {
			rt.Errorf("%d lines changed, %d would do", cost, least)
		}
	})
}

// distance is the least number of lines to add and remove, the slow way.
func distance(from, to []int) int {
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0]++
		for j := range to {
			up := row[j+1]
			if from[i] == to[j] {
				row[j+1] = diagonal
			} else {
				row[j+1] = min(row[j], up) + 1
			}
			diagonal = up
		}
	}
	return row[len(to)]
}

func TestALongTextWithNothingInCommonIsMergedInTime(t *testing.T) {
	text := func(what string) []byte {
		var b bytes.Buffer
		for i := range 60_000 {
			fmt.Fprintln(&b, what, i%7, i)
		}
		return b.Bytes()
	}
	if _, conflicts := Three(text("a"), text("b"), text("c"), labels); conflicts != 1 {
		t.Errorf("%d conflicts", conflicts)
	}
}

func TestFolderMergesFileByFile(t *testing.T) {
	folder := func(files map[string]string) fstest.MapFS {
		m := fstest.MapFS{}
		for name, text := range files {
			m[name] = &fstest.MapFile{Data: []byte(text)}
		}
		return m
	}
	base := folder(map[string]string{
		"same": "a\n", "mine": "a\n", "new": "a\n", "both": "a\nb\nc\n", "gone": "a\n", "deleted": "a\n", "kept": "a\n", "left": "a\n", "clash": "a\n", "empty": "a\n",
	})
	ours := folder(map[string]string{
		"same": "a\n", "mine": "A\n", "new": "a\n", "both": "A\nb\nc\n", "gone": "a\n", "kept": "A\n", "clash": "x\n", "extra": "x\n", "twice": "x\n", "alike": "x\n", "empty": "a\n",
	})
	theirs := folder(map[string]string{
		"same": "a\n", "mine": "a\n", "new": "B\n", "both": "a\nb\nC\n", "deleted": "a\n", "left": "B\n", "clash": "y\n", "added/deep": "y\n", "twice": "y\n", "alike": "x\n", "empty": "",
	})
	changes, conflicts, err := Folder(base, ours, theirs, labels)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, text := range changes {
		if got[name] = string(text); text == nil {
			got[name] = "(removed)"
		}
	}
	want := map[string]string{
		"new": "B\n", "both": "A\nb\nC\n", "gone": "(removed)", "left": "B\n", "added/deep": "y\n", "empty": "",
		"clash": "<<<<<<< yours\nx\n||||||| 1.0.0\na\n=======\ny\n>>>>>>> 2.0.0\n",
		"twice": "<<<<<<< yours\nx\n||||||| 1.0.0\n=======\ny\n>>>>>>> 2.0.0\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"clash", "kept", "left", "twice"}, conflicts); diff != "" {
		t.Error(diff)
	}
}

func TestFolderRefusesLinks(t *testing.T) {
	linked := fstest.MapFS{"x": {Data: []byte("/etc/passwd"), Mode: os.ModeSymlink}}
	if _, _, err := Folder(fstest.MapFS{}, fstest.MapFS{}, linked, labels); err == nil {
		t.Error("a link is merged")
	}
}

func TestAFolderThatIsNotThereIsEmpty(t *testing.T) {
	none, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	changes, _, err := Folder(os.DirFS(filepath.Join(none.Name(), "gone")), fstest.MapFS{}, fstest.MapFS{"a": {Data: []byte("x")}}, labels)
	if err != nil || len(changes) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
}

func FuzzThree(f *testing.F) {
	f.Add([]byte("a\nb\n"), []byte("a\nc\n"), []byte("a\nd\n"))
	f.Add([]byte("a\r\n\x00"), []byte(""), []byte("\n\n"))
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) {
		merged, conflicts := Three(base, ours, theirs, labels)
		if conflicts == 0 && bytes.Contains(merged, []byte("||||||| 1.0.0")) && !bytes.Contains(slices.Concat(base, ours, theirs), []byte("||||||| 1.0.0")) {
			t.Error("markers without a conflict")
		}
		if again, n := Three(base, ours, base, labels); n != 0 || !bytes.Equal(again, ours) {
			t.Error("nothing changed in theirs, and ours is lost")
		}
		if again, n := Three(base, base, theirs, labels); n != 0 || !bytes.Equal(again, theirs) {
			t.Error("nothing changed in ours, and theirs is lost")
		}
	})
}
