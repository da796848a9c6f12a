package tui

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/google/go-cmp/cmp"

	"github.com/pluralsh/plural/cli/fleetcache"
	"github.com/pluralsh/plural/cli/tui/act"
	"github.com/pluralsh/plural/cli/tui/console"
	"github.com/pluralsh/plural/cli/tui/kinds"
	"github.com/pluralsh/plural/cli/tui/model"
	"github.com/pluralsh/plural/cli/tui/paint"
	"github.com/pluralsh/plural/cli/tui/pane"
	"github.com/pluralsh/plural/cli/tui/usercommands"
	"github.com/pluralsh/plural/workspace"
	"github.com/pluralsh/plural/workspace/views"
)

var update = flag.Bool("update", false, "write the golden files anew")

// today is when tests begin.
var today = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// clock begins today, and goes on as the test's own does.
func clock() func() time.Time {
	began := time.Now()
	return func() time.Time { return today.Add(time.Since(began)) }
}

// stage is a console that is played with: the real program, with all of its rooms, but for the terminal. It runs in a bubble of
// synctest, where time passes when a test says so.
type stage struct {
	t       *testing.T
	world   *pane.World
	seen    *fleetcache.Store
	program *tea.Program
	drawn   drawn
	// over is closed when the program has ended.
	over chan struct{}
}

// set is what a console finds when it begins.
type set struct {
	hub  *hub
	repo *workspace.Repo
	seen *fleetcache.Store
	look paint.Options
	now  func() time.Time
	line string
	// readOnly is --read-only, globals are the flags that it was given.
	readOnly bool
	globals  []string
	noMouse  bool
	env      []string
	// token is the one that is kept now.
	token func() (string, error)
	// own are the person's own commands, greeting is what is told at first.
	own      []usercommands.Command
	greeting pane.Told
	// out is the terminal; nil: nobody looks at it.
	out io.Writer
}

// open begins a console, and lets it find what there is.
func open(t *testing.T, s set) *stage {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	st := &stage{t: t, seen: s.seen, over: make(chan struct{})}
	st.world = &pane.World{
		Context: ctx, Fleet: model.New(s.now), Repo: s.repo, Look: paint.NewLook(s.look), Now: s.now, ReadOnly: s.readOnly,
	}
	if s.repo != nil {
		st.world.Views = func() ([]views.View, error) { return shared(s.repo) }
	}
	if s.hub != nil {
		st.world.Hub = s.hub.client(t)
	}
	st.world.Kinds = kinds.New(st.world.Hub, s.now)
	st.world.Source = model.FromBoth(st.world.Hub, s.repo, s.seen, model.Options{Now: s.now, Token: s.token})
	desk := act.New(st.world, act.Runner{Program: os.Args[0], Globals: s.globals, Env: append(append(os.Environ(), asProgram+"=1"), s.env...)})
	desk.Add(s.own)
	keep := func() func() error { return nil }
	if s.seen != nil {
		keep = func() func() error { return st.world.Fleet.Remember(s.seen) }
	}
	model, err := newModel(st.world, desk, keep, s.line, s.greeting, s.noMouse)
	if err != nil {
		t.Fatal(err)
	}
	out := io.Discard
	if s.out != nil {
		out = s.out
	}
	st.program = tea.NewProgram(watched{model, st.world, &st.drawn},
		tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithoutCatchPanics(), tea.WithWindowSize(80, 24),
		tea.WithColorProfile(colorprofile.ANSI256), tea.WithEnvironment([]string{"TERM=xterm-256color"}))
	followed := make(chan struct{})
	go func() {
		defer close(st.over)
		if _, err := st.program.Run(); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	go func() {
		defer close(followed)
		follow(ctx, st.world, st.program)
	}()
	t.Cleanup(func() {
		st.program.Quit()
		cancel()
		<-st.over
		<-followed
		model.Close()
		desk.Close()
		<-time.After(time.Minute) // the program does not wait for ticks
	})
	st.pass(300 * time.Millisecond)
	return st
}

// drawn is the newest view, with how it is meant to look.
type drawn struct {
	mu   sync.Mutex
	view tea.View
	look paint.Options
}

func (d *drawn) get() (tea.View, paint.Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view, d.look
}

// watched is the console, of which the newest view is kept.
type watched struct {
	*console.Model
	world *pane.World
	drawn *drawn
}

func (w watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	_, cmd := w.Model.Update(msg)
	return w, cmd
}

func (w watched) View() tea.View {
	w.drawn.mu.Lock()
	defer w.drawn.mu.Unlock()
	w.drawn.view, w.drawn.look = w.Model.View(), w.world.Look.Options()
	return w.drawn.view
}

// pass lets time pass, and everything come to rest.
func (s *stage) pass(d time.Duration) {
	synctest.Wait()
	<-time.After(d)
	synctest.Wait()
}

// named are keys that are no characters.
var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "space": tea.KeySpace, "up": tea.KeyUp, "down": tea.KeyDown,
	"left": tea.KeyLeft, "right": tea.KeyRight, "pgdown": tea.KeyPgDown, "pgup": tea.KeyPgUp, "home": tea.KeyHome, "end": tea.KeyEnd,
	"backspace": tea.KeyBackspace, "delete": tea.KeyDelete,
}

