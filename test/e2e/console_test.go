package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pluralsh/plural/test/support/needs"
)

// terminal is one that a person sits at: tmux knows what stands on its screen.
type terminal struct {
	t *testing.T
	*local
	tmux, socket string
}

// sit begins a program at a terminal.
func (l *local) sit(t *testing.T, args ...string) *terminal {
	t.Helper()
	needs.Program(t, "kubectl", "kubernetes-client")
	s := &terminal{t: t, local: l, tmux: needs.Program(t, "tmux", "tmux"), socket: filepath.Join(l.home, "run", "tmux")}
	words := append([]string{"new-session", "-d", "-x", "110", "-y", "30", filepath.Join(l.bin, "plural")}, args...)
	if out, err := s.do(words...); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	t.Cleanup(func() { _, _ = s.do("kill-server") }) // it may be over
	return s
}

func (s *terminal) do(args ...string) (string, error) {
	cmd := s.command(s.tmux, append([]string{"-u", "-f", os.DevNull, "-S", s.socket}, args...)...)
	cmd.Env = append(cmd.Env, "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "SHELL=/bin/sh", "TMUX=",
		"PATH="+s.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// screen is what stands there now.
func (s *terminal) screen() string {
	out, _ := s.do("capture-pane", "-p") // nothing stands there when the program is over
	return out
}

// sees waits until all of these patterns are on the screen at once.
func (s *terminal) sees(patterns ...string) {
	s.t.Helper()
	s.watch(patterns, func(screen string) bool {
		for _, p := range patterns {
			if !regexp.MustCompile(p).MatchString(screen) {
				return false
			}
		}
		return true
	})
}

// misses waits until a pattern is on the screen no more.
func (s *terminal) misses(pattern string) {
	s.t.Helper()
	s.watch([]string{"no " + pattern}, func(screen string) bool { return !regexp.MustCompile(pattern).MatchString(screen) })
}

func (s *terminal) watch(what []string, yes func(string) bool) {
	s.t.Helper()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	over := time.After(timeout)
	for {
		screen := s.screen()
		if yes(screen) {
			return
		}
		select {
		case <-ticks.C:
		case <-over:
			s.t.Fatalf("%q never came:\n%s", what, screen)
		}
	}
}

// keys presses keys, each a name of tmux's or some characters.
func (s *terminal) keys(keys ...string) {
	s.t.Helper()
	if out, err := s.do(append([]string{"send-keys"}, keys...)...); err != nil {
		s.t.Fatalf("press %q: %v: %s", keys, err, out)
	}
}

// types types a text as it is.
func (s *terminal) types(text string) {
	s.t.Helper()
	s.keys("-l", text)
}

// over waits until the program has ended.
func (s *terminal) over() {
	s.t.Helper()
	s.watch([]string{"the end"}, func(string) bool {
		_, err := s.do("has-session")
		return err != nil
	})
}

// TestConsole is an hour of a person at the console: the shipped program, in a terminal, at a fleet that lives.
func TestConsole(t *testing.T) {
	needs.Program(t, "tmux", "tmux")
	l := up(t)
	s := l.sit(t, "tui")
	s.sees(`3 clusters .*3 healthy`, `live\n`, `edge-1 +podinfo .*healthy +\d/\d`, `edge-2 +podinfo`, `\? help`)

	s.types("/@edge-1")
	s.sees(`/@edge-1`, `1 of 3`)
	s.keys("Enter")
	s.misses(`mgmt +podinfo`)
	s.keys("Enter")
	s.sees(`tree edge-1/podinfo`, `Deployment/podinfo .*healthy`, `Pod/podinfo-`, `, live`)
	s.keys("j", "j", "Enter")
	s.sees(`describe \w+/podinfo|fleet › tree`)
	s.keys("d")
	s.sees(`› describe \w+/podinfo`, `namespace +podinfo`, `as of \ds ago`)
	s.keys("Escape")
	s.misses(`describe \w+/`)
	s.keys("Escape")
	s.sees(`1 of 3`)
	s.keys("D")
	s.sees(`diff edge-1/podinfo`, `nothing differs: what runs on cluster edge-1 is what is desired`)
	s.keys("Escape")
	s.sees(`1 of 3`)

	before := l.git("rev-parse", "HEAD")
	s.keys("u")
	s.sees(`Suspend podinfo\? y/N`, `\+ +suspend: true`, `\$ plural service suspend podinfo`)
	s.keys("n")
	s.sees(`1 of 3`)
	s.keys("u")
	s.sees(`Suspend podinfo\? y/N`)
	s.keys("y")
	s.sees(`edge-1 +podinfo .*suspended`, `suspend podinfo: committed and pushed as`)
	suspended := l.git("rev-parse", "HEAD")
	if suspended == before || suspended != l.git("rev-parse", "@{upstream}") {
		t.Errorf("HEAD was %s, is %s, and is not what was pushed", before, suspended)
	}
	s.keys("u")
	s.sees(`Resume podinfo\? y/N`, `- +suspend: true`)
	s.keys("y")
	s.sees(`resume podinfo: committed and pushed as`, `\? help`)
	s.misses(`podinfo .*suspended`)
	resumed := l.git("rev-parse", "HEAD")

	s.keys("z")
	s.sees(`Undo the fleet's last commit\? y/N`, `\+ +suspend: true`)
	s.keys("y")
	s.sees(`edge-1 +podinfo .*suspended`, `undo the fleet's last commit: .*committed and pushed as`)
	undone := l.git("rev-parse", "HEAD")
	if parent := l.git("rev-parse", "HEAD^"); undone == resumed || parent != resumed {
		t.Errorf("HEAD is %s on %s, want one on %s", undone, parent, resumed)
	}
	if diff := l.git("diff", suspended, undone); diff != "" {
		t.Errorf("undoing the resumption is not what was before it:\n%s", diff)
	}
	s.keys("h")
	s.sees(`history podinfo|history edge-1/podinfo`, undone[:7]+` +current`, resumed[:7]+` +undone by `+undone[:7])
	s.keys("Escape")
	s.sees(`1 of 3`)

	s.types(":logs cl/edge-1")
	s.keys("Enter")
	s.sees(`logs edge-1`, `[1-9]\d* lines, following`, `20\d\d-\d\d-\d\dT`)
	s.keys("Escape")
	s.sees(`1 of 3`)
	s.keys("X")
	s.sees(`kubectl talks to cluster edge-1`, `\(edge-1\) \$`)
	s.types("kubectl get ns; echo code $?")
	s.keys("Enter")
	s.sees(`kube-system +Active`, `podinfo +Active`, `code 0`)
	s.types("exit")
	s.keys("Enter")
	s.sees(`1 of 3`, `\? help`)
	s.keys("@")
	s.sees(`commands`, `plural kube shell edge-1`, `plural undo`, `plural service resume podinfo`, `plural service suspend podinfo`)
	s.keys("Escape")

	l.run("local", "stop", "hub")
	s.sees(`hub away \d+s`, `podinfo .* [2-9]s `, `the hub of this fleet is stopped: plural local start hub`)
	l.run("local", "start", "hub")
	s.sees(`live\n`, `podinfo .* now`)
	s.keys("q")
	s.over()

	l.run("local", "stop", "hub")
	s = l.sit(t, "tui")
	s.sees(`offline, seen \d+\w+ ago`, `edge-1 +podinfo .* \d+s `, `the hub of this fleet is stopped: plural local start hub`)
	l.run("local", "start", "hub")
	s.sees(`live\n`, `podinfo .* now`)
	s.keys("C-c")
	s.over()
}
