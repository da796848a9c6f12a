// Package progress owns the display of steps, live on a terminal and as lines elsewhere.
//
// It knows no step. One writer draws a terminal's lines again and again, another prints one line for each change, a third
// one JSON object for each: pipes and CI see no escape sequence.
package progress

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pluralsh/plural/cli/ui"
)

// Reporter hears of steps, which may overlap. Close ends what it draws.
type Reporter interface {
	Start(step string)
	Detail(step, text string)
	Done(step, text string)
	Fail(step string, err error)
	Close()
}

// New chooses the writer: JSON lines when asked for, a live screen on a terminal, else plain lines.
func New(s *ui.Streams, logFormat string, now func() time.Time) Reporter {
	switch {
	case logFormat == "json":
		return newLines(s.ErrOut, now, jsonLine)
	case s.ErrTTY && !s.Plain:
		return newScreen(s, now)
	}
	return newLines(s.ErrOut, now, plainLine)
}

// event is one change of one step.
type event struct {
	Time    time.Time `json:"time"`
	Step    string    `json:"step"`
	State   string    `json:"state"`
	Text    string    `json:"text,omitempty"`
	Seconds float64   `json:"seconds,omitempty"`
}

// lines writes a line for each change. Details that a step only repeats are left out.
type lines struct {
	mu      sync.Mutex // guards all below
	out     io.Writer
	now     func() time.Time
	started map[string]time.Time
	last    map[string]string // each step's newest detail
	format  func(event) string
}

func newLines(out io.Writer, now func() time.Time, format func(event) string) *lines {
	return &lines{out: out, now: now, started: map[string]time.Time{}, last: map[string]string{}, format: format}
}

func (l *lines) Start(step string)           { l.write(step, "started", "") }
func (l *lines) Detail(step, text string)    { l.write(step, "waiting", text) }
func (l *lines) Done(step, text string)      { l.write(step, "done", text) }
func (l *lines) Fail(step string, err error) { l.write(step, "failed", err.Error()) }
func (l *lines) Close()                      {}

func (l *lines) write(step, state, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == "waiting" && l.last[step] == text {
		return
	}
	l.last[step] = text
	at := l.now()
	if state == "started" {
		l.started[step] = at
	}
	_, _ = io.WriteString(l.out, l.format(event{at.UTC(), step, state, text, at.Sub(l.started[step]).Seconds()})) // nobody is left to tell
}

func jsonLine(e event) string {
	raw, _ := json.Marshal(e) // plain fields: cannot fail
	return ui.EscapeJSON(string(raw)) + "\n"
}

func plainLine(e event) string {
	line := fmt.Sprintf("%s %-8s %s", e.Time.Format(time.TimeOnly), e.State, ui.Clean(e.Step))
	if e.Text != "" {
		line += ": " + ui.Clean(e.Text)
	}
	if e.State == "done" {
		line += fmt.Sprintf(" (%.1fs)", e.Seconds)
	}
	return strings.TrimRight(line, " ") + "\n"
}