var keyword = regexp.MustCompile(`^<(ctrl\+|shift\+)?([a-z]+)>`)

// keys reads text as keys: "jj<enter>/web<ctrl+c>".
func keys(text string) []tea.KeyPressMsg {
	var all []tea.KeyPressMsg
	for text != "" {
		if m := keyword.FindStringSubmatch(text); m != nil {
			var k tea.KeyPressMsg
			switch m[1] {
			case "ctrl+":
				k.Mod = tea.ModCtrl
			case "shift+":
				k.Mod = tea.ModShift
			}
			if k.Code = named[m[2]]; k.Code == 0 {
				k.Code = rune(m[2][0])
			}
			all, text = append(all, k), text[len(m[0]):]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		all, text = append(all, tea.KeyPressMsg{Code: r, Text: string(r)}), text[n:]
	}
	return all
}

// press presses keys, and waits for what comes of each.
func (s *stage) press(text string) {
	for _, k := range keys(text) {
		s.program.Send(k)
		synctest.Wait()
	}
	s.pass(300 * time.Millisecond)
}

func (s *stage) resize(width, height int) {
	s.program.Send(tea.WindowSizeMsg{Width: width, Height: height})
	synctest.Wait()
}

// screen is what is seen now, in so many cells. Nothing on it may harm a terminal.
func (s *stage) screen(width, height int) string {
	s.t.Helper()
	s.resize(width, height)
	view, look := s.drawn.get()
	text := view.Content
	for _, wrong := range harm(text, width, height, look) {
		s.t.Error(wrong)
	}
	if c := view.Cursor; c != nil {
		text += fmt.Sprintf("\n[cursor in column %d of line %d]", c.X, c.Y)
	}
	return text
}

var colors = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// harm says what is wrong with a screen, whatever it shows.
func harm(text string, width, height int, look paint.Options) []string {
	var wrong []string
	lines := strings.Split(text, "\n")
	if len(lines) > max(height, 1) {
		wrong = append(wrong, fmt.Sprintf("%d lines of %d", len(lines), height))
	}
	for i, line := range lines {
		if n := paint.Width(line); n > width {
			wrong = append(wrong, fmt.Sprintf("line %d takes %d cells of %d: %q", i, n, width, line))
		}
		if look.Color {
			line = colors.ReplaceAllString(line, "")
		}
		for _, r := range line {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == utf8.RuneError || r == '\u202e' || look.ASCII && r > '~' {
				wrong = append(wrong, fmt.Sprintf("line %d has %q: %q", i, r, line))
				break
			}
		}
	}
	return wrong
}

// shows makes sure that a screen has all of these.
func (s *stage) shows(texts ...string) {
	s.t.Helper()
	screen := colors.ReplaceAllString(s.screen(120, 40), "")
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			s.t.Errorf("%q is not in\n%s", text, screen)
		}
	}
}

// compare compares with a golden file.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}
