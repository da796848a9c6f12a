package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func opened(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := Open(dir)
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// facts is all that a journal says.
type facts struct {
	Runs     []string
	Finished map[string]map[string]json.RawMessage
}

func tell(j *Journal) facts {
	f := facts{Runs: j.Runs(), Finished: map[string]map[string]json.RawMessage{}}
	for _, run := range f.Runs {
		f.Finished[run] = j.Finished(run)
	}
	return f
}

func TestWhatBeganAndEndedIsThereAfterAnotherStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "journal")
	j := opened(t, dir)
	must(t, j.Begin("r1", "net/vpc"))
	must(t, j.Begin("r1", "db/chart"))
	must(t, j.End("r1", "net/vpc", json.RawMessage(`{"state":"sealed"}`)))
	must(t, j.Begin("r2", "net/vpc"))
	must(t, j.End("r2", "net/vpc", nil))
	must(t, j.Begin("r2", "net/vpc")) // once more
	want := facts{
		Runs:     []string{"r1", "r2"},
		Finished: map[string]map[string]json.RawMessage{"r1": {"net/vpc": json.RawMessage(`{"state":"sealed"}`)}, "r2": {}},
	}
	if diff := cmp.Diff(want, tell(j)); diff != "" {
		t.Error(diff)
	}
	must(t, j.Close())
	must(t, j.Close())
	j = opened(t, dir)
	if diff := cmp.Diff(want, tell(j)); diff != "" {
		t.Error(diff)
	}
	must(t, j.Clear("r1"))
	must(t, j.Clear("nobody's"))
	must(t, j.Begin("r2", "db/chart"))
	must(t, j.Close())
	want = facts{
		Runs: []string{"r2"}, Finished: map[string]map[string]json.RawMessage{"r2": {}},
	}
	if diff := cmp.Diff(want, tell(opened(t, dir))); diff != "" {
		t.Error(diff)
	}
}

func TestOneProcessHasTheJournalAtATime(t *testing.T) {
	dir := t.TempDir()
	j := opened(t, dir)
	var busy *BusyError
	if _, err := Open(dir); !errors.As(err, &busy) {
		t.Errorf("the second got %v", err)
	}
	must(t, j.Clear("x"))
	must(t, j.Close())
	opened(t, dir)
}

func TestAJournalThatWasCutOffAnywhereSaysWhatWasWrittenWhole(t *testing.T) {
	dir := t.TempDir()
	j := opened(t, dir)
	var want []facts // by the number of whole lines
	remember := func() { want = append(want, tell(j)) }
	remember()
	for i := range 3 {
		must(t, j.Begin("run", fmt.Sprint("task ", i)))
		remember()
		must(t, j.End("run", fmt.Sprint("task ", i), json.RawMessage(`{"text":"ü"}`)))
		remember()
	}
	must(t, j.Begin("run", "task 4"))
	remember()
	must(t, j.Close())
	text, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	for cut := range len(text) + 1 {
		lines := bytes.Count(text[:cut], []byte("\n"))
		ends := [][]byte{text[:cut]}
		if cut%16 == 0 { // what some file systems leave
			ends = append(ends, append(bytes.Clone(text[:cut]), make([]byte, 100)...))
		}
		for _, torn := range ends {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, fileName), torn, 0o600))
			j := opened(t, dir)
			if diff := cmp.Diff(want[lines], tell(j)); diff != "" {
				t.Fatalf("cut at %d: %s", cut, diff)
			}
			must(t, j.Begin("next", "task"))
			must(t, j.Close())
			j = opened(t, dir)
			if runs := j.Runs(); runs[len(runs)-1] != "next" {
				t.Fatalf("cut at %d: what came after is lost: %v", cut, runs)
			}
			must(t, j.Close())
		}
	}
}

func TestAJournalThatSomethingElseWroteIntoIsNotGuessedAt(t *testing.T) {
	good := `{"at":"2026-01-02T03:04:05Z","run":"r","task":"t","event":"begin"}` + "\n"
	for name, tc := range map[string]struct {
		text string
		line int
	}{
		"no JSON":       {good + "hello\n" + good, 2},
		"no entry":      {"{}\n" + good, 1},
		"unknown field": {strings.Replace(good, "run", "rum", 1) + good, 1},
		"two entries":   {strings.TrimSpace(good) + good + good, 1},
		"unknown event": {good + strings.Replace(good, "begin", "began", 1) + good, 2},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), []byte(tc.text), 0o600))
		_, err := Open(dir)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || corrupt.Line != tc.line || !strings.Contains(err.Error(), fileName) || corrupt.Fix() == "" {
			t.Errorf("%s: %v", name, err)
		}
		left, err := os.ReadFile(filepath.Join(dir, fileName))
		if err != nil || string(left) != tc.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestWhatCannotBeReadAgainIsNotWritten(t *testing.T) {
	j := opened(t, t.TempDir())
	for name, err := range map[string]error{
		"no run":  j.Begin("", "t"),
		"no task": j.Begin("r", ""),
		"no JSON": j.End("r", "t", json.RawMessage(`{`)),
		"long":    j.End("r", "t", json.RawMessage(`"`+strings.Repeat("x", maxLine)+`"`)),
	} {
		if err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if runs := j.Runs(); runs != nil {
		t.Errorf("it knows %v", runs)
	}
	must(t, j.Close())
	if err := j.Begin("r", "t"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func FuzzWhatIsReadIsReadAgain(f *testing.F) {
	good := `{"at":"2026-01-02T03:04:05Z","run":"r","task":"t","event":"begin"}` + "\n"
	f.Add([]byte(good + `{"at":"2026-01-02T03:04:05Z","run":"r","task":"t","event":"end","outcome":{"a":1}}` + "\n"))
	f.Add([]byte(good + good[:20]))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, whole, err := read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if whole > int64(len(text)) {
			t.Fatalf("%d of %d bytes count", whole, len(text))
		}
		again, end, err := read(bytes.NewReader(text[:whole]))
		if err != nil || end != whole {
			t.Fatalf("%d then %d, %v", whole, end, err)
		}
		if diff := cmp.Diff(lines, again); diff != "" {
			t.Error(diff)
		}
	})
}
