package tui

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	tea "charm.land/bubbletea/v2"

	v1 "github.com/pluralsh/plural/api/v1"
)

// terminal keeps what is written to it.
type terminal struct {
	mu  sync.Mutex // guards what follows
	got bytes.Buffer
}

func (w *terminal) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.Write(p)
}

func (w *terminal) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.got.String()
}

func TestPersonWhoLooksElsewhereIsCalledWhenWhatTheyDidIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := fleet()
		answers["/v1/me"] = v1.Me{Name: "ada", Operator: true}
		out := &terminal{}
		s := open(t, set{hub: newHub(t, answers), now: clock(), line: "services payments", out: out})
		const called = "\x1b]9;plural: restart the pods of payments: "
		s.press("Ry")
		if strings.Contains(out.String(), called) {
			t.Error("they are called while they look")
		}
		s.program.Send(tea.BlurMsg{})
		s.press("Ry")
		rung, _, _ := strings.Cut(strings.SplitN(out.String()+called, called, 2)[1], "\a")
		if !strings.HasSuffix(rung, "\x1b\\") || strings.ContainsAny(strings.TrimSuffix(rung, "\x1b\\"), "\x1b\n\x07") {
			t.Errorf("they are called by %q", rung)
		}
		s.program.Send(tea.FocusMsg{})
		before := strings.Count(out.String(), called)
		s.press("Ry")
		if after := strings.Count(out.String(), called); before != 1 || after != 1 {
			t.Errorf("called %d times, then %d", before, after)
		}
	})
}
