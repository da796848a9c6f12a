package details

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"

	v1 "github.com/pluralsh/plural/api/v1"
	"github.com/pluralsh/plural/cli/client"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
)

var update = flag.Bool("update", false, "write the golden files anew")

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *time.Time { return new(now.Add(-d)) }

// hub answers with what it was given by path: a value as JSON, a text as it is, a status as a refusal.
type hub struct {
	mu      sync.Mutex
	answers map[string]any
	asked   []string
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Method+" "+r.URL.RequestURI())
	answer, ok := h.answers[r.URL.Path]
	h.mu.Unlock()
	switch answer := answer.(type) {
	case http.HandlerFunc:
		answer(w, r)
	case string:
		_, _ = fmt.Fprint(w, answer)
	default:
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = v1.Error{Message: "there is no " + r.URL.Path, Fix: "look elsewhere"}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (h *hub) set(path string, answer any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers[path] = answer
}

// world is one with a hub that gives these answers.
func world(t *testing.T, answers map[string]any) (*pane.World, *hub) {
	t.Helper()
	h := &hub{answers: answers}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, "t0ken", "test")
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	return &pane.World{
		Context: t.Context(), Hub: c, Look: paint.NewLook(paint.Options{Color: true, Dark: true}), Now: clock, Fleet: model.New(clock),
	}, h
}

// stage is a pane that is played with.
type stage struct {
	t *testing.T
	pane.Pane
	w        *pane.World
	messages chan tea.Msg
	// asked are messages for the console.
	asked []tea.Msg
	busy  int
}

// open opens a pane, and waits for its first answers.
func open(t *testing.T, w *pane.World, name string, about pane.Subject) *stage {
	t.Helper()
	made, err := Panes()[name](w, about, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, Pane: made, w: w, messages: make(chan tea.Msg, 100)}
	if c, ok := made.(pane.Closing); ok {
		t.Cleanup(c.Close)
	}
	s.run(made.Init())
	return s
}

func (s *stage) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	s.busy++
	go func() { s.messages <- cmd() }()
}

// play takes messages in until done, or until nothing is under way where done is nil.
func (s *stage) play(done func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for (done == nil && s.busy > 0) || (done != nil && !done()) {
		select {
		case <-deadline:
			s.t.Fatalf("it never came to that:\n%s", s.screen(100, 30))
		case msg := <-s.messages:
			s.busy--
			s.take(msg)
		}
	}
}

func (s *stage) take(msg tea.Msg) {
	switch msg := msg.(type) {
	case tea.BatchMsg:
		for _, cmd := range msg {
			s.run(cmd)
		}
	case pane.Open, pane.Told, pane.Back, pane.Push:
		s.asked = append(s.asked, msg)
	case nil:
	default:
		s.run(s.Update(msg))
	}
}

// press presses keys, a word each, and waits for what comes of it.
func (s *stage) press(keys string) {
	s.t.Helper()
	for _, word := range strings.Fields(keys) {
		s.run(s.Update(keyOf(word)))
	}
}

func keyOf(word string) tea.KeyPressMsg {
	named := map[string]tea.KeyPressMsg{
		"enter": {Code: tea.KeyEnter}, "left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "tab": {Code: tea.KeyTab},
		"shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift}, "pgdown": {Code: tea.KeyPgDown}, "pgup": {Code: tea.KeyPgUp},
		"ctrl+d": {Code: 'd', Mod: tea.ModCtrl},
	}
	if k, ok := named[word]; ok {
		return k
	}
	return tea.KeyPressMsg{Code: rune(word[0]), Text: word}
}

// screen is what is seen, without colours.
func (s *stage) screen(width, height int) string {
	look := s.w.Look
	s.w.Look = paint.NewLook(paint.Options{})
	defer func() { s.w.Look = look }()
	lines := s.Draw(width, height)
	for i, l := range lines {
		if paint.Width(l) > width {
			s.t.Errorf("line %d takes %d cells of %d: %q", i, paint.Width(l), width, l)
		}
		lines[i] = strings.TrimRight(l, " ")
	}
	if len(lines) > height {
		s.t.Errorf("%d lines of %d", len(lines), height)
	}
	note := ""
	if n, ok := s.Pane.(interface{ Note() string }); ok {
		note = " (" + n.Note() + ")"
	}
	return s.Title() + note + "\n" + strings.Join(lines, "\n") + "\n"
}

// golden compares the screens of a pane, at all sizes and without colours and all characters, with what was seen before.
func (s *stage) golden(name string) {
	s.t.Helper()
	var b strings.Builder
	for _, size := range [][2]int{{80, 20}, {120, 36}, {200, 56}} {
		fmt.Fprintf(&b, "-- %dx%d --\n%s", size[0], size[1], s.screen(size[0], size[1]))
	}
	look := s.w.Look
	for title, o := range map[string]paint.Options{"colours": {Color: true, Dark: true}} {
		s.w.Look = paint.NewLook(o)
		fmt.Fprintf(&b, "-- %s --\n%s\n", title, strings.ReplaceAll(strings.Join(s.Draw(100, 20), "\n"), "\x1b", "^"))
	}
	s.w.Look = paint.NewLook(paint.Options{ASCII: true})
	fmt.Fprintf(&b, "-- ASCII --\n%s\n", strings.Join(s.Draw(80, 20), "\n"))
	for _, r := range b.String()[strings.Index(b.String(), "-- ASCII"):] {
		if r > '~' {
			s.t.Errorf("%q is no ASCII", r)
		}
	}
	s.w.Look = look
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// says makes sure that a screen has all of these.
func (s *stage) says(texts ...string) {
	s.t.Helper()
	screen := s.screen(140, 60)
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			s.t.Errorf("%q is not in\n%s", text, screen)
		}
	}
}
