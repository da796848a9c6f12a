package act_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/tui/act"
)

func newRunner(t *testing.T, env ...string) act.Runner {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return act.Runner{Program: self, Globals: []string{"-C", "/fleet"}, Env: append(os.Environ(), append(env, asProgram+"=1")...)}
}

func TestACommandIsRunWhereNobodyCanBeAsked(t *testing.T) {
	runner := newRunner(t, "ACT_TEST_WORD=here")
	result := runner.Run(t.Context(), []string{"observe", "a b"})
	var got seen
	if err := json.Unmarshal([]byte(result.Out), &got); err != nil {
		t.Fatalf("%v: %+v", err, result)
	}
	want := seen{Args: []string{"-C", "/fleet", "--no-input", "--yes", "--color=never", "observe", "a b"}, Leads: true, Env: "here"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestACommandThatIsStoppedIsAskedToEnd(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	runner := newRunner(t, "ACT_TEST_READY="+ready)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan act.Result)
	go func() { ended <- runner.Run(ctx, []string{"slow"}) }()
	waitFor(t.Context(), t, ready)
	cancel()
	if got := <-ended; got.Code != 130 || !strings.Contains(got.Err, "interrupted") {
		t.Errorf("got %+v", got)
	}
}

func TestACommandThatWillNotEndIsKilled(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	runner := newRunner(t, "ACT_TEST_READY="+ready)
	runner.Grace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan act.Result)
	go func() { ended <- runner.Run(ctx, []string{"stubborn"}) }()
	waitFor(t.Context(), t, ready)
	cancel()
	if got := <-ended; got.Code != -1 || !strings.Contains(got.Err, "error: ") {
		t.Errorf("got %+v", got)
	}
}

func TestOfWhatIsSaidTheEndIsKept(t *testing.T) {
	runner := newRunner(t)
	got := runner.Run(t.Context(), []string{"noisy"}).Out
	const begin, end = "(what came before is not kept)\nline ", "\nline 99999\n"
	if !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) || len(got) > 300<<10 {
		t.Errorf("%d bytes, from %.60q", len(got), got)
	}
}

func TestAProgramThatIsNotThereIsAnError(t *testing.T) {
	runner := act.Runner{Program: filepath.Join(t.TempDir(), "plural")}
	if got := runner.Run(t.Context(), []string{"status"}); got.Code != -1 || !strings.Contains(got.Err, "error: ") {
		t.Errorf("got %+v", got)
	}
}

func TestALineIsWhatAShellTakes(t *testing.T) {
	runner := act.Runner{Globals: []string{"-C", "my fleet"}}
	got := runner.Line([]string{"service", "suspend", "web", "-m", "it's off; $HOME", ""})
	if want := `plural -C 'my fleet' service suspend web -m 'it'\''s off; $HOME' ''`; got != want {
		t.Errorf("got %s", got)
	}
}
